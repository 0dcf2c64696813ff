"""Random views over auxiliary views, maintained through sequences of changes with their sources taken away.

The sources are read once, to build the auxiliary views. From then on each auxiliary view gets the change of its source and
nothing else, and the view gets the changes of its auxiliary views. After each change it must be what recomputing gives, and
an auxiliary view that could do without a column or a row that it has is not minimal.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from nabla.algebra.nodes import At
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate
from nabla.calculus.stages import Staged, cut
from nabla.dev.testing.maintained import build, maintain, same
from nabla.dev.testing.random_data import DEFAULT, random_database
from nabla.dev.testing.random_plans import ALL, random_scenario
from nabla.planner.auxiliary_views import Auxiliary, chain, chains, detach

CHANGES = 3
"""Changes of the sources of each view."""


class Unreadable(Database):
    """Tables that can be asked for their change alone."""

    def read(self, table: str, at: At) -> Bag:
        if at is not At.DELTA:
            raise AssertionError(f"{table} was read")
        return super().read(table, at)


class _Kept:
    """A stored view with its states, which is maintained step by step."""

    def __init__(self, staged: Staged, database: Database) -> None:
        self.staged = staged
        self.rows, self.states = build(staged, database)

    def follow(self, database: Database, changed: frozenset[str]) -> None:
        outcome = maintain(self.staged, database, self.states, changed, self.rows)
        self.rows, self.states = +added(self.rows, outcome.change), outcome.states


def follow_detached_view(seed: int, changes: int = CHANGES) -> int:
    """One view through some changes; the number of its auxiliary views."""
    case = random_scenario(seed, ALL)
    rng = Random(f"changes {seed}")
    root, auxiliaries = detach("v", case.plan, {t.name: len(t.columns) for t in case.schema})
    assert_minimal(auxiliaries, seed)
    tables = dict(case.database.before)
    fields, moments = case.database.fields, replace(case.database.moments, after=case.database.moments.before)
    start = Database(fields, tables, tables, moments)
    stored = {a.name: _Kept(cut(a.plan), start) for a in auxiliaries}
    outputs = {a.name: a.outputs for a in auxiliaries}
    assert {scan.table for scan in root.scans} <= set(outputs), seed

    def held() -> dict[str, Bag]:
        return {name: kept.rows for name, kept in stored.items()}

    view = _Kept(cut(root), Database(outputs, held(), held(), moments))
    for _ in range(changes):
        after = dict(random_database(rng, case.schema, DEFAULT).after)
        sealed = Unreadable(fields, tables, after, moments)
        changed = frozenset(name for name in after if after[name] != tables[name])
        before = held()
        for kept in stored.values():
            kept.follow(sealed, changed)
        now = held()
        moved = frozenset(name for name in now if now[name] != before[name])
        view.follow(Database(outputs, before, now, moments), moved)
        same(f"the view of seed {seed}", view.rows, evaluate(case.plan, Database(fields, after, after, moments)))
        tables = after
    return len(auxiliaries)


def assert_minimal(auxiliaries: tuple[Auxiliary, ...], seed: int) -> None:
    """One auxiliary view for each source, with no column that nothing reads."""
    assert len({a.table for a in auxiliaries}) == len(auxiliaries), seed
    for auxiliary in auxiliaries:
        found = chain(auxiliary.plan)
        assert found is not None, seed
        assert chains(auxiliary.plan, frozenset()), seed
        assert len(set(auxiliary.outputs)) == len(auxiliary.outputs) == len(auxiliary.plan.columns), seed
