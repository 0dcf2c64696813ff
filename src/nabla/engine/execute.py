"""Runs the plan of a view, or of views that are recursive together, and gives the results to apply.

There are four ways. A plan has steps, which are executed one by one. The predicates of a recursive group are computed
together, round by round. The violations of a denial are asked for. A query that Nabla has no algebra for runs as the user
wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType
from pyspark.util import inheritable_thread_target

from nabla.algebra.build import TRUE, when
from nabla.algebra.calls import Named
from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import At, Node, Project, Scan
from nabla.calculus.recursion.fixpoint import Round
from nabla.calculus.recursion.relations import RecursiveGroup
from nabla.calculus.stages import ChangeTable, Stage, TopRows
from nabla.engine import types
from nabla.engine.apply import Change, Computed, Result, Whole
from nabla.engine.driver.first_rows import first_rows
from nabla.engine.driver.merge import finish_on_driver, merge
from nabla.engine.levels import run_levels
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, hidden_schema
from nabla.engine.replacement import replace_by_key
from nabla.engine.spark.bags import consolidate as consolidate_frame
from nabla.engine.spark.frames import Workspace, empty
from nabla.engine.spark.rounds import Denial, run_denial, run_group
from nabla.planner.steps import (
    Build,
    Finish,
    Iterate,
    Produce,
    Recompute,
    Replace,
    Settle,
    Step,
    Touch,
    doing,
    side_by_side,
)
from nabla.storage.bags import consolidate


@dataclass(frozen=True)
class Task:
    """Views that are computed together, with the schemas of their tables. `group` are the rules of recursive ones, `denial`
    are those of a constraint whose violations are asked for, `text` is the query of a view that Nabla has no algebra for."""

    schemas: Mapping[str, StructType]
    group: RecursiveGroup | None = None
    text: str | None = None
    denial: Denial | None = None


def run(task: Task, queries: Queries) -> dict[str, Computed]:
    """The results of a plan for each view."""
    if task.group is not None:
        with queries.tracer.step(1, "the rounds of a recursion"):
            return run_group(task.group, task.schemas, queries)
    ((name, schema),) = task.schemas.items()
    if task.denial is not None:
        with queries.tracer.step(1, "ask for violations"):
            return {name: run_denial(task.denial, schema, queries)}
    if task.text is not None:
        with queries.tracer.step(1, "run the query as it was written") as trace:
            computed, trace.rows = _run_text(task.text, schema, queries)
            return {name: computed}
    return {name: Execution(queries, schema).run()}


def _run_text(text: str, schema: StructType, queries: Queries) -> tuple[Computed, ComputedRows]:
    """A query as it was written, on the versions of this refresh: in a session of its own, which knows the relations by
    the names that the user gave them. Gives its rows, too."""
    with queries.sessions.separate("large") as workspace:
        for name, source in queries.relations.sources.items():
            source.frame(workspace, At.NEW).createOrReplaceTempView(name)
        with queries.tracer.query("spark") as trace:
            trace.rows = rows = queries.write(workspace.sql(text), schema)
        return Computed(Whole(rows)), rows


class Execution:
    """Runs one plan for a view with that schema. Without steps there is no change: a source moved without one."""

    def __init__(self, queries: Queries, schema: StructType) -> None:
        self.queries = queries
        self.schema = schema
        self.touched: ComputedRows | None = None
        self.states: dict[str, ComputedRows] = {}
        self.result: Result = Change(ComputedRows.none(types.with_weight(schema)), self.states)
        self.rounds: tuple[Round, ...] = ()

    def run(self) -> Computed:
        begun = 1
        for together in side_by_side(self.queries.plan.steps):
            if len(together) > 1:
                self._run_all(begun, together)
            else:
                self._run_traced(begun, together[0])
            begun += len(together)
        return Computed(self.result, self.queries.looked_at, self.rounds)

    def _run_traced(self, number: int, step: Step) -> None:
        with self.queries.tracer.step(number, doing(step)) as trace:
            trace.rows = self._run(step)

    def _run_all(self, begun: int, steps: Sequence[Step]) -> None:
        """Run steps side by side, so that one uses the cores that another leaves idle."""
        session = self.queries.workspace.session
        with ThreadPoolExecutor(len(steps)) as pool:  # Spark writes to local properties, so each thread has its own
            target = inheritable_thread_target(session)(self._run_traced)
            runs = [pool.submit(target, number, step) for number, step in enumerate(steps, begun)]
        for run in runs:
            run.result()

    def _run(self, step: Step) -> ComputedRows | None:
        """Run a step, and give the rows that it made: of the groups that it touched, of a state or its change, of the view."""
        match step:
            case Touch():
                self._touch(step)
                return self.touched
            case Settle():
                self._settle(step)
                return self.states.get(step.stage.table)
            case Produce():
                if self._quiet(step.query):
                    return None
                rows = self.queries.answer_signed(step.query, self.schema)
                self._change(rows)
                return rows
            case Replace():
                self.result = replace_by_key(step, self.queries, self.schema)
                return None
            case Build() | Iterate():
                self._build(step) if isinstance(step, Build) else self._iterate(step)
                return self.states.get(step.stage.table)
            case Recompute():
                rows = self.queries.answer(step.query, self.schema)
                self.result = Whole(rows, self.states)
                return rows

    def _change(self, rows: ComputedRows) -> None:
        self.result = Change(rows, self.states)

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

    def _settle(self, step: Settle) -> None:
        stage = step.stage
        if stage.table in self.queries.unchanged or (not stage.keys and self._quiet(step.query)):
            self._stay(stage)
            return
        merged = self._merge(stage)
        if merged is not None:
            change = ComputedRows(types.with_weight(hidden_schema(stage.state)), table=merged)
            self._finish(change, step.finish)
        elif step.finish is None:
            change = self.queries.answer_signed(self._settling_query(step), hidden_schema(stage.state))
        else:
            change = self._settle_and_finish(self._settling_query(step), step.finish)
        self._move(stage, change)

    def _stay(self, stage: Stage) -> None:
        """Lets later steps read that a state has not changed."""
        schema = types.with_weight(hidden_schema(stage.state))
        self.queries.unchanged |= {stage.table, stage.state_table}
        self.queries.bind(stage.state_table, At.DELTA, lambda workspace: empty(workspace.session, schema))
        stored = partial(self.queries.relations.frame, table=stage.state_table, at=At.OLD)
        self.queries.bind(stage.state_table, At.NEW, stored)

    def _move(self, stage: Stage, change: ComputedRows) -> None:
        """Lets later steps read the change of a state, and the state that it makes."""
        self.states[stage.table] = change
        if change.empty:
            self.queries.unchanged.add(stage.state_table)
        self.queries.hold(stage.state_table, change, At.DELTA)
        self.queries.bind(stage.state_table, At.NEW, partial(self._moved_state, stage, change))

    def _moved_state(self, stage: Stage, change: ComputedRows, workspace: Workspace) -> DataFrame:
        old = self.queries.relations.frame(workspace, stage.state_table, At.OLD)
        return old.unionByName(change.frame(workspace))

    def _merge(self, stage: Stage) -> pa.Table | None:
        """The change of the state where the driver can settle it."""
        if self.touched is None or self.touched.table is None:
            return None
        match stage:
            case ChangeTable():
                return merge(stage, self.touched.table, self.queries.relations.states[stage.state_table])
            case TopRows():
                return first_rows(stage, self.touched.table)
        return None

    def _settling_query(self, step: Settle) -> Node:
        """The query with or without recomputed groups: the touched groups show whether a min or max can be lost."""
        if step.query_if_lost is None:
            return step.query
        if self.touched is None or self.touched.table is None:
            return step.query_if_lost
        table = self.touched.table
        gone = table.columns[table.num_columns - len(step.stage.deletions()) :]
        return step.query_if_lost if any(c.null_count < len(c) for c in gone) else step.query

    def _finish(self, change: ComputedRows, finish: Finish | None) -> None:
        """The change of the view from that of its last state, which is on the driver. Spark computes the user's expressions."""
        assert change.table is not None
        if finish is None or not change.table.num_rows:
            return
        simple = finish_on_driver(finish, change.table, types.arrow_schema(self.schema))
        if simple is not None:
            self._change(ComputedRows(types.with_weight(self.schema), table=consolidate(simple)))
            return
        state = finish.stage.state
        scan = Scan(finish.stage.state_table, At.DELTA, state, finish.stage.state_fields)
        self.queries.hold(finish.stage.state_table, change, At.DELTA)
        self._settle_and_finish(scan, finish)

    def _settle_and_finish(self, query: Node, finish: Finish) -> ComputedRows:
        """One query for the change of the state, which it returns, and, row by row, of the view."""
        rows = self.queries.answer(
            _add_values(query, finish), types.with_weight(self._schema_with_values(query.columns))
        )
        state, change = self._split(rows, hidden_schema(query.columns))
        self._change(change)
        return state

    def _schema_with_values(self, state: Sequence[Column]) -> StructType:
        keep = StructField("keep", types.type_of("boolean"))
        return StructType([*hidden_schema(state).fields, *_value_fields(self.schema), keep])

    def _split(self, rows: ComputedRows, hidden: StructType) -> tuple[ComputedRows, ComputedRows]:
        state_names = [f.name for f in hidden.fields]
        value_names = [f.name for f in _value_fields(self.schema)]
        weighted = types.with_weight(hidden), types.with_weight(self.schema)
        if rows.table is not None:
            state = consolidate(rows.table.select([*state_names, "_n"]))
            kept = rows.table.filter(pc.fill_null(rows.table.column("keep"), False))
            change = kept.select([*value_names, "_n"]).rename_columns([*self.schema.names, "_n"])
            return ComputedRows(weighted[0], table=state), ComputedRows(weighted[1], table=consolidate(change))
        frame = rows.frame(self.queries.workspace)
        state_frame = consolidate_frame(frame, state_names)
        change_frame = consolidate_frame(frame.where("keep"), value_names).toDF(*self.schema.names, "_n")
        return self.queries.write(state_frame, weighted[0]), self.queries.write(change_frame, weighted[1])

    def _build(self, step: Build) -> None:
        rows = self.queries.answer_once(step.query, hidden_schema(step.stage.state))
        self.states[step.stage.table] = rows
        self.queries.hold(step.stage.state_table, rows)

    def _iterate(self, step: Iterate) -> None:
        stage = step.stage
        table, self.rounds = run_levels(step, self.queries)
        change = ComputedRows(types.with_weight(hidden_schema(stage.state)), table=table)
        if step.anew:
            self.states[stage.table] = change
            self.queries.bind(stage.state_table, At.NEW, change.frame)
        else:
            self._finish(change, step.finish)
            self._move(stage, change)

    def _quiet(self, query: Node) -> bool:
        """Whether every change that the query reads turned out to be empty."""
        changes = {scan.table for scan in query.scans if scan.at is At.DELTA}
        timed = CLOCK in self.queries.plan.changed and any(map(reads_clock, query.walk()))
        return bool(changes) and changes <= self.queries.unchanged and not timed


def _value_fields(schema: StructType) -> list[StructField]:
    return [StructField(f"v{i}", f.dataType) for i, f in enumerate(schema.fields)]


def _add_values(state: Node, finish: Finish) -> Project:
    """Rows of a state with the view's values beside them, and whether the view keeps them."""
    keep = finish.keep or TRUE
    values = [Named(Column(f"value{i}#", v.type), _guard(v, keep)) for i, v in enumerate(finish.values)]
    columns = tuple(Named(c, c.ref) for c in state.columns)
    return Project(state, (*columns, *values, Named(Column("keep#", "boolean"), keep)))


def _guard(value: Expr, keep: Expr) -> Expr:
    """Compute a value only for rows that are kept, because it may fail for others."""
    if value.column is not None:
        return value
    return when(keep, value)
