"""Runs the steps of a plan and gives what is to be committed: the change of the view and of each state.

Small results come back once as Arrow; large ones are written by Spark into the scratch folder and never pass the driver.
Both are a `Rows`, so that what follows need not know which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType
from pyspark.util import inheritable_thread_target

from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.expressions import Column, Expr, Named, quote
from nabla.algebra.nodes import At, Node, Project, Scan
from nabla.algebra.sql import to_sql
from nabla.calculus.outwards import broadcast_side
from nabla.calculus.stages import ChangeTable, Stage, TopRows, stored_fields
from nabla.engine import types
from nabla.engine.emptiness import is_nothing
from nabla.engine.first_rows import first_rows
from nabla.engine.frames import Sessions, Workspace, empty
from nabla.engine.local import answer
from nabla.engine.lookup import Lookup, Stored
from nabla.engine.merge import finished, merged
from nabla.engine.relations import Relations
from nabla.engine.replacing import replaced
from nabla.engine.results import Result, Rows, fitted, hidden_schema, written
from nabla.engine.sources import consolidated
from nabla.planner.choose import TINY_TABLES
from nabla.planner.steps import (
    Build,
    Finish,
    Iterate,
    Plan,
    Produce,
    Recompute,
    Replace,
    Settle,
    Size,
    Step,
    Touch,
    side_by_side,
)
from nabla.storage.bags import N, consolidate, counted

_NUMBERS = count()


@dataclass(frozen=True)
class Query:
    """SQL text over what is registered in a session, which suits the size of what it reads."""

    text: str
    size: Size

    def wrapped(self, around: str) -> Query:
        return Query(around.format(self.text), self.size)


Make = Callable[[Workspace], DataFrame]


class Execution:
    """Runs one plan. `bound` says under which name a session knows a relation, `made` how to make those that are not stored."""

    def __init__(self, sessions: Sessions, relations: Relations, plan: Plan, schema: StructType) -> None:
        self.number = next(_NUMBERS)
        self.sessions = sessions
        self.relations = relations
        self.plan = plan
        self.schema = schema
        self.bound: dict[tuple[Size, str, At], str] = {}
        self.made: dict[tuple[str, At], Make] = {}
        self.arrow: dict[tuple[str, At], pa.Table] = {}
        self.built: dict[str, Rows] = {}
        self.unchanged: set[str] = set()
        self.touched: Rows | None = None
        self.result = Result()
        self._counting = Lock()

    def run(self) -> Result:
        """There are no steps where a source moved without change."""
        steps = side_by_side(self.plan.steps)
        for together, following in zip(steps, [*steps[1:], (None,)], strict=False):
            if len(together) > 1:
                self._run_all(together)
            else:
                self._run(together[0], following[0])
        return self.result

    def rows_of(self, node: Node) -> Rows:
        """The rows of a query that is no step of the plan."""
        return self._answer(node, hidden_schema(node.columns))

    def view_rows(self, node: Node) -> pa.Table:
        """The rows of a query with the view's columns, on the driver."""
        return self._answer(node, self.schema).table

    def bag_of(self, node: Node) -> pa.Table:
        """The rows of such a query on the driver, each once with its count."""
        schema = hidden_schema(node.columns)
        rows = self._signed(node, schema) if node.signed else self.rows_of(node)
        return consolidate(counted(rows.read()))

    def hold(self, table: str, make: Make, rows: pa.Table | None, at: At = At.NEW) -> None:
        """Lets queries scan something that was made; `rows` where it is on the driver."""
        if rows is not None:
            self.arrow[table, at] = rows
        self._bind(table, at, make)

    def signed_rows(self, schema: StructType, table: pa.Table | None = None, frame: DataFrame | None = None) -> Rows:
        """Rows with weights, under the names of a view's stored columns."""
        if table is not None:
            return Rows(types.with_weight(schema), table=types.conform(table, types.with_weight(schema)))
        assert frame is not None
        return self._written(frame.toDF(*schema.names, "_n"), schema)

    def _run_all(self, steps: Sequence[Step]) -> None:
        """Side by side: what one leaves of Spark's cores as it begins and as it ends, another one takes."""
        session = self.workspace.session
        with ThreadPoolExecutor(len(steps)) as pool:  # each with local properties of its own, which Spark writes to
            runs = [pool.submit(inheritable_thread_target(session)(self._run), step, None) for step in steps]
        for run in runs:
            run.result()

    def _run(self, step: Step, following: Step | None) -> None:
        match step:
            case Touch():
                self._touch(step)
            case Settle():
                finish = following if isinstance(following, Finish) and following.stage is step.stage else None
                self._settle(step, finish)
            case Produce():
                if not self._quiet(step.query):
                    self.result.change = self._signed(step.query, self.schema)
            case Replace():
                self.result.replacement = replaced(self, step)
            case Finish():
                pass  # done by the Settle before it, in one query
            case Build():
                self._build(step)
            case Iterate():
                finish = following if isinstance(following, Finish) and following.stage is step.stage else None
                self._iterate(step, finish)
            case Recompute():
                self.result.whole = self._answer(step.query, self.schema)

    def _touch(self, step: Touch) -> None:
        self.touched = None
        if isinstance(step.stage, TopRows) and self.plan.large:
            return  # to order all changed rows would be no less work than to find the first ones anew
        if self._quiet(step.query):
            self.unchanged.add(step.stage.table)
            return
        schema = hidden_schema(step.query.columns)
        touched = self._answer(step.query, schema)
        if touched.empty:
            self.unchanged.add(step.stage.table)
        self.touched = touched
        if touched.table is not None:
            self.arrow[step.stage.touched_table, At.NEW] = touched.table
        self._bind(step.stage.touched_table, At.NEW, touched.frame)

    def _settle(self, step: Settle, finish: Finish | None) -> None:
        stage = step.stage
        schema = types.with_weight(hidden_schema(stage.state))
        if stage.table in self.unchanged or (not stage.keys and self._quiet(step.query_if_none_lost)):
            self.unchanged.add(stage.table)
            self.unchanged.add(stage.state_table)
            self._bind(stage.state_table, At.DELTA, lambda workspace: empty(workspace.session, schema))
            self._bind(stage.state_table, At.NEW, partial(self.relations.frame, table=stage.state_table, at=At.OLD))
            return
        held = self._merged(stage)
        if held is not None:
            change = Rows(schema, table=held)
            if finish is not None and held.num_rows:
                self.result.change = self._finished(change, finish)
        elif finish is None:
            change = self._signed(self._settling(step), hidden_schema(stage.state))
        else:
            change, self.result.change = self._settle_and_finish(self._settling(step), finish)
        self.result.states[stage.table] = change
        self._settled(stage, change)

    def _moved_on(self, stage: Stage, change: Rows, workspace: Workspace) -> DataFrame:
        old = self.relations.frame(workspace, stage.state_table, At.OLD)
        return old.unionByName(change.frame(workspace))

    def _merged(self, stage: Stage) -> pa.Table | None:
        """The change of the state where the driver can settle it."""
        if self.touched is None or self.touched.table is None:
            return None
        match stage:
            case ChangeTable():
                return merged(stage, self.touched.table, self.relations.states[stage.state_table])
            case TopRows():
                return first_rows(stage, self.touched.table)
        return None

    def _settling(self, step: Settle) -> Node:
        """The query with or without recomputed groups: the touched groups show whether a min or max can be lost."""
        columns = step.stage.deletions()
        if not columns or self.touched is None or self.touched.table is None:
            return step.query
        table = self.touched.table
        gone = table.columns[table.num_columns - len(columns) :]
        return step.query if any(c.null_count < len(c) for c in gone) else step.query_if_none_lost

    def _finished(self, change: Rows, finish: Finish) -> Rows:
        """The view's change from the state's: expressions of the user's are computed by Spark."""
        assert change.table is not None
        simple = finished(finish, change.table, types.arrow_schema(self.schema))
        if simple is not None:
            return self._held(consolidate(simple), self.schema)
        state = finish.stage.state
        scan = Scan(finish.stage.state_table, At.DELTA, state, stored_fields(state))
        self.arrow[finish.stage.state_table, At.DELTA] = change.table
        self._bind(finish.stage.state_table, At.DELTA, change.frame)
        rows = self._answer(_valued(scan, finish), types.with_weight(self._valued_schema(scan.columns)))
        return self._split(rows, hidden_schema(state))[1]

    def _settle_and_finish(self, query: Node, finish: Finish) -> tuple[Rows, Rows]:
        """One query for the change of the state and, row by row, of the view."""
        rows = self._answer(_valued(query, finish), types.with_weight(self._valued_schema(query.columns)))
        return self._split(rows, hidden_schema(query.columns))

    def _valued_schema(self, state: Sequence[Column]) -> StructType:
        keep = StructField("keep", types.type_of("boolean"))
        return StructType([*hidden_schema(state).fields, *_value_fields(self.schema), keep])

    def _split(self, rows: Rows, hidden: StructType) -> tuple[Rows, Rows]:
        state_names = [f.name for f in hidden.fields]
        value_names = [f.name for f in _value_fields(self.schema)]
        if rows.table is not None:
            state = consolidate(rows.table.select([*state_names, "_n"]))
            kept = rows.table.filter(pc.fill_null(rows.table.column("keep"), False))
            change = kept.select([*value_names, "_n"]).rename_columns([*self.schema.names, "_n"])
            return self._held(state, hidden), self._held(consolidate(change), self.schema)
        frame = rows.frame(self.workspace)
        state_frame = consolidated(frame, state_names)
        change_frame = consolidated(frame.where("keep"), value_names).toDF(*self.schema.names, "_n")
        return self._written(state_frame, hidden), self._written(change_frame, self.schema)

    def _build(self, step: Build) -> None:
        hidden = hidden_schema(step.stage.state)
        query = self._sql(step.query)
        rows = self._rows(query.wrapped("SELECT *, CAST(1 AS BIGINT) AS _n FROM ({})"), types.with_weight(hidden))
        self.result.states[step.stage.table] = self.built[step.stage.state_table] = rows
        self.hold(step.stage.state_table, rows.frame, rows.table)

    def _iterate(self, step: Iterate, finish: Finish | None) -> None:
        from nabla.engine.level_rounds import run_levels  # which runs its queries here

        stage = step.stage
        table, self.result.rounds = run_levels(step, self)
        change = Rows(types.with_weight(hidden_schema(stage.state)), table=table)
        self.result.states[stage.table] = change
        if step.anew:
            self._bind(stage.state_table, At.NEW, change.frame)
            return
        if finish is not None and table.num_rows:
            self.result.change = self._finished(change, finish)
        self._settled(stage, change)

    def _settled(self, stage: Stage, change: Rows) -> None:
        """Lets later steps read the change of a state, and the state that it makes."""
        if change.empty:
            self.unchanged.add(stage.state_table)
        if change.table is not None:
            self.arrow[stage.state_table, At.DELTA] = change.table
        self._bind(stage.state_table, At.DELTA, change.frame)
        self._bind(stage.state_table, At.NEW, partial(self._moved_on, stage, change))

    def _signed(self, query: Node, schema: StructType) -> Rows:
        """A signed result, consolidated: on the driver where it fits, where that is cheaper than a shuffle."""
        weighted = types.with_weight(schema)
        if self.plan.large:
            columns = ", ".join(_escaped(c) for c in query.columns)
            around = f"SELECT {columns}, SUM(_n) AS _n FROM ({{}}) GROUP BY {columns} HAVING SUM(_n) <> 0"
            rows = self._rows(self._sql(query).wrapped(around), weighted)
        else:
            rows = self._answer(query, weighted)
        if rows.table is not None:
            rows.table = consolidate(rows.table)
        return rows

    def _held(self, table: pa.Table, schema: StructType) -> Rows:
        return Rows(types.with_weight(schema), table=table)

    def _written(self, frame: DataFrame, schema: StructType) -> Rows:
        return self.written(frame, types.with_weight(schema))

    def written(self, frame: DataFrame, schema: StructType) -> Rows:
        path = self.workspace.path()
        frame.write.parquet(path)
        self.result.queries += 1
        return Rows(schema, folder=path)

    def _rows(self, query: Query, schema: StructType) -> Rows:
        with self._counting:
            self.result.queries += 1
        frame = self.sessions.workspace(query.size).session.sql(query.text)
        if query.size == "large":
            return written(frame, schema, self.workspace.path())
        if types.has_nested(schema):
            frame = fitted(frame, schema)  # of a struct that is NULL, PySpark takes fields that never are for an error
        return Rows(schema, table=types.conform(frame.toArrow(), schema))

    @property
    def workspace(self) -> Workspace:
        return self.sessions.workspace(self.plan.size)

    def _answer(self, node: Node, schema: StructType) -> Rows:
        """The rows of a query: from the driver where it is small and plain, else from Spark."""
        small = self.plan.mode == "incremental" and not self.plan.large
        node = self._looked_up(node) if small else node
        if small or self._all_at_hand(node):
            target = types.arrow_schema(schema)
            found = target.empty_table() if is_nothing(node) else answer(node, self._held_with_weights, target)
            if found is not None:
                return Rows(schema, table=found)
        columns = ", ".join([_escaped(c) for c in node.columns] + ["_n"] * node.signed)
        return self._rows(self._sql(node).wrapped(f"SELECT {columns} FROM ({{}})"), schema)

    def _all_at_hand(self, node: Node) -> bool:
        scans = [n for n in node.walk() if isinstance(n, Scan)]
        return bool(scans) and all((scan.table, scan.at) in self.arrow for scan in scans)

    def _sql(self, node: Node) -> Query:
        size = self._size(node)
        hints = (broadcast_side,) if size == "small" else ()
        text = to_sql(node, partial(self._relation, size), *hints)
        return Query(self.relations.moments.bound(text), size)

    def _size(self, node: Node) -> Size:
        """A query over large tables that were reduced to a few rows is a tiny one, and so is one over a small state."""
        if self.plan.large and self.plan.mode == "incremental":
            return self.plan.size
        scans = {(n.table, n.at): n for n in node.walk() if isinstance(n, Scan)}
        return "tiny" if sum(map(self._rows_of, scans.values())) < TINY_TABLES else self.plan.size

    def _rows_of(self, scan: Scan) -> int:
        held = self.arrow.get((scan.table, scan.at))
        if held is not None:
            return held.num_rows
        if scan.table in self.relations.sources:
            source = self.relations.sources[scan.table]
            return source.changed_rows if scan.at is At.DELTA else source.at(scan.at).rows
        if scan.table in self.built:
            return self.built[scan.table].count
        state = self.relations.states.get(scan.table)
        return state.rows if state is not None else TINY_TABLES

    def _looked_up(self, node: Node) -> Node:
        """The query over just those rows of large tables that the change can join."""
        lookup = Lookup(self._held_rows, self._stored, self.relations.shown)
        node = lookup.reduced(node)
        self.result.looked_at += lookup.looked_at
        for scan in {n.table: n for n in node.walk() if isinstance(n, Scan) and n.table in lookup.found}.values():
            rows = lookup.found[scan.table]
            self.arrow[scan.table, At.NEW] = rows
            self._bind(scan.table, At.NEW, Rows(hidden_schema(scan.output), table=rows).frame)
        return node

    def _stored(self, scan: Scan) -> Stored | None:
        """Where a scan reads. The new state of a stage is the stored one and its change, if that is at hand."""
        if scan.table not in self.relations.states or scan.at is At.OLD:
            return self.relations.stored(scan)
        if scan.table in self.unchanged or (scan.table, At.DELTA) not in self.made:
            return self.relations.stored(scan)
        change = self.arrow.get((scan.table, At.DELTA))
        return None if change is None else self.relations.stored(scan, change)

    def _held_rows(self, scan: Scan) -> pa.Table | None:
        """What a scan reads, where that is small and at hand."""
        if scan.table in self.relations.sources:
            return self.relations.sources[scan.table].held_change(scan.fields) if scan.at is At.DELTA else None
        rows = self.arrow.get((scan.table, scan.at))
        return None if rows is None else rows.select([f if f == N else int(f.removeprefix("c")) for f in scan.fields])

    def _held_with_weights(self, scan: Scan) -> pa.Table | None:
        rows = self._held_rows(scan)
        if rows is None or not scan.signed:
            return rows
        source = self.relations.sources.get(scan.table)
        weights = self.arrow[scan.table, scan.at][N] if source is None else source.change_weights
        return rows.append_column(N, weights)

    def _relation(self, size: Size, scan: Scan) -> str:
        """The name of what a scan reads; stored tables stay registered from one refresh to the next."""
        table, at = scan.table, scan.at
        if (size, table, at) not in self.bound:
            if table in self.relations.sources:
                home, key = self.sessions.shared(size), self.relations.sources[table].key(at)
            else:
                home, key = self.sessions.workspace(size), (self.number, table, at)
            make = self.made.get((table, at)) or partial(self.relations.frame, table=table, at=at)
            self.bound[size, table, at] = home.name(key, partial(make, home))
        return self.bound[size, table, at]

    def _bind(self, table: str, at: At, make: Make) -> None:
        self.made[table, at] = make

    def _quiet(self, query: Node) -> bool:
        """Whether every change that the query reads turned out to be empty."""
        changes = {n.table for n in query.walk() if isinstance(n, Scan) and n.at is At.DELTA}
        timed = any(map(reads_clock, query.walk())) and CLOCK in self.plan.changed
        return bool(changes) and changes <= self.unchanged and not timed


def _escaped(column: Column) -> str:
    """A column's name in a text that is a template still."""
    return quote(column.name).replace("{", "{{").replace("}", "}}")


def _value_fields(schema: StructType) -> list[StructField]:
    return [StructField(f"v{i}", f.dataType) for i, f in enumerate(schema.fields)]


def _valued(state: Node, finish: Finish) -> Project:
    """Rows of a state with the view's values beside them, and whether the view keeps them."""
    keep = finish.keep or Expr("true", "boolean", False)
    values = [Named(Column(f"value{i}#", v.type), _guarded(v, keep)) for i, v in enumerate(finish.values)]
    columns = tuple(Named(c, c.ref) for c in state.columns)
    return Project(state, (*columns, *values, Named(Column("keep#", "boolean"), keep)))


def _guarded(value: Expr, keep: Expr) -> Expr:
    """A value is only computed for rows that are kept: for others it might fail."""
    if value.column is not None:
        return value
    return Expr(f"CASE WHEN {keep.sql} THEN {value.sql} END", value.type)
