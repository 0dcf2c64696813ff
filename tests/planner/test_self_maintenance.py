"""Self-maintenance: views that need no source, and views over auxiliary views, which are the same views."""

from __future__ import annotations

from collections import Counter

import pytest

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Distinct, ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate
from nabla.calculus.stages import cut
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import build, check, maintain
from nabla.dev.testing.random_plans import ALL, Scenario, random_scenario, reading
from nabla.planner.auxiliary_views import detach
from nabla.planner.determined import refute
from nabla.planner.self_maintenance import SelfMaintenance, assess
from nabla.rewrite.drop_redundant import TableKeys, drop_redundant


def table(name: str, *columns: str) -> Scan:
    return Scan(name, At.NEW, tuple(Column(f"{name}.{c}#1", "int") for c in columns), columns)


R, S = table("r", "a", "b"), table("s", "b", "c")
JOIN = Join(R, S, (equal(Column("r.b#1", "int").ref, Column("s.b#1", "int").ref),))
NOTHING = Project(R, (Named(Column("one#1", "int", False), read_text("1", "int", False)),))


def assessed(plan: Node, keys: TableKeys | None = None, **given: Node) -> SelfMaintenance:
    widths = {node.table: 2 for node in plan.walk() if isinstance(node, Scan)}
    return assess("v", plan, cut(plan), widths, given, keys=keys or {})


def test_a_relation_and_its_selections_need_nothing() -> None:
    assert assessed(R).alone
    assert assessed(Filter(R, (read_text("(`r.a#1` > 1)", "boolean"),))).alone


def test_the_projection_on_no_attributes_is_not_self_maintainable_without_counts() -> None:
    """Barbier: the view of R = {a} and of R = {a, b} is the same; delete a, and it is not."""
    found = assessed(Distinct(NOTHING))
    assert not found.alone
    assert found.maintainable
    assert "self-maintainable with the counts that are kept beside it; not self-maintainable by its own rows" in str(
        found
    )
    assert "its rows are the same for r = {(" in str(found)
    (state,) = found.states
    assert "its number of rows" in state


def test_a_join_reads_its_operands_unless_they_are_in_the_set() -> None:
    assert assessed(JOIN).reads == ("r", "s")
    assert not assessed(JOIN).maintainable
    assert assessed(JOIN, r=R, s=S).maintainable
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


def test_views_that_hold_what_is_read_of_a_source_count_whoever_made_them() -> None:
    """Definition 6.4, and theorem 6.5's own construction: the base relations as views."""
    again = table("r", "a", "b")
    found = assessed(JOIN, r_copy=again, s_copy=S)
    assert found.maintainable
    assert not found.alone
    assert str(found) == "v: self-maintainable together with r_copy and s_copy"
    few = Filter(S, (read_text("(`s.c#1` = 1)", "boolean"),))
    picky = Join(R, few, JOIN.on)
    assert assessed(picky, r_copy=R, s_few=few).served == ("r_copy", "s_few")
    assert assessed(picky, r_copy=R, s_copy=S).maintainable, "a filter can be applied to the copy"
    only = assessed(JOIN, r_copy=R, s_few=few)
    assert only.reads == ("s",), "rows of s are missing in s_few"
    assert [a.table for a in only.auxiliaries] == ["s"]


def test_a_self_join_gets_one_auxiliary_view() -> None:
    again = Scan("r", At.NEW, (Column("r2.a#1", "int"), Column("r2.b#1", "int")), ("a", "b"))
    twice = Join(R, again, (equal(Column("r.a#1", "int").ref, Column("r2.b#1", "int").ref),))
    root, (auxiliary,) = detach("v", twice, {"r": 2})
    assert (auxiliary.kind, auxiliary.outputs) == ("whole", ("r.a", "r.b"))
    assert {scan.table for scan in root.scans} == {"v_r"}
    # Of two different parts of a table, the one auxiliary view has the columns and the rows of both.
    left = Filter(Scan("r", At.NEW, R.output[:1], ("a",)), (read_text("(`r.a#1` > 1)", "boolean"),))
    right = Filter(Scan("r", At.NEW, again.output[1:], ("b",)), (read_text("(`r2.b#1` < 5)", "boolean"),))
    root, (auxiliary,) = detach("v", Join(left, right), {"r": 3})
    assert (auxiliary.kind, auxiliary.outputs) == ("projection", ("a", "b"))
    assert isinstance(auxiliary.plan, Filter)
    rows: Bag = Counter([(0, 9), (2, 9), (3, 4), (0, 4)])
    stored = evaluate(auxiliary.plan, Database({"r": ("a", "b")}, {"r": rows}, {"r": rows}))
    assert stored == Counter([(2, 9), (3, 4), (0, 4)])
    whole = evaluate(Join(left, right), Database({"r": ("a", "b")}, {"r": rows}, {"r": rows}))
    assert evaluate(root, Database({"v_r": ("a", "b")}, {"v_r": stored}, {"v_r": stored})) == whole


