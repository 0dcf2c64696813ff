"""The queries of a benchmark as views: rounds of changes, each view refreshed and recomputed."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nabla
from nabla.dev.bench.measure import (
    BUILD,
    FAILED,
    ChangeRound,
    Measurement,
    Recomputed,
    code_of,
    failure,
    measure_builds,
    measure_round,
    recompute,
)
from nabla.dev.bench.peers import Peer
from nabla.dev.bench.suite import Suite
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.planner.steps import Mode

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workload:
    """The settings of a measurement. `changes` are in percent of the rows that change; `rounds` are for each size and kind of
    change and each mode. All views of the benchmark are measured where none are named."""

    scale: float = 1.0
    changes: tuple[float, ...] = (0.1,)
    views: tuple[str, ...] = ()
    rounds: int = 3
    modes: tuple[Mode, ...] = ("auto",)
    kinds: tuple[str, ...] = ("mixed",)
    verify: bool = False
    builds: bool = False
    against: tuple[type[Peer], ...] = ()
    warm: bool = True


def run(suite: Suite, workload: Workload, data: Path, folder: Path, say: Say) -> Iterator[Measurement]:
    """Yield all measurements as they are made. A lake in the folder from an earlier run is used again."""
    lake, scratch = nabla.open(folder), folder.with_name(folder.name + "-scratch")
    generated = suite.generate(data, workload.scale)
    if not lake.status():
        say(f"loading {suite.title} scale {workload.scale:g}")
    suite.load(lake, generated)
    views = {name: suite.query(name, generated) for name in workload.views or suite.names}
    yield from _built(lake, views, workload, scratch, say)
    there = lake.status()
    views = {name: sql for name, sql in views.items() if name in there}
    peers = [make(lake, views, folder.with_name(f"{folder.name}-{make.name}")) for make in workload.against]
    if workload.warm:
        _warm(suite, lake, views, workload, scratch, say)
    for change, kind, turn in itertools.product(workload.changes, workload.kinds, range(workload.rounds)):
        recomputed: Recomputed = {}
        for mode in workload.modes:
            changed = suite.change(lake, change / 100, lake.version, kind)
            say(f"{change:g} % {kind}, {mode}: {changed}")
            found: dict[str, Measurement] = {}
            now = ChangeRound(workload.scale, change, kind, refresh_first=turn % 2 == 0)
            for one in measure_round(lake, views, now, scratch, mode, recomputed, workload.verify):
                say(_words(one))
                if one.mode != FAILED:
                    found[one.view] = one
                yield one
            for peer in peers:
                yield from peer.follow(found)


def _words(one: Measurement) -> str:
    if one.mode == FAILED:
        return f"{one.view} failed after {one.refresh_seconds:.1f} s: {one.problem}"
    took = f"{one.view} {one.mode} in {one.refresh_seconds:.2f} s, recomputed in {one.recompute_seconds:.2f} s"
    return f"{took}, {one.verdict}" if one.verdict else took


def _warm(suite: Suite, lake: Lake, views: Mapping[str, str], workload: Workload, scratch: Path, say: Say) -> None:
    """A small change of every kind that is not measured: the first refresh of a view in a process and the first recompute
    are slower than all others. Views that fail are told of when they are measured."""
    for kind in workload.kinds:
        suite.change(lake, min(workload.changes) / 100, lake.version, kind)
        for view in views:
            with suppress(Exception):
                lake.refresh(view, mode="incremental")
    for view, sql in views.items():
        with suppress(Exception):
            if "full" in workload.modes:
                lake.refresh(view, mode="full")
            recompute(lake, sql, scratch / view)
    say("warmed up")


def _built(lake: Lake, views: Mapping[str, str], workload: Workload, scratch: Path, say: Say) -> Iterator[Measurement]:
    there = lake.status()
    missing = {name: sql for name, sql in views.items() if name not in there}
    if workload.builds:
        for one in measure_builds(lake, missing, workload.scale, scratch, workload.rounds):
            say(
                f"built {one.view} in {one.refresh_seconds:.1f} s, Spark wrote its rows in {one.recompute_seconds:.1f} s"
                if one.mode != FAILED
                else f"{one.view} cannot be built: {one.problem}"
            )
            yield one
        return
    for name, sql in missing.items():
        begun = time.perf_counter()
        try:
            report = lake.create_view(name, sql)
        except Exception as error:
            say(f"{name} cannot be built: {code_of(error)}")
            yield failure(ChangeRound(workload.scale, 0, "none"), name, BUILD, time.perf_counter() - begun, error)
        else:
            say(f"built {name} in {report.seconds:.1f} s, {report.inserted} rows")


def chosen(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """`all`, or queries by number or name: `1,3,6` or `q01,q03`. A number stands for all variants of its query."""
    if text == "all":
        return tuple(names)
    found: dict[str, None] = {}
    for part in text.split(","):
        word = re.sub(r"^q?(\d+)", lambda digits: f"q{int(digits[1]):02d}", part.strip().lower())
        mine = [name for name in names if re.match(rf"{re.escape(word)}(?!\d)", name)]
        if not mine:
            raise NablaError(
                "NABLA_BENCH", f"there is no query {part.strip()!r}", remedy=f"There are {', '.join(names)}."
            )
        found |= dict.fromkeys(mine)
    return tuple(found)


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
