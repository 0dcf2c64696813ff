"""Queries answered from the views that `lake.advise` chooses, against the plain queries, on two benchmarks."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from nabla.dev.bench import ssb, tpch
from nabla.errors import NablaError
from nabla.lake.facade import Lake

SHARE = 0.2
"""The part of the tables' size that views may take."""


@dataclass(frozen=True)
class Answered:
    """A query: seconds from the tables and from views, those that were predicted, and the views."""

    name: str
    plain: float
    answered: float
    predicted: float
    views: tuple[str, ...]
    pending: tuple[str, ...]
    exact: bool

    @property
    def ratio(self) -> float:
        return self.plain / self.answered


@dataclass(frozen=True)
class Suite:
    """A benchmark's tables and queries."""

    queries: dict[str, str]
    load: Callable[[Lake], None]
    change: Callable[[Lake], None]


def suite_of(name: str, data: Path, scale: float) -> Suite:
    """The star schema benchmark (ssb), or TPC-H (tpch)."""
    if name == "ssb":
        folder = ssb.generate(data, scale)
        queries = {f"q{number.replace('_', '.')}": ssb.query(number) for number in ssb.QUERIES}
        return Suite(queries, lambda lake: ssb.load(lake, folder), lambda lake: ssb.change(lake, 0.001, 0))
    if name == "tpch":
        folder = tpch.generate(data, scale)
        queries = {tpch.view_name(number): tpch.query(number) for number in tpch.QUERIES}

        def change(lake: Lake) -> None:
            tpch.change_orders(lake, 0.001, 0)

        return Suite(queries, lambda lake: tpch.load(lake, folder), change)
    raise NablaError("NABLA_ARGUMENT", f"{name!r} is no suite", place="--suite", remedy="Choose ssb or tpch.")


def run(lake: Lake, suite: Suite, rounds: int, say: Callable[[str], None]) -> Iterator[Answered]:
    """Measure the queries, let the advisor choose views, create them, change the tables, and measure again."""
    suite.load(lake)
    tables = [lake.context.log.snapshot(e.parts["data"]).bytes for e in lake.context.log.state().entries.values()]
    space = round(SHARE * sum(tables))
    say(f"advising, with room for {space / 1e6:.0f} MB")
    begun = time.perf_counter()
    advice = lake.advise(list(suite.queries.values()), space=space)
    say(
        f"advised in {time.perf_counter() - begun:.1f} s; the workload of {advice.seconds:.1f} s is to take {advice.then:.1f} s"
    )
    for proposal in advice:
        begun = time.perf_counter()
        lake.create_advised(proposal)
        state = lake.context.log.state().entries[proposal.name]
        size = sum(lake.context.log.snapshot(part).bytes for name, part in state.parts.items() if name != "feed")
        sizes = f"{proposal.bytes / 1e6:.1f} MB predicted, {size / 1e6:.1f} MB stored"
        taken = time.perf_counter() - begun
        say(f"{proposal.name}: {len(proposal.serves)} queries, {sizes}, built in {taken:.1f} s")
    suite.change(lake)
    say("changed 0.1 % of the rows; the views are behind")
    for name, text in suite.queries.items():
        yield _measure(lake, name, text, rounds)


def _measure(lake: Lake, name: str, text: str, rounds: int) -> Answered:
    plain: list[float] = []
    answered: list[float] = []
    rows: list[Counter[object]] = []
    answer = lake.answer(text)
    for number in range(rounds + 1):  # the first round finds everything cold
        for kind in ("plain", "answered") if number % 2 else ("answered", "plain"):
            begun = time.perf_counter()
            frame = lake.sql(text, views="never" if kind == "plain" else "auto")
            found = _bag(frame)
            (plain if kind == "plain" else answered).append(time.perf_counter() - begun)
            rows.append(found)
    predicted = answer.estimates.plain_rows / max(1.0, answer.estimates.rows) if answer.views else 1.0
    return Answered(
        name,
        statistics.median(plain[1:]),
        statistics.median(answered[1:]),
        predicted,
        answer.views,
        answer.pending,
        all(found == rows[0] for found in rows),
    )


def _bag(frame: DataFrame) -> Counter[object]:
    return Counter(map(tuple, frame.collect()))
