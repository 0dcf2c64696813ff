"""The 22 TPC-H queries as views: rounds of changes, each view refreshed and recomputed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nabla
from nabla.dev.bench import tpch
from nabla.dev.bench.measure import ChangeRound, Measurement, Recomputed, measure_builds, measure_round, recompute
from nabla.dev.bench.peers import Peer
from nabla.lake.facade import Lake
from nabla.planner.steps import Mode

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workload:
    """The settings of a measurement. `changes` are in percent of the orders, or of the customers, parts and suppliers;
    `rounds` are for each size and kind of change and each mode."""

    scale: float = 1.0
    changes: tuple[float, ...] = (0.1,)
    views: tuple[int, ...] = tpch.QUERIES
    rounds: int = 3
    modes: tuple[Mode, ...] = ("auto",)
    kinds: tuple[tpch.Kind, ...] = ("mixed",)
    place: tpch.Spread = "scattered"
    verify: bool = False
    builds: bool = False
    against: tuple[type[Peer], ...] = ()
    spellings: tuple[tpch.Spelling, ...] = ("year",)


def run(workload: Workload, data: Path, folder: Path, say: Say) -> Iterator[Measurement]:
    """Yield all measurements as they are made. A lake in the folder from an earlier run is used again."""
    lake, scratch = nabla.open(folder), folder.with_name(folder.name + "-scratch")
    if not lake.status():
        say(f"loading TPC-H scale {workload.scale:g}")
        tpch.load(lake, tpch.generate(data, workload.scale))
    views = {
        tpch.view_name(n, spelling): tpch.query(n, spelling) for n in workload.views for spelling in workload.spellings
    }
    yield from _built(lake, views, workload, scratch, say)
    peers = [make(lake, views, folder.with_name(f"{folder.name}-{make.name}")) for make in workload.against]
    rounds = itertools.product(workload.changes, workload.kinds, range(workload.rounds))
    number = _warm(lake, views, workload, scratch, say)
    for change, kind, turn in rounds:
        recomputed: Recomputed = {}
        for mode in workload.modes:
            changed = tpch.change(lake, change / 100, number, kind, workload.place)
            number += 1
            say(f"{change:g} % {kind}, {mode}: {changed}")
            found: dict[str, Measurement] = {}
            now = ChangeRound(workload.scale, change, kind, refresh_first=turn % 2 == 0)
            for one in measure_round(lake, views, now, scratch, mode, recomputed):
                say(
                    f"{one.view} {one.mode} in {one.refresh_seconds:.2f} s, recomputed in {one.recompute_seconds:.2f} s"
                )
                found[one.view] = one
                yield one
            for peer in peers:
                yield from peer.follow(found)
            if workload.verify:
                lake.verify(*views)
                say("verified: every view equals its query")


def _warm(lake: Lake, views: Mapping[str, str], workload: Workload, scratch: Path, say: Say) -> int:
    """A small change of every kind that is not measured: the first refresh of a view in a process and the first recompute
    are slower than all others. Gives the number of the first round."""
    first = len(lake.history("orders"))
    for number, kind in enumerate(workload.kinds, first):
        tpch.change(lake, min(workload.changes) / 100, number, kind, workload.place)
        for view in views:
            lake.refresh(view, mode="incremental")
    for view, sql in views.items():
        if "full" in workload.modes:
            lake.refresh(view, mode="full")
        recompute(lake, sql, scratch / view)
    say("warmed up")
    return first + len(workload.kinds)


def _built(lake: Lake, views: Mapping[str, str], workload: Workload, scratch: Path, say: Say) -> Iterator[Measurement]:
    missing = {name: sql for name, sql in views.items() if name not in lake.status()}
    if workload.builds:
        for one in measure_builds(lake, missing, workload.scale, scratch, workload.rounds):
            say(
                f"built {one.view} in {one.refresh_seconds:.1f} s, Spark wrote its rows in {one.recompute_seconds:.1f} s"
            )
            yield one
        return
    for name, sql in missing.items():
        report = lake.create_view(name, sql)
        say(f"built {name} in {report.seconds:.1f} s, {report.inserted} rows")


def chosen(text: str) -> tuple[int, ...]:
    """`all`, or query numbers: `1,3,6` or `q01,q03`."""
    if text == "all":
        return tpch.QUERIES
    return tuple(int(part.strip().lower().removeprefix("q")) for part in text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
