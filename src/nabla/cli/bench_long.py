"""`nabla bench long`: the life of a lake with thousands of transactions and refreshes."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nabla.cli.options import DebugOption
from nabla.cli.output import out, reporting


@reporting
def long(
    cycles: Annotated[int, typer.Option(min=1, help="Transactions, each followed by a refresh of three views.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """A long life: files, bytes and seconds of a refresh at its beginning and at its end, with housekeeping."""
    from nabla.dev.bench.long_life import live

    def say(text: str) -> None:
        out().print(f"[{time.strftime('%H:%M:%S')}] {text}", markup=False, highlight=False)
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="nabla-bench-") as folder:
        life = live(Path(folder) / "lake", cycles, say)
    out().print(str(life), markup=False, highlight=False)
    if as_json:
        print(json.dumps({**asdict(life), "ratio": life.ratio}))  # noqa: T201
