"""Maintenance in the interpreter: the steps of a plan, executed on small data without Spark.

The interpreter runs the same steps on bags that the engine runs on Spark and Delta tables: build the states of a view, find
the touched groups, settle the states, finish the view. The law of the whole calculus is one equation:

    change of the view  =  view(new) − view(old)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nabla.algebra.calls import Named
from nabla.algebra.clock import Moments
from nabla.algebra.expressions import Column
from nabla.algebra.names import WEIGHT_FIELD, stored_fields
from nabla.algebra.nodes import At, Filter, Node, Project, Recursion
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate, negated
from nabla.calculus.by_key import TOUCHED
from nabla.calculus.recursion.levels import LevelLoop, LevelQueries, Limits, unseen
from nabla.calculus.stages import Stage, Staged, cut
from nabla.dev.testing.random_plans import reading
from nabla.planner.delta_steps import maintenance_steps, rebuild_steps
from nabla.planner.steps import Build, Finish, Iterate, Produce, Recompute, Replace, Settle, Touch

Evaluate = Callable[[Node, Database], Bag]
"""Answers a query: the interpreter, or something that compares others with it."""


@dataclass
class Outcome:
    """The view's change and the states before and after, by stage."""

    change: Bag
    states: dict[str, Bag]


@dataclass(frozen=True)
class _Stored(Database):
    """Tables, and beside them the relations that a refresh keeps or makes on the way."""

    hidden: dict[tuple[str, At], Bag] = field(default_factory=dict)
    by: Evaluate = evaluate

    def answer(self, query: Node) -> Bag:
        return self.by(query, self)

    def read(self, table: str, at: At) -> Bag:
        if (table, at) in self.hidden:
            return self.hidden[table, at]
        return super().read(table, at)


def _stored(database: Database, staged: Staged, by: Evaluate = evaluate) -> _Stored:
    fields = dict(database.fields)
    for stage in staged.stages:
        fields[stage.state_table] = (*stored_fields(stage.state), WEIGHT_FIELD)
    return _Stored(fields, dict(database.before), dict(database.after), database.moments, by=by)


def _log(state: Bag) -> Bag:
    """A state as it is stored: each row with its count, as a column."""
    return Counter({(*row, n): 1 for row, n in state.items()})


def build(staged: Staged, database: Database, by: Evaluate = evaluate) -> tuple[Bag, dict[str, Bag]]:
    """The view and its states from the new state of the tables."""
    stored, states = _stored(database, staged, by), {}
    for step in rebuild_steps(staged):
        if isinstance(step, Build):
            state = stored.answer(step.query)
            states[step.stage.table] = state
            stored.hidden[step.stage.state_table, At.NEW] = Counter({(*row, 1): n for row, n in state.items()})
        elif isinstance(step, Iterate):
            levels = _loop(step, stored).compute()
            states[step.stage.table] = state = _with_levels(levels)
            stored.hidden[step.stage.state_table, At.NEW] = _log(state)
        elif isinstance(step, Recompute):
            return stored.answer(step.query), states
    raise AssertionError("nothing recomputes the view")


def maintain(
    staged: Staged,
    database: Database,
    before: Mapping[str, Bag],
    changed: frozenset[str],
    view: Bag | None = None,
    by: Evaluate = evaluate,
) -> Outcome:
    """The change of the view by the maintenance steps, from the states that were built or maintained before. `view` is
    what it was, which one that is computed key by key needs."""
    stored, states = _stored(database, staged, by), dict(before)
    for stage in staged.stages:
        for at in (At.OLD, At.NEW):
            stored.hidden[stage.state_table, at] = _log(states[stage.table])
        stored.hidden[stage.state_table, At.DELTA] = Counter()
    change: Bag = Counter()
    for step in maintenance_steps(staged, changed):
        match step:
            case Touch():
                stored.fields[step.stage.touched_table] = stored_fields(step.query.columns)  # type: ignore[index]
                stored.hidden[step.stage.touched_table, At.NEW] = stored.answer(step.query)
            case Settle():
                _settle(step, stored, states)
            case Iterate():
                changes = _loop(step, stored).maintain(_levels(states[step.stage.table]), Counter())
                _move(step.stage, _with_levels(changes), stored, states)
            case Produce():
                change = stored.answer(step.query)
            case Replace():
                change = _replace_rows(step, stored, view or Counter())
        if isinstance(step, Settle | Iterate) and step.finish is not None:
            change = _finish(step.finish, stored)
    return Outcome(change, states)


def _replace_rows(step: Replace, stored: _Stored, view: Bag) -> Bag:
    keys = stored.answer(step.touched)
    stored.fields[TOUCHED] = stored_fields(step.touched.columns)  # type: ignore[index]
    stored.hidden[TOUCHED, At.NEW] = keys
    there: Bag = Counter({row: n for row, n in view.items() if tuple(row[place] for place in step.key) in keys})
    return added(stored.answer(step.query), negated(there))


