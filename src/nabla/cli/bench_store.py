"""`nabla bench store`: requests of a refresh on an object store."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nabla.cli.options import DebugOption
from nabla.cli.output import out, reporting


@reporting
def store(
    rounds: Annotated[int, typer.Option(min=1, help="Transactions, each followed by a refresh.")] = 21,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Requests of small transactions and refreshes on an S3 server of this machine, which `make test-store` installs."""
    from nabla.dev.bench.store import found_shop, measure, table
    from nabla.dev.testing.object_store import running

    with tempfile.TemporaryDirectory(prefix="nabla-bench-") as folder:
        found_shop(Path(folder) / "founded")
        with running(Path(folder) / "s3") as server:
            measured = measure(server, Path(folder) / "founded", rounds)
    out().print(table(measured), markup=False, highlight=False)
    if as_json:
        print(json.dumps([{"transaction": dict(r.written), "refresh": dict(r.refreshed)} for r in measured]))  # noqa: T201
