"""Writes: loading, transactions of a share of the orders with their lines, a few rows, and updates of half of a table.

Every write stands beside Spark writing the same rows as Parquet, or beside delta-spark making the same change, in the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import nabla
from nabla.dev.bench import delta_peer, tpch
from nabla.dev.bench.section import Section
from nabla.lake.facade import Lake

KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
NEW_ROWS = 10
HALF = {"l_quantity": "l_quantity + 1"}
SPARK, DELTA, NABLA = "Spark, as Parquet", "delta-spark", "Nabla"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """Rounds of every write, on TPC-H of a scale. `changes` are in percent of the orders. `jars` are those of delta-spark: it
    takes part if they are given."""

    scale: float = 1.0
    changes: tuple[float, ...] = (0.1, 1, 10)
    rounds: int = 3
    jars: str = ""


@dataclass(frozen=True)
class Timed:
    """One write, by one of those who are compared."""

    what: str
    who: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class OrderChange:
    """A round of changes: orders that go with their lines, and as many new ones, all scattered over the keys."""

    percent: float
    number: int

    @property
    def what(self) -> str:
        return f"{self.percent:g} % of the orders with lines"

    @property
    def divisor(self) -> int:
        """An odd number, since TPC-H uses eight of every 32 keys: one of so many keys goes, and another one is copied."""
        return max(3, round(200 / self.percent) - 1 | 1)

    def condition(self, key: str, copied: bool = False) -> str:
        """The rows that go, or those that new rows are copied from."""
        return f"{key} % {self.divisor} = {(2 * self.number + copied) % self.divisor}"


def run(load: Load, data: Path, folder: Path, say: Say) -> Iterator[Timed]:
    """All writes, each as often as there are rounds; the first round of transactions is not measured."""
    generated = tpch.generate(data, load.scale)
    lake = nabla.open(folder / "lake")
    yield from _loads(lake, generated, folder, load, say)
    changes = [OrderChange(percent, number) for percent in load.changes for number in range(load.rounds + 1)]
    changes = [OrderChange(change.percent, place) for place, change in enumerate(changes)]
    new = {change.number: _new_rows(lake, change, folder / f"new-{change.number}") for change in changes}
    for place, change in enumerate(changes):
        seconds = _timed(lambda change=change: _change(lake, change, new[change.number]))  # type: ignore[misc]
        say(f"{change.what} in {seconds:.2f} s")
        if place % (load.rounds + 1):
            yield Timed(change.what, NABLA, seconds)
    yield from _few_rows(lake, load, say)
    yield from _updates(lake, folder, load, say)
    if load.jars:
        measured = [c for place, c in enumerate(changes) if place % (load.rounds + 1)]
        ways = [
            delta_peer.Way(c.what, {t: c.condition(k) for t, k in KEYS.items()}, f"new-{c.number}") for c in measured
        ]
        for what, seconds in delta_peer.measure(ways, KEYS, generated, folder, load.jars, say):
            yield Timed(what, DELTA, seconds)


def _loads(lake: Lake, generated: Path, folder: Path, load: Load, say: Say) -> Iterator[Timed]:
    """All tables, by Spark and by Nabla in turns: the first of both finds code to compile and files to read from the disk."""
    for number in range(load.rounds + 1):
        seconds = {SPARK: 0.0, NABLA: 0.0}
        for table, key in tpch.KEYS.items():
            frame = lake.spark.read.parquet(str(generated / f"{table}.parquet"))
            name = table if number == load.rounds else f"{table}_{number}"
            ways: dict[str, Callable[[], None]] = {
                SPARK: lambda frame=frame, table=table: frame.write.mode("overwrite").parquet(
                    str(folder / "load" / table)
                ),  # type: ignore[misc]
                NABLA: lambda frame=frame, name=name, key=key: lake.create_table(name, data=frame, key=key),  # type: ignore[misc]
            }
            for who in sorted(ways, reverse=bool(number % 2)):
                seconds[who] += _timed(ways[who])
            if number < load.rounds:
                lake.drop_table(name)
        lake.vacuum()
        say(f"loaded in {seconds[NABLA]:.1f} s, Spark wrote the rows in {seconds[SPARK]:.1f} s")
        if number:
            yield from (Timed("load of all tables", who, took) for who, took in seconds.items())


def _new_rows(lake: Lake, change: OrderChange, folder: Path) -> dict[str, pa.Table]:
    """The rows that a change inserts, kept as files for the peer."""
    folder.mkdir(parents=True)
    highest = lake.read("orders").agg(F.max("o_orderkey")).first()
    assert highest is not None
    found = {}
    for table, key in KEYS.items():
        rows = lake.read(table).where(change.condition(key, copied=True))
        beyond = int(highest[0]) * (change.number + 1)
        found[table] = rows.withColumn(key, (F.col(key) + F.lit(beyond)).cast("bigint")).toArrow()
        pq.write_table(found[table], folder / f"{table}.parquet")
    return found


def _change(lake: Lake, change: OrderChange, new: dict[str, pa.Table]) -> None:
    with lake.transaction() as tx:
        for table, key in KEYS.items():
            tx.delete(table, where=change.condition(key))
            tx.insert(table, new[table])


def _few_rows(lake: Lake, load: Load, say: Say) -> Iterator[Timed]:
    """Ten rows into the largest table."""
    rows = lake.read("lineitem").limit(NEW_ROWS).toArrow()
    size = lake.status()["lineitem"].rows
    for number in range(load.rounds * 3 + 1):
        seconds = _timed(lambda: _insert(lake, rows))
        if number:
            yield Timed(f"ten rows into {size or 0:,}", NABLA, seconds)
    say(f"ten rows in {seconds:.3f} s")


def _insert(lake: Lake, rows: pa.Table) -> None:
    with lake.transaction() as tx:
        tx.insert("lineitem", rows)


def _updates(lake: Lake, folder: Path, load: Load, say: Say) -> Iterator[Timed]:
    """Half of all lines get new values; Spark writes all lines anew, with these values."""
    size = lake.status()["lineitem"].rows
    for number in range(load.rounds + 1):
        half = f"l_orderkey % 2 = {number % 2}"
        told = {column: F.expr(f"CASE WHEN {half} THEN {value} ELSE {column} END") for column, value in HALF.items()}
        frame = lake.spark.read.parquet(str(folder / "load" / "lineitem")).withColumns(told)
        spark = _timed(lambda frame=frame: frame.write.mode("overwrite").parquet(str(folder / "updated")))  # type: ignore[misc]
        ours = _timed(lambda half=half: _update(lake, half))  # type: ignore[misc]
        say(f"half of the lines updated in {ours:.1f} s, Spark wrote all in {spark:.1f} s")
        if number:
            yield Timed(f"update of half of {size or 0:,} lines", SPARK, spark)
            yield Timed(f"update of half of {size or 0:,} lines", NABLA, ours)


def _update(lake: Lake, condition: str) -> None:
    with lake.transaction() as tx:
        tx.update("lineitem", set=HALF, where=condition)


def _timed(what: Callable[[], object]) -> float:
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


def section(measured: Sequence[Timed]) -> Section:
    """A line for each write: the medians, and how many times Nabla's the others are."""
    rows = []
    for what in dict.fromkeys(one.what for one in measured):
        medians = {
            who: statistics.median(times)
            for who in (NABLA, SPARK, DELTA)
            if (times := [one.seconds for one in measured if (one.what, one.who) == (what, who)])
        }
        ours = medians.pop(NABLA, None)
        for who, seconds in medians.items() or [("", None)]:
            ratio = f"{seconds / ours:.2f}" if seconds and ours else ""
            rows.append((what, _shown(ours), who, _shown(seconds), ratio))
    return Section("", ("write", "Nabla s", "beside it", "s", "over Nabla"), rows)


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"
