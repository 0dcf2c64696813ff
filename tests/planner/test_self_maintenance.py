"""Self-maintenance: views that need no source, and views over auxiliary views, which are the same views."""

from __future__ import annotations

from collections import Counter

import pytest

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, Node, Project, Scan
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate
from nabla.calculus.stages import cut
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import build, check, maintain
from nabla.dev.testing.random_plans import ALL, Scenario, random_scenario, reading
from nabla.planner.self_maintenance import SelfMaintenance, assess, detach


def table(name: str, *columns: str) -> Scan:
    return Scan(name, At.NEW, tuple(Column(f"{name}.{c}#1", "int") for c in columns), columns)


R, S = table("r", "a", "b"), table("s", "b", "c")
JOIN = Join(R, S, (equal(Column("r.b#1", "int").ref, Column("s.b#1", "int").ref),))
NOTHING = Project(R, (Named(Column("one#1", "int", False), read_text("1", "int", False)),))


def assessed(plan: Node, given: frozenset[str] = frozenset()) -> SelfMaintenance:
    widths = {node.table: 2 for node in plan.walk() if isinstance(node, Scan)}
    return assess("v", plan, cut(plan), widths, given)


def test_a_relation_and_its_selections_need_nothing() -> None:
    assert assessed(R).alone
    assert assessed(Filter(R, (read_text("(`r.a#1` > 1)", "boolean"),))).alone


def test_the_projection_on_no_attributes_is_not_self_maintainable_without_counts() -> None:
    """Barbier: the view of R = {a} and of R = {a, b} is the same; delete a, and it is not."""
    found = assessed(Distinct(NOTHING))
    assert not found.alone
    assert found.maintainable
    assert "not self-maintainable by its own rows" in str(found)
    (state,) = found.states
    assert "its number of rows" in state


def test_a_join_reads_its_operands_unless_they_are_in_the_set() -> None:
    assert assessed(JOIN).reads == ("r", "s")
    assert not assessed(JOIN).maintainable
    assert assessed(JOIN, frozenset(("r", "s"))).maintainable
    assert [a.kind for a in assessed(JOIN).auxiliaries] == ["whole", "whole"]


def test_a_minimum_needs_its_source_for_deletions_only() -> None:
    lowest = Aggregate(R, ("r.a#1",), (Call(Column("m#1", "int"), "min", (Column("r.b#1", "int").ref,)),))
    found = assessed(lowest)
    assert found.reads == ("r",)
    assert found.insertions


def test_auxiliary_views_keep_columns_and_rows_that_are_needed_without_looking_for_partners() -> None:
    few = Filter(S, (read_text("(`s.c#1` = 1)", "boolean"),))
    narrow = Project(R, (Named(Column("b#1", "int"), Column("r.b#1", "int").ref),))
    plan = Join(narrow, few, (equal(Column("b#1", "int").ref, Column("s.b#1", "int").ref),))
    kinds = [(a.name, a.kind, a.outputs) for a in detach("v", plan, {"r": 2, "s": 2})[1]]
    assert kinds == [("v_r", "projection", ("b",)), ("v_s", "projection", ("s.b", "s.c"))]


class Unreadable(Database):
    """Tables that can be asked for their change alone."""

    def read(self, table: str, at: At) -> Bag:
        if at is not At.DELTA:
            raise AssertionError(f"{table} was read")
        return super().read(table, at)


def scenario(seed: int) -> Scenario:
    return random_scenario(seed, ALL)


@pytest.mark.parametrize("block", range(5))
def test_what_is_said_to_be_self_maintainable_reads_no_source(block: int) -> None:
    found = 0
    for seed in range(block * 60, block * 60 + 60):
        case = scenario(seed)
        database = case.database
        widths = {t.name: len(t.columns) for t in case.schema}
        if not assess("v", case.plan, cut(case.plan), widths, frozenset()).maintainable:
            continue
        found += 1
        staged = cut(case.plan)
        before = Database(database.fields, database.before, database.before)
        view, states = build(staged, before)
        sealed = Unreadable(database.fields, database.before, database.after, database.moments)
        maintain(staged, sealed, states, case.changed, view)
    assert found


def _maintained_alone(plan: Node, case: Scenario) -> Bag:
    """The rows of an auxiliary view after a change, with the tables taken away once it was built."""
    database, staged = case.database, cut(plan)
    view, states = build(staged, Database(database.fields, database.before, database.before))
    sealed = Unreadable(database.fields, database.before, database.after, database.moments)
    return +added(view, maintain(staged, sealed, states, case.changed, view).change)


@pytest.mark.parametrize("block", range(5))
def test_a_view_over_its_auxiliary_views_is_maintained_after_its_sources_were_taken_away(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        case = scenario(seed)
        widths = {t.name: len(t.columns) for t in case.schema}
        root, auxiliaries = detach("v", case.plan, widths)
        old = Database(case.database.fields, case.database.before, case.database.before)
        fields = {a.name: a.outputs for a in auxiliaries}
        before = {a.name: evaluate(reading(a.plan, At.NEW), old) for a in auxiliaries}
        after = {a.name: _maintained_alone(a.plan, case) for a in auxiliaries}
        kept = Database(fields, before, after)
        assert {n.table for n in root.walk() if isinstance(n, Scan)} <= set(fields)
        assert evaluate(root, kept) == evaluate(case.plan, case.database)
        check(root, kept, frozenset(name for name in fields if before[name] != after[name]))


def test_no_rows_are_no_views() -> None:
    empty = Database({"r": ("a", "b")}, {"r": Counter()}, {"r": Counter()})
    root, (auxiliary,) = detach("v", NOTHING, {"r": 2})
    assert evaluate(auxiliary.plan, empty) == Counter()
    assert isinstance(root, Scan)