def _settle(step: Settle, stored: _Stored, states: dict[str, Bag]) -> None:
    stage = step.stage
    delta = stored.answer(step.query_if_lost or step.query)
    if not _deletes_extremes(stage, stored) and stored.answer(step.query) != delta:
        raise AssertionError(f"the two forms of settling {stage.table} disagree")
    _move(stage, delta, stored, states)


def _move(stage: Stage, delta: Bag, stored: _Stored, states: dict[str, Bag]) -> None:
    states[stage.table] = added(states[stage.table], delta)
    stored.hidden[stage.state_table, At.DELTA] = Counter({(*row, None): n for row, n in delta.items()})
    stored.hidden[stage.state_table, At.NEW] = _log(states[stage.table])


class _Interpreted:
    """The queries of levels in the interpreter."""

    def __init__(self, stored: _Stored, recursion: Recursion) -> None:
        self.stored = stored
        self.fields = tuple(f"c{i}" for i in range(len(recursion.output)))

    def bag(self, query: Node, made: Mapping[str, Bag]) -> Bag:
        fields = {**self.stored.fields, **dict.fromkeys(made, self.fields)}
        hidden = {**self.stored.hidden, **{(name, at): bag for name, bag in made.items() for at in At}}
        return replace(self.stored, fields=fields, hidden=hidden).answer(query)

    def plus(self, rows: Bag, change: Bag) -> Bag:
        return added(rows, change)

    def minus(self, rows: Bag, other: Bag) -> Bag:
        return added(rows, negated(other))

    def unseen(self, level: Bag, seen: Bag | None) -> tuple[Bag, Bag]:
        return unseen(level, seen)

    def sample(self, relation: Bag) -> list[tuple[object, ...]]:
        return list(relation)[:3]

    def total(self, relation: Bag) -> int:
        return relation.total()

    def differs(self, change: Bag) -> bool:
        return bool(change)


def _loop(step: Iterate, stored: _Stored) -> LevelLoop[Bag]:
    recursion = step.stage.recursion
    queries = LevelQueries(
        recursion.table, step.start, step.from_level, step.from_both, step.from_tables, recursion.once
    )
    return LevelLoop(_Interpreted(stored, recursion), queries, Limits(recursion.most_levels, recursion.most_rows))


def _with_levels(levels: Iterable[Bag]) -> Bag:
    return Counter({(number, *row): n for number, level in enumerate(levels) for row, n in level.items()})


def _levels(state: Bag) -> list[Bag]:
    depth = 1 + max((row[0] for row in state), default=-1)
    return [Counter({row[1:]: n for row, n in state.items() if row[0] == number}) for number in range(depth)]


def _deletes_extremes(stage: Stage, stored: _Stored) -> bool:
    columns = stage.deletions()
    touched = stored.hidden.get((stage.touched_table, At.NEW), Counter())
    width = len(stored.fields.get(stage.touched_table, ()))
    return any(row[place] is not None for row in touched for place in range(width - len(columns), width))


def _finish(finish: Finish, stored: _Stored) -> Bag:
    rows: Node = finish.stage.contents(At.DELTA).inputs[0]
    while isinstance(rows, Filter):
        rows = rows.input
    if finish.keep is not None:
        rows = Filter(rows, (finish.keep,))
    outputs = tuple(Named(Column(f"value{i}#", v.type), v) for i, v in enumerate(finish.values))
    return stored.answer(Project(rows, outputs))


def check(
    plan: Node, database: Database, changed: frozenset[str], key: tuple[str, ...] = (), by: Evaluate = evaluate
) -> None:
    """Assert that maintaining a view gives the same as recomputing it."""
    staged = cut(plan, key)
    before = by(reading(plan, At.OLD), database)
    after = by(plan, database)
    then = Moments(database.moments.before, database.moments.before)
    old = Database(database.fields, database.before, database.before, then)
    view_before, states_before = build(staged, old, by)
    same("the built view", view_before, before)
    outcome = maintain(staged, database, states_before, changed, before, by)
    same("the change of the view", outcome.change, added(after, negated(before)))
    view_after, states_after = build(staged, database, by)
    for table, state in states_after.items():
        same(f"the state {table}", outcome.states[table], state)
    same("the rebuilt view", view_after, after)


def same(what: str, found: Bag, expected: Bag) -> None:
    """Assert that two bags are equal, up to the last digits of floating point sums."""
    if _round_floats(found) != _round_floats(expected):
        raise AssertionError(f"{what}: found {dict(found)}, expected {dict(expected)}")


def _round_floats(bag: Bag) -> Bag:
    """The bag with rounded floats, because the last digits of a sum depend on the order of summation."""
    return Counter({tuple(_round(v) for v in row): n for row, n in bag.items()})


def _round(value: object) -> object:
    return float(f"{value:.9g}") if isinstance(value, float) else value
