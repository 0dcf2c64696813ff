"""Constraints at TPC-H scale: the cost of checking a transaction, compared with evaluating the constraint from scratch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nabla
from nabla.constraints import foreign_key
from nabla.dev.bench import tpch
from nabla.dev.bench.section import Section
from nabla.lake.facade import Lake

CONSTRAINTS = {
    "lines_have_orders": foreign_key("lineitem", "l_orderkey", "orders.o_orderkey"),
    # A constraint over three tables: every line of an order has a supplier who offers its part.
    "lines_are_offered": (
        "SELECT o.o_orderkey, o.o_custkey, l.l_partkey, l.l_suppkey FROM orders o "
        "JOIN lineitem l ON l.l_orderkey = o.o_orderkey WHERE NOT EXISTS "
        "(SELECT 1 FROM partsupp p WHERE p.ps_partkey = l.l_partkey AND p.ps_suppkey = l.l_suppkey)"
    ),
}

Say = Callable[[str], None]


@dataclass(frozen=True)
class CheckSummary:
    """Medians of all rounds. `check_seconds` is the time that the check added to a transaction."""

    constraint: str
    check_seconds: float
    scratch_seconds: float

    @property
    def ratio(self) -> float:
        return self.scratch_seconds / self.check_seconds

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def run(scale: float, change: float, rounds: int, data: Path, folder: Path, say: Say) -> list[CheckSummary]:
    """Transactions of so many percent of the orders with their lines, each checked before it commits."""
    lake = nabla.open(folder / "tpch")
    say(f"loading TPC-H scale {scale:g}")
    tpch.load(lake, tpch.generate(data, scale))
    for name, sql in CONSTRAINTS.items():
        report = lake.create_constraint(name, sql)
        say(f"made {name} in {report.seconds:.1f} s")
    checked: dict[str, list[float]] = {name: [] for name in CONSTRAINTS}
    scratch: dict[str, list[float]] = {name: [] for name in CONSTRAINTS}
    for number in range(rounds + 1):
        orders, lines = tpch.change_orders(lake, change / 100, number)
        say(f"{orders} orders and {lines} lines changed")
        for name, sql in CONSTRAINTS.items():
            event = lake.history(name, limit=1)[0]
            assert event.seconds is not None
            seconds = _scratch_seconds(lake, sql)
            say(f"{name}: checked in {event.seconds:.2f} s, from scratch {seconds:.2f} s")
            if number:  # Spark compiles during the first round of each, which is not counted
                checked[name].append(event.seconds)
                scratch[name].append(seconds)
    if lake.check().violated:
        raise AssertionError("a constraint is violated that was checked in every transaction")
    return [CheckSummary(n, statistics.median(checked[n]), statistics.median(scratch[n])) for n in CONSTRAINTS]


def _scratch_seconds(lake: Lake, sql: str) -> float:
    """The seconds that plain Spark takes for the constraint's query over the current tables."""
    spark = lake.spark
    begun = time.perf_counter()
    if spark.sql(sql).limit(1).collect():
        raise AssertionError(f"violated: {sql}")
    return time.perf_counter() - begun


def table(summaries: list[CheckSummary]) -> str:
    rows = [(s.constraint, s.check_seconds, s.scratch_seconds, s.ratio) for s in summaries]
    return Section("", ("constraint", "checked s", "from scratch s", "ratio"), rows).text()
