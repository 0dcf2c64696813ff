"""Answers the queries of a plan: on the driver where what they read is small and at hand, else by Spark.

Small results come back once as Arrow; large ones are written by Spark into the scratch folder and never pass the driver.
Both are a `ComputedRows`, so that what follows need not know which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla._cached import once
from nabla.algebra.expressions import Column, quote
from nabla.algebra.map_keys import group_key, shape_of
from nabla.algebra.names import place_of
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.sql import to_sql
from nabla.engine import types
from nabla.engine.budget import UNLIMITED, Budget
from nabla.engine.driver.driver_query import answer
from nabla.engine.driver.file_scan import FileScan
from nabla.engine.driver.key_lookup import SMALLEST, Lookup, StoredScan
from nabla.engine.relations import ComputedRows, Relations, fit, hidden_schema, write_rows
from nabla.engine.spark.frames import Sessions, Workspace
from nabla.engine.tracing import QUIET, Tracer
from nabla.planner.choose import TINY_TABLES
from nabla.planner.steps import Plan, Size
from nabla.rewrite.drop_empty import is_nothing
from nabla.rewrite.drop_null_tests import drop_null_tests, has_null_tests
from nabla.rewrite.join_order import broadcast_side
from nabla.rewrite.passes import Pass, rewrite
from nabla.storage import reading
from nabla.storage.bags import N, consolidate, counted

_NUMBERS = count()
_NO_COLUMNS = StructType([])
Make = Callable[[Workspace], DataFrame]

EXECUTION: tuple[Pass[Lookup], ...] = (
    Pass(
        "look_up",
        lambda plan, lookup: lookup.reduce(plan),
        "when the query is run, for it reads tables: rows that a change joins are known when the change is",
    ),
)


class Holdable(Protocol):
    """Rows that were computed: an Arrow table if they are on the driver, a DataFrame anyway."""

    @property
    def table(self) -> pa.Table | None: ...

    @property
    def count(self) -> int: ...

    def frame(self, workspace: Workspace) -> DataFrame: ...


@dataclass(frozen=True)
class Query:
    """SQL text over what is registered in a session, which suits the size of what it reads."""

    text: str
    size: Size

    def wrap(self, around: str) -> Query:
        return Query(around.format(self.text), self.size)


class Queries:
    """The queries of one plan. They read stored relations, and what was computed on the way and is held for them: `bound`
    says under which name a session knows a relation, `made` how to make those that are not stored."""

    def __init__(
        self,
        sessions: Sessions,
        relations: Relations,
        plan: Plan,
        *,
        builds: bool = False,
        only_spark: bool = False,
        budget: Budget = UNLIMITED,
        tracer: Tracer = QUIET,
    ) -> None:
        """`builds` says that the queries make a new view, and do not refresh one. With `only_spark`, the driver reads no
        tables. OverBudget is raised when the `budget` is used up. The `tracer` hears of steps and queries."""
        self.budget = budget
        self.tracer = tracer
        self.sessions = sessions
        self.relations = relations
        self.plan = plan
        small_tables = all(source.after.rows < SMALLEST for source in relations.sources.values()) if builds else False
        self._may_look_up = small_tables or (plan.mode == "incremental" and not plan.large)
        """Whether the driver looks rows up in tables: for a small change, and to build a view over small tables."""
        self.only_spark = only_spark
        self.held: dict[tuple[str, At], Holdable] = {}
        self.made: dict[tuple[str, At], Make] = {}
        self.bound: dict[tuple[Size, str, At], str] = {}
        self.unchanged: set[str] = set()
        """Relations whose change turned out to be empty."""
        self.ran = 0
        """The number of queries that Spark ran."""
        self.looked_at = 0
        """Rows of tables that the driver looked through."""
        self._number = next(_NUMBERS)
        self._counting = Lock()

    @property
    def workspace(self) -> Workspace:
        return self.sessions.workspace(self.plan.size)

    def hold(self, table: str, rows: Holdable, at: At = At.NEW) -> None:
        """Lets queries scan what was computed."""
        self.held[table, at] = rows
        self.bind(table, at, rows.frame)

    def bind(self, table: str, at: At, make: Make) -> None:
        """Lets queries scan what can be made."""
        self.made[table, at] = make

    def rows(self, node: Node) -> ComputedRows:
        """The rows of a query, under the names of hidden columns."""
        return self.answer(node, hidden_schema(node.columns))

    def bag(self, node: Node) -> pa.Table:
        """The rows of such a query on the driver, each once with its count."""
        rows = self.answer_signed(node, hidden_schema(node.columns)) if node.signed else self.rows(node)
        return consolidate(counted(rows.read()))

    def answer_signed(self, node: Node, schema: StructType) -> ComputedRows:
        """A signed result, consolidated: on the driver where it fits, where that is cheaper than a shuffle."""
        weighted = types.with_weight(schema)
        found, node = self._by_driver(node, types.arrow_schema(weighted))
        if found is not None:
            rows = ComputedRows(weighted, table=found)
        elif self.plan.large:
            rows = self.by_spark(node, weighted, _consolidation(node.columns))
        else:
            rows = self.by_spark(node, weighted, _selection(node))
        return rows if rows.table is None else ComputedRows(weighted, table=consolidate(rows.table))

    def answer(self, node: Node, schema: StructType) -> ComputedRows:
        """The rows of a query: from the driver where it is small and plain, else from Spark."""
        found, node = self._by_driver(node, types.arrow_schema(schema))
        if found is not None:
            return ComputedRows(schema, table=found)
        return self.by_spark(node, schema, _selection(node))

    def answer_once(self, node: Node, schema: StructType) -> ComputedRows:
        """The rows of a query without signs, each with the weight one."""
        weighted = types.with_weight(schema)
        found, node = self._by_driver(node, types.arrow_schema(schema))
        if found is not None:
            return ComputedRows(weighted, table=counted(found))
        columns = ", ".join([*map(_escape, node.columns), f"CAST(1 AS BIGINT) AS {N}"])
        return self.by_spark(node, weighted, f"SELECT {columns} FROM ({{}})")

    def _by_driver(self, node: Node, target: pa.Schema) -> tuple[pa.Table | None, Node]:
        """The rows of a query if the driver computes them, and the query over those rows of tables that it has looked up."""
        with self.tracer.query("driver") as trace:
            found, node = self._compute_on_driver(node, target)
            trace.rows = None if found is None else ComputedRows(_NO_COLUMNS, table=found)
        return found, node

    def _compute_on_driver(self, node: Node, target: pa.Schema) -> tuple[pa.Table | None, Node]:
        if once(node, has_null_tests):
            node = rewrite(node, BEFORE_EXECUTION, self)
        found = answer(node, self.held_with_weights, target, self.budget) if self._all_at_hand(node) else None
        if self.only_spark:
            return found, node
        if found is None and self._may_look_up:
            node = self._look_up(node)
            if is_nothing(node):
                return target.empty_table(), node
        if found is None:
            found = answer(node, self._held_or_in_files, target, self.budget)
        return found, node

    def by_spark(self, node: Node, schema: StructType, around: str) -> ComputedRows:
        """The rows of a query with SQL around it."""
        self.budget.check()
        with self.tracer.query("spark") as trace:
            trace.rows = rows = self._run_on_spark(node, schema, around)
        return rows

    def _run_on_spark(self, node: Node, schema: StructType, around: str) -> ComputedRows:
        query = self._sql(node).wrap(around)
        frame = self.sessions.workspace(query.size).sql(query.text)
        if query.size == "large":
            return self.write(frame, schema)
        self._count()
        if types.has_nested(schema):
            frame = fit(frame, schema)  # of a struct that is NULL, PySpark takes fields that never are for an error
        return ComputedRows(schema, table=types.conform(frame.toArrow(), schema))

    def write(self, frame: DataFrame, schema: StructType) -> ComputedRows:
        self.budget.check()
        self._count()
        return write_rows(frame, schema, self.workspace.path())

    def _count(self) -> None:
        with self._counting:  # steps run side by side
            self.ran += 1

    def _all_at_hand(self, node: Node) -> bool:
        """Whether the driver has all that a query reads: what was computed, and of a small refresh the changes."""
        scans = node.scans
        changes = self.relations.sources if self._may_look_up else {}
        return bool(scans) and all(
            self._held_rows(scan) is not None if scan.table in changes else self._arrow(scan.table, scan.at) is not None
            for scan in scans
        )

    def _arrow(self, table: str, at: At) -> pa.Table | None:
        held = self.held.get((table, at))
        return None if held is None else held.table

    def _sql(self, node: Node) -> Query:
        size = self._size(node)
        hints = (broadcast_side,) if size == "small" else ()
        text = to_sql(node, partial(self._relation, size), *hints)
        return Query(self.relations.moments.bound(text), size)

    def _size(self, node: Node) -> Size:
        """A query over large tables that were reduced to a few rows is a tiny one, and so is one over a small state."""
        if self.plan.large and self.plan.mode == "incremental":
            return self.plan.size
        scans = {(scan.table, scan.at): scan for scan in node.scans}
        return "tiny" if sum(map(self._rows_of, scans.values())) < TINY_TABLES else self.plan.size

    def _rows_of(self, scan: Scan) -> int:
        held = self.held.get((scan.table, scan.at))
        if held is not None:
            return held.count
        if scan.table in self.relations.sources:
            source = self.relations.sources[scan.table]
            return source.changed_rows if scan.at is At.DELTA else source.at(scan.at).rows
        state = self.relations.states.get(scan.table)
        return state.rows if state is not None else TINY_TABLES

    def _look_up(self, node: Node) -> Node:
        """The query over just those rows of large tables that the change can join."""
        lookup = Lookup(self._held_rows, self._stored, self.relations.shown)
        node = rewrite(node, EXECUTION, lookup)
        self.looked_at += lookup.looked_at
        for scan in {scan.table: scan for scan in node.scans if scan.table in lookup.found}.values():
            self.hold(scan.table, ComputedRows(hidden_schema(scan.output), table=lookup.found[scan.table]))
        return node

    def never_null(self, scan: Scan, field: str) -> bool:
        """Whether a column of what a scan reads has no NULL, as far as statistics tell, or rows that are at hand."""
        if scan.table in self.relations.sources:
            return self.relations.sources[scan.table].never_null(field)
        rows = self._arrow(scan.table, scan.at)
        return rows is not None and rows.column(N if field == N else place_of(field)).null_count == 0

    def _stored(self, scan: Scan) -> StoredScan | None:
        """The stored table that a scan reads. The new state of a stage is the stored one and its change, if that is at hand."""
        if scan.table not in self.relations.states or scan.at is At.OLD:
            return self.relations.stored(scan)
        if scan.table in self.unchanged or (scan.table, At.DELTA) not in self.made:
            return self.relations.stored(scan)
        change = self._arrow(scan.table, At.DELTA)
        return None if change is None else self.relations.stored(scan, change)

    def _held_rows(self, scan: Scan) -> pa.Table | None:
        """The rows that a scan reads, if they are few and at hand."""
        if scan.table in self.relations.sources:
            return self.relations.sources[scan.table].held_change(scan.fields) if scan.at is At.DELTA else None
        rows = self._arrow(scan.table, scan.at)
        return None if rows is None else rows.select([f if f == N else place_of(f) for f in scan.fields])

    def held_with_weights(self, scan: Scan) -> pa.Table | None:
        """The rows that a scan reads, if they are few and at hand, and their weights if it is signed."""
        if not scan.fields and not scan.signed:
            return self._copies(scan)
        rows = self._held_rows(scan)
        if rows is None or not scan.signed:
            return rows
        source = self.relations.sources.get(scan.table)
        if source is not None:
            return rows.append_column(N, source.change_weights)
        held = self._arrow(scan.table, scan.at)
        assert held is not None
        return rows.append_column(N, held[N])

    def _held_or_in_files(self, scan: Scan) -> pa.Table | FileScan | None:
        """The rows that a scan reads, or their files where DuckDB can read them."""
        rows = self.held_with_weights(scan)
        if rows is not None or self.held.get((scan.table, scan.at)) is not None:
            return rows
        if scan.at is At.DELTA:
            return self.relations.change_files(scan)
        stored = self._stored(scan)
        return None if stored is None else self.relations.files(scan, stored)

    def _copies(self, scan: Scan) -> pa.Table | None:
        """As many rows as a small table has, with a column that says nothing, for a query that needs no column of it."""
        stored = self.relations.stored(scan) if self._may_look_up and scan.table in self.relations.sources else None
        if stored is None or stored.snapshot.rows >= SMALLEST:
            return None
        rows = reading.read(stored.snapshot, stored.snapshot.schema.names[:1])
        return pa.table({N: pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)})

    def _relation(self, size: Size, scan: Scan) -> str:
        """The name under which the session has the relation of a scan; stored tables stay registered between refreshes."""
        table, at = scan.table, scan.at
        if (size, table, at) not in self.bound:
            if table in self.relations.sources:
                home, key = self.sessions.shared(size), self.relations.sources[table].key(at)
            else:
                home, key = self.sessions.workspace(size), (self._number, table, at)
            make = self.made.get((table, at)) or partial(self.relations.frame, table=table, at=at)
            self.bound[size, table, at] = home.name(key, partial(make, home))
        return self.bound[size, table, at]


BEFORE_EXECUTION: tuple[Pass[Queries], ...] = (
    Pass(
        "drop_null_tests",
        lambda plan, queries: drop_null_tests(plan, queries.never_null),
        "when the query is run, for versions tell which columns have NULLs; before look_up, which needs plain equalities",
    ),
)


def _consolidation(columns: Sequence[Column]) -> str:
    """SQL around a signed query that adds up the weights of equal rows."""
    keys = {quote(c.name): group_key(quote(c.name), shape_of(c.type)) for c in columns}
    shown = (name if key == name else f"first({name}) AS {name}" for name, key in keys.items())
    parts = (_escape_braces(", ".join(texts)) for texts in (shown, keys.values()))
    return "SELECT {}, SUM(_n) AS _n FROM ({{}}) GROUP BY {} HAVING SUM(_n) <> 0".format(*parts)


def _selection(node: Node) -> str:
    """SQL around a query that puts its columns in order."""
    columns = ", ".join([_escape(c) for c in node.columns] + ["_n"] * node.signed)
    return f"SELECT {columns} FROM ({{}})"


def _escape(column: Column) -> str:
    """A column's name in a text that is a template still."""
    return _escape_braces(quote(column.name))


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
