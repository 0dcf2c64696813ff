"""Processes for tests: forks of a server that has imported everything and used nothing, so that they start in milliseconds and
inherit no threads."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

_CONTEXT = multiprocessing.get_context("forkserver")


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A process that calls a function of this test's module."""
    _CONTEXT.set_forkserver_preload(["test_killed", "test_lake_log", "pyarrow.dataset", "pyarrow.acero"])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11 does not tell the server where modules are. Without this every fork imports them anew.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    process = _CONTEXT.Process(target=target, args=arguments)
    process.start()
    return process
