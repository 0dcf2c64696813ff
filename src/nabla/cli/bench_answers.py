"""`nabla bench answers`: queries from views that the advisor chose, against the plain queries."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated

import typer

from nabla.cli.bench import DataFolder, DebugOption, JsonOption, LakeFolder, say, scratch
from nabla.cli.output import out, print_json, reporting, table


@reporting
def answers(
    suite: Annotated[str, typer.Option(help="ssb, the star schema benchmark, or tpch.")] = "ssb",
    scale: Annotated[float, typer.Option(help="Scale factor of TPC-H, from whose tables those of ssb are made.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds for each query; medians are shown.")] = 3,
    data: DataFolder = Path("bench/data"),
    lake: LakeFolder = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let the advisor choose views for a workload, change the tables, and time every query from views and from tables."""
    import nabla
    from nabla.dev.bench.answers import run, suite_of

    with scratch() as folder:
        opened = nabla.open(lake or folder / "lake")
        grid = table(("query", "plain", "from views", "ratio", "fewer rows", "views", "exact"), [])
        found = []
        for one in run(opened, suite_of(suite, data, scale), rounds, say):
            found.append(one)
            views = ", ".join(f"{v} + pending" if v in one.pending else v for v in one.views) or "–"
            cells = (f"{one.plain:.2f} s", f"{one.answered:.2f} s", f"{one.ratio:.2f}", f"{one.predicted:.1f}")
            grid.add_row(one.name, *cells, views, "yes" if one.exact else "NO")
        out().print(grid)
        whole = sum(one.plain for one in found) / sum(one.answered for one in found)
        mean = statistics.geometric_mean([one.ratio for one in found])
        worst = min(one.ratio for one in found)
        out().print(f"workload {whole:.1f} times faster, mean of queries {mean:.1f}, worst {worst:.2f}")
        if as_json:
            print_json([one.__dict__ for one in found])
        if not all(one.exact for one in found):
            raise typer.Exit(1)
