"""Runs the steps of a plan and gives what is to be committed: the change of the view and of each state."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType
from pyspark.util import inheritable_thread_target

from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.expressions import Column, Expr, Named
from nabla.algebra.names import stored_fields
from nabla.algebra.nodes import At, Node, Project, Scan
from nabla.calculus.stages import ChangeTable, Stage, TopRows
from nabla.engine import types
from nabla.engine.driver.first_rows import first_rows
from nabla.engine.driver.merge import finished, merged
from nabla.engine.levels import run_levels
from nabla.engine.queries import Queries
from nabla.engine.replacement import replaced
from nabla.engine.results import Result, Rows, hidden_schema
from nabla.engine.sources import consolidated
from nabla.engine.spark.frames import Workspace, empty
from nabla.planner.steps import Build, Finish, Iterate, Produce, Recompute, Replace, Settle, Step, Touch, side_by_side
from nabla.storage.bags import consolidate


class Execution:
    """Runs one plan for a view with that schema."""

    def __init__(self, queries: Queries, schema: StructType) -> None:
        self.queries = queries
        self.schema = schema
        self.touched: Rows | None = None
        self.result = Result()

    def run(self) -> Result:
        """There are no steps where a source moved without change."""
        steps = side_by_side(self.queries.plan.steps)
        for together, following in zip(steps, [*steps[1:], (None,)], strict=False):
            if len(together) > 1:
                self._run_all(together)
            else:
                self._run(together[0], following[0])
        self.result.queries, self.result.looked_at = self.queries.ran, self.queries.looked_at
        return self.result

    def _run_all(self, steps: Sequence[Step]) -> None:
        """Side by side: what one leaves of Spark's cores as it begins and as it ends, another one takes."""
        session = self.queries.workspace.session
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
                    self.result.change = self.queries.signed(step.query, self.schema)
            case Replace():
                self.result.replacement = replaced(step, self.queries, self.schema)
            case Finish():
                pass  # done by the Settle before it, in one query
            case Build():
                self._build(step)
            case Iterate():
                finish = following if isinstance(following, Finish) and following.stage is step.stage else None
                self._iterate(step, finish)
            case Recompute():
                self.result.whole = self.queries.answer(step.query, self.schema)

    def _touch(self, step: Touch) -> None:
        self.touched = None
        if isinstance(step.stage, TopRows) and self.queries.plan.large:
            return  # to order all changed rows would be no less work than to find the first ones anew
        if self._quiet(step.query):
            self.queries.unchanged.add(step.stage.table)
            return
        touched = self.queries.rows(step.query)
        if touched.empty:
            self.queries.unchanged.add(step.stage.table)
        self.touched = touched
        self.queries.hold(step.stage.touched_table, touched)

    def _settle(self, step: Settle, finish: Finish | None) -> None:
        stage = step.stage
        schema = types.with_weight(hidden_schema(stage.state))
        if stage.table in self.queries.unchanged or (not stage.keys and self._quiet(step.query_if_none_lost)):
            self.queries.unchanged.add(stage.table)
            self.queries.unchanged.add(stage.state_table)
            self.queries.bind(stage.state_table, At.DELTA, lambda workspace: empty(workspace.session, schema))
            self.queries.bind(
                stage.state_table, At.NEW, partial(self.queries.relations.frame, table=stage.state_table, at=At.OLD)
            )
            return
        held = self._merged(stage)
        if held is not None:
            change = Rows(schema, table=held)
            if finish is not None and held.num_rows:
                self.result.change = self._finished(change, finish)
        elif finish is None:
            change = self.queries.signed(self._settling(step), hidden_schema(stage.state))
        else:
            change, self.result.change = self._settle_and_finish(self._settling(step), finish)
        self.result.states[stage.table] = change
        self._settled(stage, change)

    def _moved_on(self, stage: Stage, change: Rows, workspace: Workspace) -> DataFrame:
        old = self.queries.relations.frame(workspace, stage.state_table, At.OLD)
        return old.unionByName(change.frame(workspace))

    def _merged(self, stage: Stage) -> pa.Table | None:
        """The change of the state where the driver can settle it."""
        if self.touched is None or self.touched.table is None:
            return None
        match stage:
            case ChangeTable():
                return merged(stage, self.touched.table, self.queries.relations.states[stage.state_table])
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
            return Rows(types.with_weight(self.schema), table=consolidate(simple))
        state = finish.stage.state
        scan = Scan(finish.stage.state_table, At.DELTA, state, stored_fields(state))
        self.queries.hold(finish.stage.state_table, change, At.DELTA)
        rows = self.queries.answer(_valued(scan, finish), types.with_weight(self._valued_schema(scan.columns)))
        return self._split(rows, hidden_schema(state))[1]

    def _settle_and_finish(self, query: Node, finish: Finish) -> tuple[Rows, Rows]:
        """One query for the change of the state and, row by row, of the view."""
        rows = self.queries.answer(_valued(query, finish), types.with_weight(self._valued_schema(query.columns)))
        return self._split(rows, hidden_schema(query.columns))

    def _valued_schema(self, state: Sequence[Column]) -> StructType:
        keep = StructField("keep", types.type_of("boolean"))
        return StructType([*hidden_schema(state).fields, *_value_fields(self.schema), keep])

    def _split(self, rows: Rows, hidden: StructType) -> tuple[Rows, Rows]:
        state_names = [f.name for f in hidden.fields]
        value_names = [f.name for f in _value_fields(self.schema)]
        weighted = types.with_weight(hidden), types.with_weight(self.schema)
        if rows.table is not None:
            state = consolidate(rows.table.select([*state_names, "_n"]))
            kept = rows.table.filter(pc.fill_null(rows.table.column("keep"), False))
            change = kept.select([*value_names, "_n"]).rename_columns([*self.schema.names, "_n"])
            return Rows(weighted[0], table=state), Rows(weighted[1], table=consolidate(change))
        frame = rows.frame(self.queries.workspace)
        state_frame = consolidated(frame, state_names)
        change_frame = consolidated(frame.where("keep"), value_names).toDF(*self.schema.names, "_n")
        return self.queries.written(state_frame, weighted[0]), self.queries.written(change_frame, weighted[1])

    def _build(self, step: Build) -> None:
        hidden = hidden_schema(step.stage.state)
        around = "SELECT *, CAST(1 AS BIGINT) AS _n FROM ({})"
        rows = self.queries.by_spark(step.query, types.with_weight(hidden), around)
        self.result.states[step.stage.table] = rows
        self.queries.hold(step.stage.state_table, rows)

    def _iterate(self, step: Iterate, finish: Finish | None) -> None:
        stage = step.stage
        table, self.result.rounds = run_levels(step, self.queries)
        change = Rows(types.with_weight(hidden_schema(stage.state)), table=table)
        self.result.states[stage.table] = change
        if step.anew:
            self.queries.bind(stage.state_table, At.NEW, change.frame)
            return
        if finish is not None and table.num_rows:
            self.result.change = self._finished(change, finish)
        self._settled(stage, change)

    def _settled(self, stage: Stage, change: Rows) -> None:
        """Lets later steps read the change of a state, and the state that it makes."""
        if change.empty:
            self.queries.unchanged.add(stage.state_table)
        self.queries.hold(stage.state_table, change, At.DELTA)
        self.queries.bind(stage.state_table, At.NEW, partial(self._moved_on, stage, change))

    def _quiet(self, query: Node) -> bool:
        """Whether every change that the query reads turned out to be empty."""
        changes = {n.table for n in query.walk() if isinstance(n, Scan) and n.at is At.DELTA}
        timed = any(map(reads_clock, query.walk())) and CLOCK in self.queries.plan.changed
        return bool(changes) and changes <= self.queries.unchanged and not timed


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
