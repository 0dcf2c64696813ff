"""Integrity constraints: queries over tables and views that must stay empty.

A constraint is kept like a view, the view of its violations: the effect of a change on it is known before the change is
committed, at the cost of the change. Keys, foreign keys and sizes are queries like any other, which `nabla.constraints`
spells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from nabla.algebra.nodes import Constant
from nabla.calculus.obstacles import obstacles
from nabla.constraints import foreign_key, key
from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.datalog.denials import Denial
from nabla.frontends.datalog.syntax import VIOLATION
from nabla.frontends.spark_sql.define import define
from nabla.lake.constraints import quarantine
from nabla.lake.constraints.violations import Violated, Violation, violation_of
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import current_source
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.create import Built, build_views, create
from nabla.lake.refresh.rules import read_denial
from nabla.lake.refresh.verify import recompute
from nabla.lake.reports import Checked, CheckReport, ViewReport
from nabla.lake.write.new_table import new_table
from nabla.rewrite.recursion_as_set import recursions_as_sets
from nabla.storage.catalog import ORIGIN, Entry, LakeState

ACTIONS = ("reject", "warn", "quarantine")
_UNSTEADY = ("NABLA_NONDETERMINISTIC", "NABLA_TIME_DEPENDENT", "NABLA_LIMIT_WITHOUT_ORDER")

Query = str | DataFrame | Callable[[], DataFrame]


def create_constraint(
    context: LakeContext, name: str, query: Query | None, on_violation: str, rules: str | None = None
) -> ViewReport:
    """Define a constraint, build the view of its violations, which has to be empty, and commit it."""
    if (query is None) == (rules is None):
        raise NablaError(
            "NABLA_CONSTRAINT",
            "say what must not be, in one way",
            place=f'constraint "{name}"',
            remedy="Pass a query, or rules= with a denial such as :- path(X, X).",
        )
    constraint = ConstraintDefinition(name, query, on_violation, rules)
    return create(context, context.log.state(), "create constraint", [constraint])[name]


@dataclass(frozen=True)
class ConstraintDefinition:
    """A constraint over the tables and views that there are when it is built, and what happens when it is violated. It is a
    query, or `rules` with a denial."""

    name: str
    query: Query | None
    on_violation: str
    rules: str | None = None

    def build(self, context: LakeContext, state: LakeState) -> Built:
        check_action(self.on_violation)
        context.names(state).check_new(self.name)
        view = self._define(context, state)
        built = build_views(context, [view], state, f'constraint "{self.name}"')
        found = built.reports[self.name].inserted
        if found and self.on_violation != "warn":
            stored = context.log.snapshot(built.entries[self.name].parts["data"])
            remedy = 'The constraint was not made. Repair the rows first, or pass on_violation="warn".'
            raise Violated([violation_of(self.name, "reject", view.outputs, stored, found)], remedy=remedy)
        if self.on_violation != "quarantine":
            return built
        return replace(built, entries={**built.entries, **_new_quarantines(context, view, state)})

    def _define(self, context: LakeContext, state: LakeState) -> View:
        view = replace(self._view(context, state), on_violation=self.on_violation)
        context.names(state).check_view(view)
        _refuse_unsteady(view)
        return view

    def _view(self, context: LakeContext, state: LakeState) -> View:
        """The view of its violations."""
        if self.rules is not None:
            return _denied(context, self.name, self.rules, state)
        assert self.query is not None
        with context.spark.named_session_at(state) as session:
            query = self.query if isinstance(self.query, str | DataFrame) else self.query()
            defined = define(session, query, list(state.entries), self.name)
        notes = tuple(str(note) for note in defined.notes)
        view = View.of(self.name, defined.plan, defined.outputs, defined.sql, notes)
        return _with_sets(replace(view, functions=defined.functions))


def _with_sets(view: View) -> View:
    """The view of violations, as a set where its query is recursive: so that it has an end on cyclic graphs."""
    plan = recursions_as_sets(view.plan)
    if plan is view.plan or obstacles(plan):
        return view
    return replace(view, plan=plan, notes=(*view.notes, "a recursion that carries every row on once, as UNION would"))


def _denied(context: LakeContext, name: str, text: str, state: LakeState) -> View:
    """The view of the violations of a denial: maintained where the lake stores all that it reads, else asked for."""
    denied = read_denial(context, name, text, state)
    denial = Denial(denied.program)
    plan = Constant(denial.columns, ()) if denial.is_asked else denied.program.plan(VIOLATION)
    notes = ("a denial: its violations are asked for before every commit that can make one",) if denial.is_asked else ()
    outputs = tuple(c.name for c in denial.columns)
    return replace(View.of(name, plan, outputs, None, notes), denied=denied)


def declared_constraints(table: str, keys: Sequence[str], foreign_keys: Mapping[str, str]) -> Mapping[str, str]:
    """The queries of the constraints that a table's key and foreign keys stand for, by name."""
    own = {f"{table}_key": key(table, *keys)} if keys else {}
    return own | {f"{table}_{column}_fk": foreign_key(table, column, to) for column, to in foreign_keys.items()}


def check_constraints(context: LakeContext, names: Sequence[str]) -> CheckReport:
    """Evaluate every constraint, or the given ones, from scratch on the lake as it is."""
    state = context.log.state()
    wanted = [context.names(state).entry(n, "constraint") for n in names] or [
        e for e in state.entries.values() if e.kind == "constraint"
    ]
    return CheckReport({entry.name: _check(context, entry, state) for entry in wanted})


def check_action(action: str) -> str:
    """Refuse an action that is none of the known ones."""
    if action not in ACTIONS:
        raise NablaError(
            "NABLA_ON_VIOLATION",
            f"a constraint cannot {action!r}",
            place="on_violation=",
            remedy=f"Use one of {', '.join(ACTIONS)}.",
        )
    return action


def _refuse_unsteady(view: View) -> None:
    """A constraint must not use the clock or rand(): nobody's transaction could be blamed for the violation."""
    unsteady = next((o for o in view.obstacles if o.code in _UNSTEADY), None)
    if unsteady is not None or view.clock:
        raise NablaError(
            "NABLA_CONSTRAINT",
            unsteady.what if unsteady else f"it reads the clock ({', '.join(sorted(view.clock))})",
            place=f'constraint "{view.name}"',
            remedy="A constraint depends on tables and views alone.",
        )


def _new_quarantines(context: LakeContext, view: View, state: LakeState) -> dict[str, Entry]:
    """A table for the rows that are set aside, for each table that the constraint reads."""
    made = {}
    for source in view.sources:
        entry, name = state.entries[source], quarantine.name_of(source)
        if entry.kind != "table" or ORIGIN in entry.definition:
            continue
        shape = quarantine.shape_of(types.from_json(entry.definition["schema"]))
        definition = {"schema": shape.json(), "key": [], "foreign_keys": {}, "quarantine": source}
        known = context.names(state).find(name)
        if known is None:
            made[name] = new_table(context, name, shape, None, definition)
        elif known.definition.get("quarantine") != source:
            context.names(state).check_new(name)
    return made


def _check(context: LakeContext, entry: Entry, state: LakeState) -> Checked:
    view = load_view(entry.name, entry.definition)
    now = {name: current_source(context.log, name, state).new for name in entry.facts["sources"]}
    with recompute(context, view, replace(entry, facts={**entry.facts, "sources": now}), state) as frame:
        rows = types.conform(frame.toArrow(), view.schema)
    found = Violation(entry.name, entry.definition["on_violation"], view.outputs, rows, rows.num_rows)
    return Checked(entry.name, found.action, rows.num_rows, found)
