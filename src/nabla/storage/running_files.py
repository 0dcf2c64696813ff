"""Files that tell other processes what this one is doing to a lake: one for each run, written anew with every heartbeat.

They help whoever looks on, and nothing depends on them. So they are neither synced nor written through the port to the machine,
no failure here is an error, and a lake at a URL has none: each heartbeat would be a request. A process that dies leaves its
file; readers take it for dead when the heartbeat stops, and a vacuum deletes it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from nabla.storage import locations
from nabla.storage.boundary import RUNNING

FORMAT = 1
EXPIRES = 15.0
"""Seconds without a heartbeat after which a run counts as dead."""
MOST_CHARACTERS = 4_000_000
"""The part of a file that is read: a lake of somebody else may have anything there."""
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json(\.tmp)?")


def write_running(lake: str, run: str, content: Mapping[str, Any]) -> bool:
    """Write the file of a run, or write it anew. Whether that worked."""
    folder = os.path.join(lake, RUNNING)
    if locations.is_url(lake) or os.path.islink(folder):
        return False
    path = os.path.join(folder, f"{run}.json")
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder)  # not the folders above it: a lake that is gone stays so
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **content}, file)
        os.replace(f"{path}.tmp", path)
    except (OSError, ValueError):
        return False
    return True


def remove_running(lake: str, run: str) -> None:
    """Remove the file of a run that is over."""
    if locations.is_url(lake):
        return
    for ending in (".json", ".json.tmp"):
        with suppress(OSError):
            os.remove(os.path.join(lake, RUNNING, f"{run}{ending}"))


def read_running(lake: str) -> Iterator[dict[str, Any]]:
    """The content of all files whose heartbeat has not stopped."""
    for path, age in _files(lake):
        if age >= EXPIRES or not path.endswith(".json"):
            continue
        with suppress(OSError, ValueError, RecursionError):
            with open(path, encoding="utf-8") as file:
                content = json.loads(file.read(MOST_CHARACTERS))
            if isinstance(content, dict) and content.get("format") == FORMAT:
                yield content


def dead_runs(lake: str) -> list[str]:
    """The files that processes left when they died."""
    return [path for path, age in _files(lake) if age >= EXPIRES]


def _files(lake: str) -> Iterator[tuple[str, float]]:
    folder = os.path.join(lake, RUNNING)
    if locations.is_url(lake) or os.path.islink(folder):
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in filter(_NAME.fullmatch, names):
        path = os.path.join(folder, name)
        with suppress(OSError):
            if not os.path.islink(path):
                yield path, time.time() - os.stat(path).st_mtime
