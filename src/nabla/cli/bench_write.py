"""`nabla bench write`: what writes cost, beside Spark and delta-spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from nabla.cli.bench import DataFolder, DebugOption, JsonOption, say, scratch
from nabla.cli.output import out, reporting


@reporting
def write(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 1.0,
    change: Annotated[str, typer.Option(help="Changed orders in percent; several as 0.1,1,10.")] = "0.1,1,10",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each write; medians are shown.")] = 3,
    delta: Annotated[
        str,
        typer.Option(help="Let delta-spark make the same changes: its jars, or `packages` to let Spark fetch them."),
    ] = "",
    data: DataFolder = Path("bench/data"),
    results: Annotated[Path | None, typer.Option(help="Add all measurements to this file.")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Loading, transactions, a few rows and large updates, beside Spark writing Parquet and delta-spark's MERGE and DELETE."""
    from nabla.dev.bench import write as measured
    from nabla.dev.bench.records import Records
    from nabla.dev.bench.run import numbers

    with scratch() as folder:
        found = Records(measured.Timed, results)
        for one in measured.run(measured.Load(scale, numbers(change), rounds, delta), data, folder, say):
            found.add(one)
    out().print(measured.section(found.all).text(), markup=False, highlight=False)
    if as_json:
        print(json.dumps([one.to_json() for one in found.all]))  # noqa: T201