AGAIN = table("r", "a", "b")
TWO = Scan("r", At.NEW, tuple(Column(f"two.{c}#1", "int") for c in "ab"), ("a", "b"))
SAME = tuple(equal(x.ref, y.ref, null_safe=True) for x, y in zip(R.columns, TWO.columns, strict=True))


@pytest.mark.parametrize(
    "plan",
    [
        ExceptAll(R, AGAIN),
        Distinct(ExceptAll(R, AGAIN)),
        Aggregate(ExceptAll(R, AGAIN), ("r.a#1",)),
        IntersectAll(R, AGAIN),
        Join(R, TWO, SAME, "semi"),
        Join(R, TWO, SAME[:1], "anti"),
        Filter(ExceptAll(R, AGAIN), (read_text("(`r.a#1` > 1)", "boolean"),)),
    ],
)
def test_a_relation_with_itself_is_decided(plan: Node) -> None:
    """R EXCEPT R is empty, R INTERSECT R is R, whatever R holds."""
    found = assessed(plan)
    assert found.alone, str(found)
    assert not found.reads


KEYS = {"r": ("a",), "s": ("b",)}
FULL = Join(R, S, JOIN.on, "full")


def test_full_outer_joins_of_keyed_tables_are_self_maintainable_if_they_show_all_columns() -> None:
    assert assessed(FULL, KEYS).shown.startswith("the rows of r and s can be read from its own")
    assert assessed(FULL, KEYS).alone
    assert assessed(FULL, KEYS).reads == ("r", "s"), "the engine reads them nevertheless, or auxiliary views"
    assert not assessed(FULL).shown, "without keys the view does not say how often a row of r occurs"
    assert not assessed(Join(R, S, JOIN.on, "left"), KEYS).shown
    narrow = Project(FULL, tuple(Named(c, c.ref) for c in FULL.columns[:3]))
    assert not assessed(narrow, KEYS).shown


def test_what_determines_a_full_outer_join_is_true_of_small_databases() -> None:
    assert refute(FULL, KEYS, trials=1000) is None
    assert refute(Join(R, S, JOIN.on, "left"), KEYS, trials=1000) is not None


def test_enforced_keys_help_distinct() -> None:
    narrow = Distinct(Project(R, (Named(Column("x#1", "int"), Column("r.a#1", "int").ref),)))
    assert not assessed(narrow).alone
    assert assessed(narrow, KEYS).alone
    assert assessed(Aggregate(R, ("r.a#1",)), KEYS).alone
    assert not assessed(Aggregate(R, ("r.b#1",)), KEYS).alone
    assert assessed(narrow, {"r": ("b",)}).refuted


def test_where_nothing_was_shown_the_answer_is_not_shown() -> None:
    """A join has a counterexample. One on a type that the search has no values for is neither shown nor refuted."""
    assert "not self-maintainable\n  its rows are the same for" in str(assessed(JOIN))
    of_dates = Scan("r", At.NEW, (Column("r.a#1", "date"), Column("r.b#1", "int")), ("a", "b"))
    found = assessed(Join(of_dates, S, JOIN.on))
    assert str(found).startswith("v: not shown to be self-maintainable\n  a change makes it read r, s")


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
    for seed in range(block * 30, block * 30 + 30):
        case = scenario(seed)
        database = case.database
        widths = {t.name: len(t.columns) for t in case.schema}
        if not assess("v", case.plan, cut(case.plan), widths, by_definition=False).maintainable:
            continue
        found += 1
        staged = cut(drop_redundant(case.plan))
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
    for seed in range(block * 20, block * 20 + 20):
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
