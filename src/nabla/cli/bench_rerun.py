"""`nabla bench rerun`: the second run of a project after one percent of new input."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nabla.cli.options import DebugOption
from nabla.cli.output import mode_cell, out, reporting, table


@reporting
def rerun(
    size: Annotated[int, typer.Option(min=100, help="Rows of the largest table of each project.")] = 200_000,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Projects that get one percent of new input and are run again: mode and rows of each view, beside its first build."""
    from nabla.dev.bench.rerun import rerun as run_twice

    def say(text: str) -> None:
        out().print(text, markup=False, highlight=False)
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="nabla-bench-") as folder:
        found = run_twice(Path(folder), size, say)
    headings = ("project", "view", "rows", "built in s", "mode", "inserted", "deleted", "seconds")
    grid = table(headings, [], numbers=("rows", "built in s", "inserted", "deleted", "seconds"))
    for one in found:
        counts = (f"{one.inserted:,}", f"{one.deleted:,}", f"{one.seconds:.2f}")
        grid.add_row(one.project, one.view, f"{one.rows:,}", f"{one.built_seconds:.2f}", mode_cell(one.mode), *counts)
    out().print(grid)
    if as_json:
        print(json.dumps([one.to_dict() for one in found]))  # noqa: T201
