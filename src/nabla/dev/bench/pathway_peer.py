"""Pathway, a streaming engine that keeps everything in memory, on the same changes: from handing it the changed rows to its
views being what Nabla's are. It reads signed rows: weights are multiplied by joins and summed, so that it, too, sees deletions.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nabla.dev.bench.measure import Measurement
from nabla.dev.bench.peers import Changes, Peer, rough
from nabla.errors import NablaError
from nabla.lake.facade import Lake

_LINES = {
    "l_orderkey": "int",
    "l_partkey": "int",
    "l_quantity": "float",
    "l_extendedprice": "float",
    "l_discount": "float",
    "l_tax": "float",
    "l_returnflag": "str",
    "l_linestatus": "str",
    "l_shipdate": "str",
    "l_commitdate": "str",
    "l_receiptdate": "str",
    "l_shipmode": "str",
}
_ORDERS = {"o_orderkey": "int", "o_orderpriority": "str"}
_STREAMED = {"lineitem": _LINES, "orders": _ORDERS}
_PARTS = {"p_partkey": "int", "p_type": "str"}
_SPARK = {"int": "BIGINT", "float": "DOUBLE", "str": "STRING"}
_PYTHON = {"int": int, "float": float, "str": str}
_WAIT = 600


class Pathway(Peer):
    """All views in one running program; so what a round took is said of each of them as its share."""

    name = "pathway"

    def __init__(self, lake: Lake, views: Mapping[str, str], folder: Path) -> None:
        try:
            import pathway
        except ImportError:
            raise NablaError("NABLA_NO_PATHWAY", "pathway is not installed", remedy="pip install pathway") from None
        self.lake = lake
        self.changes = Changes(lake)
        self.queues: dict[str, queue.Queue[list[dict[str, Any]]]] = {t: queue.Queue() for t in _STREAMED}
        tables = {
            table: self._table(pathway, table, columns, folder)
            for table, columns in (*_STREAMED.items(), ("part", _PARTS))
        }
        self.contents: dict[str, dict[Any, dict[str, Any]]] = {}
        self.failure: BaseException | None = None
        self.moved = threading.Condition()
        for view, made in _views(pathway, tables).items():
            if view in views:
                self.contents[view] = {}
                pathway.io.subscribe(made, on_change=self._changed(view))
        threading.Thread(target=self._run, args=(pathway,), daemon=True).start()
        self._hand_over({table: [] for table in self.queues}, self._wanted())

    def _run(self, pathway: Any) -> None:
        try:
            pathway.run(monitoring_level=pathway.MonitoringLevel.NONE)
        except BaseException as error:
            with self.moved:
                self.failure = error
                self.moved.notify_all()

    def follow(self, found: Mapping[str, Measurement]) -> Iterator[Measurement]:
        rows = {t: self._rows(t, columns) for t, columns in _STREAMED.items()}
        wanted = self._wanted()
        begun = time.perf_counter()
        self._hand_over(rows, wanted)
        seconds = (time.perf_counter() - begun) / len(self.contents)
        self.changes.mark_seen()
        for view in self.contents:
            if view in found:
                yield self.timed(found[view], seconds)

    def _wanted(self) -> dict[str, list[list[str]]]:
        return {view: rough(self.lake.read(view).collect()) for view in self.contents}

    def _rows(self, table: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
        shown = [f"CAST({name} AS {_SPARK[kind]}) AS {name}" for name, kind in columns.items()]
        return self.changes.of(table).selectExpr(*shown, "_n").toArrow().to_pylist()

    def _hand_over(self, rows: Mapping[str, list[dict[str, Any]]], wanted: Mapping[str, list[list[str]]]) -> None:
        """Gives changed rows to the program and waits until its views are what they should be."""
        for table, changed in rows.items():
            self.queues[table].put([*changed, _nothing(table)])

        def wrong() -> list[str]:
            return [v for v, contents in self.contents.items() if rough(map(_values, contents.values())) != wanted[v]]

        with self.moved:
            for _ in range(_WAIT):
                if self.moved.wait_for(lambda: self.failure or not wrong(), timeout=1):
                    break
                for table in rows:  # what files gave after the last commit of a stream waits for its next one
                    self.queues[table].put([_nothing(table)])
            if self.failure is not None:
                raise NablaError("NABLA_BENCH", f"Pathway has failed: {self.failure}") from self.failure
            for view in wrong()[:1]:
                here = rough(map(_values, self.contents[view].values()))
                said = f"Pathway's {view} is {here} after {_WAIT} seconds, and should be {wanted[view]}"
                raise NablaError("NABLA_BENCH", said)

    def _table(self, pathway: Any, table: str, columns: Mapping[str, str], folder: Path) -> Any:
        """The table as it is, from files, and after it the changed rows of every round."""
        path = folder / f"pathway-{table}"
        shown = [f"CAST({name} AS {_SPARK[kind]}) AS {name}" for name, kind in columns.items()]
        self.lake.read(table).selectExpr(*shown, "1 AS _n").write.mode("overwrite").csv(str(path), header=True)
        types = {**{name: _PYTHON[kind] for name, kind in columns.items()}, "_n": int}
        schema = pathway.schema_from_types(**types)
        stored = pathway.io.csv.read(str(path / "*.csv"), schema=schema, mode="static")
        if table not in self.queues:
            return stored
        subject = _subject(pathway, self.queues[table])
        stream = pathway.io.python.read(subject, schema=schema, autocommit_duration_ms=None)
        return stored.concat_reindex(stream)

    def _changed(self, view: str) -> Callable[..., None]:
        def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            with self.moved:
                if is_addition:
                    self.contents[view][key] = row
                elif self.contents[view].get(key) == row:
                    del self.contents[view][key]
                self.moved.notify_all()

        return on_change


def _nothing(table: str) -> dict[str, Any]:
    """A row that counts for nothing: without one there is no commit."""
    return {**{name: _PYTHON[kind]() for name, kind in _STREAMED[table].items()}, "_n": 0}


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _subject(pathway: Any, rounds: queue.Queue[list[dict[str, Any]]]) -> Any:
    class Subject(pathway.io.python.ConnectorSubject):
        deletions_enabled = False

        def run(self) -> None:
            while True:
                for row in rounds.get():
                    self.next(**row)
                self.commit()

    return Subject()


def _views(pathway: Any, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The same views as the pipelines with MERGE."""
    this, total = pathway.this, pathway.reducers.sum
    lines, orders, parts = tables["lineitem"], tables["orders"], tables["part"]
    price = this.l_extendedprice * (1 - this.l_discount)
    old = lines.filter(this.l_shipdate <= "1998-09-02")
    q01 = old.groupby(this.l_returnflag, this.l_linestatus).reduce(
        this.l_returnflag,
        this.l_linestatus,
        quantity=total(this._n * this.l_quantity),
        price=total(this._n * this.l_extendedprice),
        discounted=total(this._n * price),
        charge=total(this._n * price * (1 + this.l_tax)),
        discount=total(this._n * this.l_discount),
        n=total(this._n),
    )
    q01 = q01.filter(this.n != 0).select(
        *(this.l_returnflag, this.l_linestatus, this.quantity, this.price, this.discounted, this.charge),
        avg_quantity=this.quantity / this.n,
        avg_price=this.price / this.n,
        avg_discount=this.discount / this.n,
        n=this.n,
    )
    cheap = lines.filter(
        (this.l_shipdate >= "1994-01-01")
        & (this.l_shipdate < "1995-01-01")
        & (this.l_discount >= 0.049)
        & (this.l_discount <= 0.071)
        & (this.l_quantity < 24)
    )
    q06 = cheap.reduce(revenue=total(this._n * this.l_extendedprice * this.l_discount))
    late = lines.filter(
        ((this.l_shipmode == "MAIL") | (this.l_shipmode == "SHIP"))
        & (this.l_commitdate < this.l_receiptdate)
        & (this.l_shipdate < this.l_commitdate)
        & (this.l_receiptdate >= "1994-01-01")
        & (this.l_receiptdate < "1995-01-01")
    )
    left, right = pathway.left, pathway.right
    ordered = late.join(orders, left.l_orderkey == right.o_orderkey).select(
        left.l_shipmode,
        n=left._n * right._n,
        high=(right.o_orderpriority == "1-URGENT") | (right.o_orderpriority == "2-HIGH"),
    )
    q12 = ordered.groupby(this.l_shipmode).reduce(
        this.l_shipmode,
        high=total(pathway.if_else(this.high, this.n, 0)),
        low=total(pathway.if_else(this.high, 0, this.n)),
    )
    month = lines.filter((this.l_shipdate >= "1995-09-01") & (this.l_shipdate < "1995-10-01"))
    sold = month.join(parts, left.l_partkey == right.p_partkey).select(
        price=left._n * left.l_extendedprice * (1 - left.l_discount), promo=right.p_type.str.startswith("PROMO")
    )
    sums = sold.reduce(promo=total(pathway.if_else(this.promo, this.price, 0.0)), price=total(this.price))
    q14 = sums.select(promo_revenue=100.0 * this.promo / pathway.if_else(this.price == 0.0, 1.0, this.price))
    return {"q01": q01, "q06": q06, "q12": q12, "q14": q14}
