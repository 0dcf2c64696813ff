"""Integrity constraints: queries over tables and views that must stay empty.

A constraint is kept like a view, the view of its violations: what a change does to it is known before the change is
committed, at the cost of the change. Keys, foreign keys and sizes are queries like any other, which `key`,
`foreign_key` and `same_size` spell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.spark_sql.define import define
from nabla.lake.constraints import quarantine
from nabla.lake.constraints.violations import Violated, Violation, violation_of
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import current_source
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.build import build
from nabla.lake.refresh.verify import recomputed
from nabla.lake.reports import Checked, CheckReport, ViewReport
from nabla.lake.write.new_table import new_table
from nabla.storage.catalog import Entry, LakeState

ACTIONS = ("reject", "warn", "quarantine")
_UNSTEADY = ("NABLA_NONDETERMINISTIC", "NABLA_TIME_DEPENDENT", "NABLA_LIMIT_WITHOUT_ORDER")

Query = str | DataFrame | Callable[[], DataFrame]


def key(table: str, *columns: str) -> str:
    """No two rows agree in all columns of a key, and none of these is NULL."""
    names = ", ".join(map(quote, columns))
    missing = " OR ".join(f"{quote(c)} IS NULL" for c in columns)
    return f"SELECT {names}, COUNT(*) AS copies FROM {quote(table)} GROUP BY {names} HAVING COUNT(*) > 1 OR {missing}"


def foreign_key(table: str, column: str, target: str) -> str:
    """Every value of a column, NULL aside, occurs in the column `target`, written "table.column"."""
    other, _, its = target.partition(".")
    return (
        f"SELECT * FROM {quote(table)} AS child WHERE child.{quote(column)} IS NOT NULL AND NOT EXISTS "
        f"(SELECT 1 FROM {quote(other)} AS parent WHERE parent.{quote(its)} = child.{quote(column)})"
    )


def same_size(one: str, other: str) -> str:
    """Two tables or views have as many rows. Only the sizes of the changes are looked at: |ΔS| − |∇S| = |ΔT| − |∇T|."""
    return (
        f"SELECT a.n AS {quote(f'rows of {one}')}, b.n AS {quote(f'rows of {other}')} "
        f"FROM (SELECT COUNT(*) AS n FROM {quote(one)}) a CROSS JOIN (SELECT COUNT(*) AS n FROM {quote(other)}) b "
        "WHERE a.n <> b.n"
    )


def create(context: LakeContext, name: str, query: Query, on_violation: str) -> ViewReport:
    state = context.log.state()
    context.spark.show_names()
    context.names(state).check_new(name)
    entries, report = _made(context, name, _asked(query), on_violation, state)
    sources = entries[name].facts["sources"]
    context.log.commit(entries, state, "create constraint", {name: report.brief()}, lambda _: sources)
    return report


def enforced(context: LakeContext, entry: Entry, on_violation: str, state: LakeState) -> dict[str, Entry]:
    """A new table with the constraints that its key and foreign keys are."""
    entries = {entry.name: entry}
    for name, query in declared(entry).items():
        now = replace(state, entries=state.changed(entries))
        context.names(now).check_new(name)
        context.spark.show_names(now)
        made, _ = _made(context, name, query, on_violation, now)
        entries |= made
    return entries


def declared(entry: Entry) -> Mapping[str, str]:
    """The constraints that a table's key and foreign keys stand for, by name."""
    table, foreign = entry.name, entry.definition["foreign_keys"] or {}
    own = {f"{table}_key": key(table, *entry.definition["key"])} if entry.definition["key"] else {}
    return own | {f"{table}_{column}_fk": foreign_key(table, column, target) for column, target in foreign.items()}


def check(context: LakeContext, names: Sequence[str]) -> CheckReport:
    """Every constraint, or the given ones, evaluated from scratch on the lake as it is."""
    state = context.log.state()
    wanted = [context.names(state).entry(n, "constraint") for n in names] or [
        e for e in state.entries.values() if e.kind == "constraint"
    ]
    return CheckReport({entry.name: _checked(context, entry, state) for entry in wanted})


def check_action(action: str) -> str:
    if action not in ACTIONS:
        raise NablaError(
            "NABLA_ON_VIOLATION",
            f"a constraint cannot {action!r}",
            place="on_violation=",
            remedy=f"Use one of {', '.join(ACTIONS)}.",
        )
    return action


def _asked(query: Query) -> str | DataFrame:
    return query if isinstance(query, str | DataFrame) else query()


def _made(
    context: LakeContext, name: str, query: str | DataFrame, action: str, state: LakeState
) -> tuple[dict[str, Entry], ViewReport]:
    """The entries of a constraint, built on a state that satisfies it."""
    check_action(action)
    defined = define(context.spark.session, query, list(state.entries), name)
    notes = tuple(str(note) for note in defined.notes)
    view = View.of(name, defined.plan, defined.outputs, defined.sql, notes)
    view = replace(view, on_violation=action, functions=defined.functions)
    context.names(state).check_view(view, None)
    _refuse_unsteady(view)
    try:
        entry, report = build(context, {name: view}, state)[name]
    except PySparkException as error:
        raise context.translate(error, f'constraint "{name}"') from None
    if report.inserted and action != "warn":
        found = violation_of(name, "reject", view.outputs, context.log.snapshot(entry.parts["data"]), report.inserted)
        remedy = 'The constraint was not made. Repair the rows first, or pass on_violation="warn".'
        raise Violated([found], remedy=remedy)
    return {name: entry, **(_quarantines(context, view, state) if action == "quarantine" else {})}, report


def _refuse_unsteady(view: View) -> None:
    """What may be violated by waiting, or by looking again, is nobody's change."""
    unsteady = next((o for o in view.obstacles if o.code in _UNSTEADY), None)
    if unsteady is not None or view.clock:
        raise NablaError(
            "NABLA_CONSTRAINT",
            unsteady.what if unsteady else f"it reads the clock ({', '.join(sorted(view.clock))})",
            place=f'constraint "{view.name}"',
            remedy="A constraint depends on tables and views alone.",
        )


def _quarantines(context: LakeContext, view: View, state: LakeState) -> dict[str, Entry]:
    """A table for the rows that are set aside, for each table that the constraint reads."""
    made = {}
    for source in view.sources:
        entry, name = state.entries[source], quarantine.name_of(source)
        if entry.kind != "table":
            continue
        shape = quarantine.shape_of(types.from_json(entry.definition["schema"]))
        definition = {"schema": shape.json(), "key": [], "foreign_keys": {}, "quarantine": source}
        known = context.names(state).find(name)
        if known is None:
            made[name] = new_table(context, name, shape, None, definition)
        elif known.definition.get("quarantine") != source:
            context.names(state).check_new(name)
    return made


def _checked(context: LakeContext, entry: Entry, state: LakeState) -> Checked:
    view = load_view(entry.name, entry.definition)
    now = {name: current_source(context.log, name, state).new for name in entry.facts["sources"]}
    with recomputed(context, view, replace(entry, facts={**entry.facts, "sources": now}), state) as frame:
        rows = types.conform(frame.toArrow(), view.schema)
    found = Violation(entry.name, entry.definition["on_violation"], view.outputs, rows, rows.num_rows)
    return Checked(entry.name, found.action, rows.num_rows, found)
