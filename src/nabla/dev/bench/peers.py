"""Other ways to keep views up to date, on the same data and changes in the same run: pipelines written by hand with MERGE.

Such a pipeline knows what Nabla has to find out: that an order's lines come and go with it, that parts stay as they are,
and which sums a query is made of. It is written once for each view, for those of TPC-H that lend themselves to it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from nabla.dev.bench.measure import Measurement
from nabla.lake.facade import Lake


class Peer(ABC):
    """Another way to maintain some of the views. It is made when they are built, and follows every round of changes."""

    name: str

    @abstractmethod
    def __init__(self, lake: Lake, views: Mapping[str, str], folder: Path) -> None: ...

    @abstractmethod
    def follow(self, found: Mapping[str, Measurement]) -> Iterator[Measurement]:
        """Bring its views up to date, and return the times; `found` has the times of Nabla by view."""

    def timed(self, ours: Measurement, seconds: float) -> Measurement:
        """The record of a view that took the peer so long, beside the one of Nabla after the same change."""
        return replace(
            ours,
            asked=self.name,
            mode=self.name,
            refresh_seconds=seconds,
            jobs=0,
            rows_read=0,
            estimate=None,
            reason="",
            verdict="",
            problem="",
        )


class Changes:
    """The change of orders and lines since the peer was last brought up to date, with weights `_n`."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.mark_seen()

    def mark_seen(self) -> None:
        self.seen = {table: self.lake.status()[table].version for table in ("orders", "lineitem")}

    def of(self, table: str) -> DataFrame:
        weight = "CASE WHEN _change_type = 'insert' THEN 1 ELSE -1 END AS _n"
        return self.lake.changes(table, since=self.seen[table]).selectExpr("*", weight)


def check(lake: Lake, view: str, rows: Iterable[Sequence[object]]) -> None:
    """Asserts that the peer's table has the rows of the view: otherwise there is nothing to compare."""
    ours = lake.read(view).collect()
    if rough(rows) != rough(ours):
        raise AssertionError(f"the peer's {view} is {rows}, the view is {ours}")


def rough(rows: Iterable[Sequence[object]]) -> list[list[str]]:
    """Rows in a form that does not depend on their order and on the types of their numbers."""
    return sorted(map(_rough, rows))


def _rough(row: Sequence[object]) -> list[str]:
    """A number rounded to six digits, with at most five after the point, because averages of decimals have six."""
    return [value if isinstance(value, str) else f"{round(float(str(value)), 5):.6g}" for value in row]


@dataclass(frozen=True)
class Sums:
    """A view as sums over lines with weights `_n`, by some keys. `view` reads it off the sums."""

    sums: Mapping[str, str]
    lines: str
    view: str
    keys: tuple[str, ...] = ()

    def query(self, lines: str, orders: str) -> str:
        keys = ", ".join(self.keys or ["0 AS whole"])
        sums = ", ".join(f"CAST(SUM(_n * ({text})) AS DECIMAL(38,6)) AS {name}" for name, text in self.sums.items())
        source = self.lines.format(lines=lines, orders=orders)
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {keys}, COALESCE(SUM(_n), 0) AS n, {sums} FROM {source}{grouped}"


_PRICE = "l_extendedprice * (1 - l_discount)"
_CHEAP_1994 = (
    "{lines} WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)
_LATE_1994 = (
    "{lines} JOIN {orders} ON o_orderkey = l_orderkey WHERE l_shipmode IN ('MAIL', 'SHIP') "
    "AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
    "AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'"
)
_SEPTEMBER_1995 = (
    "{lines} JOIN part ON l_partkey = p_partkey "
    "WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'"
)
_HIGH = "o_orderpriority IN ('1-URGENT', '2-HIGH')"
PIPELINES: Mapping[str, Sums] = {
    "q01": Sums(
        {
            "quantity": "l_quantity",
            "price": "l_extendedprice",
            "discounted": _PRICE,
            "charge": f"{_PRICE} * (1 + l_tax)",
            "discount": "l_discount",
        },
        "{lines} WHERE l_shipdate <= DATE '1998-09-02'",
        "l_returnflag, l_linestatus, quantity, price, discounted, charge, quantity / n, price / n, discount / n, n",
        ("l_returnflag", "l_linestatus"),
    ),
    "q06": Sums({"revenue": "l_extendedprice * l_discount"}, _CHEAP_1994, "revenue"),
    "q12": Sums(
        {"high": f"CASE WHEN {_HIGH} THEN 1 ELSE 0 END", "low": f"CASE WHEN {_HIGH} THEN 0 ELSE 1 END"},
        _LATE_1994,
        "l_shipmode, high, low",
        ("l_shipmode",),
    ),
    "q14": Sums(
        {"promo": f"CASE WHEN p_type LIKE 'PROMO%' THEN {_PRICE} ELSE 0 END", "whole_price": _PRICE},
        _SEPTEMBER_1995,
        "100.00 * promo / whole_price",
    ),
}


class MergePipeline(Peer):
    """A Delta table of sums for each view; the change is summed by Spark and merged into it."""

    name = "merge"

    def __init__(self, lake: Lake, views: Mapping[str, str], folder: Path) -> None:
        self.lake = lake
        self.folders = {view: str(folder / view) for view in views if view in PIPELINES}
        for view, path in self.folders.items():
            rows = lake.sql(PIPELINES[view].query("(SELECT *, 1 AS _n FROM lineitem)", "orders"))
            write_deltalake(path, rows.toArrow(), mode="overwrite")
        self.changes = Changes(lake)

    def follow(self, found: Mapping[str, Measurement]) -> Iterator[Measurement]:
        for view, path in self.folders.items():
            begun = time.perf_counter()
            for table in ("orders", "lineitem"):
                self.changes.of(table).createOrReplaceTempView(f"{table}_changes")
            self._merge(PIPELINES[view], path)
            seconds = time.perf_counter() - begun
            self._check(view, path)
            if view in found:
                yield self.timed(found[view], seconds)
        self.changes.mark_seen()

    def _merge(self, sums: Sums, path: str) -> None:
        columns = "o_orderkey, o_orderpriority"
        gone = f"SELECT {columns} FROM orders_changes WHERE _n < 0"
        change = sums.query("lineitem_changes", f"(SELECT {columns} FROM orders UNION ALL {gone})")
        keys, values = sums.keys or ("whole",), ("n", *sums.sums)
        rows = self.lake.sql(change).toArrow()
        merging = DeltaTable(path).merge(
            rows, " AND ".join(f"t.{key} = s.{key}" for key in keys), source_alias="s", target_alias="t"
        )
        if sums.keys:
            merging = merging.when_matched_delete("t.n + s.n = 0")
        added = {value: f"t.{value} + COALESCE(s.{value}, 0)" for value in values}
        new = {name: f"s.{name}" for name in (*keys, *values)}
        merging.when_matched_update(added).when_not_matched_insert(new).execute()

    def _check(self, view: str, path: str) -> None:
        self.lake.spark.createDataFrame(DeltaTable(path).to_pyarrow_table()).createOrReplaceTempView("sums")
        check(self.lake, view, self.lake.sql(f"SELECT {PIPELINES[view].view} FROM sums").collect())
