"""The demo itself: change, refresh, recompute for comparison, show."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

import nabla
from nabla.cli.output import cell, mode_cell, out, table, working
from nabla.dev.demo.business import ROUNDS
from nabla.dev.demo.shop import SQL_VIEWS, VIEWS, Shop, big_spenders, build
from nabla.errors import NablaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nabla.lake.facade import Lake
    from nabla.lake.reports import ViewReport

HEADERS = ("view", "mode", "+", "-", "seconds", "recompute", "how")


@dataclass(frozen=True)
class RefreshedView:
    """One view in one round. `recompute` are the seconds that Spark took to run its query and write the result."""

    view: str
    mode: str
    how: str
    inserted: int
    deleted: int
    seconds: float
    recompute: float


@dataclass(frozen=True)
class RoundResult:
    """A round: the refresh of all views against recomputing them one after the other, in seconds."""

    title: str
    seconds: float
    recompute: float
    views: tuple[RefreshedView, ...]


def run_demo(folder: Path | None, quiet: bool = False, small: bool = False) -> list[RoundResult]:
    """Build the shop, let it do business, verify. The lake is kept if a folder is given."""
    with _lake_folder(folder) as place:
        with working("Starting Spark", quiet) as tell:
            lake = nabla.open(place)
            shop = Shop(small)
            start = time.monotonic()
            build(lake, shop, tell)
        if not quiet:
            _introduce(lake, time.monotonic() - start)
        results = []
        for round_ in ROUNDS:
            with working(round_.title, quiet) as tell:
                round_.change(lake, shop)
                tell("Refreshing")
                result = _measure(lake, round_.title, tell)
            results.append(result)
            if not quiet:
                _show(result)
        with working("Verifying", quiet):
            lake.verify()
        if not quiet:
            _conclude(results, folder)
        return results


@contextlib.contextmanager
def _lake_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        if folder.exists() and any(folder.iterdir()):
            raise NablaError(
                "NABLA_FOLDER_EXISTS",
                "the folder is not empty",
                place=str(folder),
                remedy="Choose another.",
            )
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="nabla-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name) / "shop"


def _measure(lake: Lake, title: str, tell: Callable[[str], None]) -> RoundResult:
    start = time.monotonic()
    reports = lake.refresh(progress=lambda report: tell(f"Refreshed {report.name}"))
    seconds = time.monotonic() - start
    tell("Recomputing, to compare")
    recomputes = {name: _recompute(lake, name) for name in VIEWS}
    views = tuple(_refreshed_view(lake, reports[name], recomputes[name]) for name in VIEWS)
    return RoundResult(title, seconds, sum(recomputes.values()), views)


def _refreshed_view(lake: Lake, report: ViewReport, recompute: float) -> RefreshedView:
    how = _rules(lake, report.name) if report.mode == "incremental" else report.reason.partition(":")[0]
    return RefreshedView(report.name, report.mode, how, report.inserted, report.deleted, report.seconds, recompute)


def _rules(lake: Lake, name: str) -> str:
    """The rules that apply to the view, in short."""
    laws = [law.partition(":")[0] for law in lake.explain(name).laws]
    return ", ".join(law.replace("_", " ") for law in laws if law != "scan")


def _recompute(lake: Lake, name: str) -> float:
    """The seconds of the view without Nabla: Spark runs its query on the current tables and writes the result."""
    with tempfile.TemporaryDirectory() as scratch:
        start = time.monotonic()
        _query(lake, name).write.parquet(f"{scratch}/view")
        return time.monotonic() - start


def _query(lake: Lake, name: str) -> DataFrame:
    return lake.sql(SQL_VIEWS[name]) if name in SQL_VIEWS else big_spenders(lake)


def _introduce(lake: Lake, seconds: float) -> None:
    status = lake.status().values()
    console = out()
    for kind in ("table", "view"):
        sizes = ", ".join(f"{s.name} ({cell(s.rows)})" for s in status if s.kind == kind)
        console.print(f"[bold]{kind}s[/]  {escape(sizes)}")
    console.print(f"[dim]built in {seconds:.1f} s[/]\n")


def _show(result: RoundResult) -> None:
    grid = table(HEADERS, [], numbers=("+", "-", "seconds", "recompute"), tail="how")
    for v in result.views:
        numbers = (cell(v.inserted), cell(v.deleted), cell(v.seconds), cell(v.recompute))
        grid.add_row(cell(v.view), mode_cell(v.mode), *numbers, cell(v.how))
    console = out()
    console.print(f"[bold]{escape(result.title)}[/]")
    console.print(grid)
    console.print(f"[dim]all views: {result.seconds:.2f} s, recomputing them: {result.recompute:.2f} s[/]\n")


def _conclude(results: list[RoundResult], folder: Path | None) -> None:
    refreshed, recomputed = sum(r.seconds for r in results), sum(r.recompute for r in results)
    console = out()
    console.print("[green]verified[/]  every view equals its query, row for row")
    console.print(f"{len(results)} refreshes took {refreshed:.1f} s, recomputing {recomputed:.1f} s")
    if folder is not None:
        console.print(f"The lake is in {folder}: try `nabla status --lake {folder}`", markup=False)
