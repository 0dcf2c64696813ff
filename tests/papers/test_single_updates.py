"""Griffin, Kumar 1998, figure 3: the equations for a single update; and a transaction moved up leaf by leaf (thesis 2.3)."""

from __future__ import annotations

from random import Random

import pytest
from states import (
    as_sets,
    assert_minimal_pair,
    before_and_after,
    changed_tables,
    column,
    random_state,
    rows,
    state,
    table,
)
from test_griffin_kumar import COURSE, COURSE_REG, FACULTY_COURSE_REG, REG, REG_CHANGES
from test_pair_rules import SET_FEATURES

from nabla.algebra.build import equal
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, ExceptAll, Join, Node, Scan
from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing.random_plans import random_scenario
from nabla.papers.pair_laws import ViewOperator
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.set_form import NotSetAlgebra, set_form
from nabla.papers.sets import EMPTY, RowSet
from nabla.papers.single_updates import FIGURE_3, Figure3Equation, SingleUpdate, equation, leaf_by_leaf

S = Scan("s", At.NEW, (Column("k", "int", False), Column("a", "int")), ("k", "a"))
T = Scan("t", At.NEW, (Column("l", "int"), Column("b", "int", False)), ("l", "b"))
SAME_KEY = (equal(column(S, "k"), column(T, "l")),)


def _update(e: Figure3Equation, minimal: bool) -> tuple[Join, SingleUpdate, RowSet]:
    """The join, the update of one operand, and the join of what it becomes. An update need not be minimal: any rows may be
    deleted from T, not only those of T."""
    q = Join(S, T, SAME_KEY, e.kind)
    old = [RowSet(Scan(scan.table, At.OLD, scan.output, scan.fields)) for scan in (S, T)]
    scan = (S, T)[e.place]
    prefix = "∇" if e.sign == "−" else "Δ"
    change = RowSet(Scan(prefix + scan.table, At.OLD, scan.output, scan.fields))
    if not minimal:
        change = change | RowSet(Scan(("Δ" if e.sign == "−" else "∇") + scan.table, At.OLD, scan.output, scan.fields))
    now = list(old)
    now[e.place] = old[e.place] - change if e.sign == "−" else old[e.place] | change
    return q, SingleUpdate(ViewOperator(q), old[0], old[1], change, e.place), ViewOperator(q)(*now)


@pytest.mark.parametrize("minimal", [True, False], ids=["minimal", "any rows"])
@pytest.mark.parametrize("e", FIGURE_3, ids=lambda e: e.name)
def test_an_equation_of_figure_3_holds(e: Figure3Equation, minimal: bool) -> None:
    q, update, expected = _update(e, minimal)
    found = (ViewOperator(q)(update.s, update.t) - e.lost(update)) | e.gained(update)
    changed = 0
    for i in range(25):
        database = random_state(Random(i), S, T)
        assert rows(found.plan, database) == rows(expected.plan, database), (e.text, i)
        changed += rows(found.plan, database) != rows(ViewOperator(q)(update.s, update.t).plan, database)
    assert changed


def test_figure_3_has_the_equations_17_to_36() -> None:
    assert [e.number for e in FIGURE_3] == list(range(17, 37))
    assert {(e.kind, e.place, e.sign) for e in FIGURE_3} == {
        (kind, place, sign)
        for kind in ("semi", "anti", "left", "right", "full")
        for place in (0, 1)
        for sign in ("−", "∪")
    }


@pytest.mark.parametrize("number", [23, 24])
def test_p23_and_p24_erratum_the_bar_stands_over_one_join_too_many(number: int) -> None:
    """As they have come to us, S ▷ (T − ∇T) gains S ▷ (…) and S ▷ (T ∪ ΔT) loses S ▷ ΔT: it must be S ⋉ in both."""
    e = FIGURE_3[number - 17]
    q, update, expected = _update(e, minimal=True)
    loyal = RowSet(Join(update.d.plan, _beside(update.t - update.d), _same_key(), "anti"))  # type: ignore[arg-type]
    printed = update.anti(update.s, loyal if number == 23 else update.d)
    before = ViewOperator(q)(update.s, update.t)
    found = before | printed if number == 23 else before - printed
    states = [random_state(Random(i), S, T) for i in range(60)]
    assert any(rows(found.plan, database) != rows(expected.plan, database) for database in states)


def _beside(t: RowSet) -> Node:
    assert t.plan is not None
    return RowSet(t.plan).under((Column("l2", "int"), Column("b2", "int", False))).plan  # type: ignore[return-value]


def _same_key() -> tuple[object, ...]:
    return (equal(column(T, "l"), Column("l2", "int").ref, null_safe=True),)


def test_example_2_1_by_p28() -> None:
    """Jill registers for AI: P28 takes away the row with NULLs and adds hers."""
    database = state(
        (COURSE, REG),
        reg=([("Joe", "DB"), ("Mary", "DB"), ("Sam", "Psych")], [], [("Jill", "AI")]),
        course=([("DB", "Bob"), ("AI", "Tom"), ("History", "Jack"), ("Psych", "Jill")], [], []),
    )
    course, reg = Pairs(REG_CHANGES).operand(COURSE), Pairs(REG_CHANGES).operand(REG)
    update = SingleUpdate(ViewOperator(COURSE_REG), course.old, reg.old, reg.inserted, 1)
    e = equation("left", 1, "∪")
    assert e.name == "P28"
    assert rows(e.lost(update).plan, database) == {("AI", "Tom", None, None)}
    assert rows(e.gained(update).plan, database) == {("AI", "Tom", "Jill", "AI")}
    first, second = leaf_by_leaf(FACULTY_COURSE_REG, REG_CHANGES)
    assert rows(first.insert, database) == {("AI", "Tom", "Jill", "AI")}
    assert ("Psych", "Jill", "Sam", "Psych") in rows(second.delete, database), "Reg occurs twice: two leaves"


def applied(view: Node, pairs: list[Pair], database: Database) -> set[tuple[object, ...]]:
    found = before_and_after(view, database)[0]
    for pair in pairs:
        found = (found - rows(pair.delete, database)) | rows(pair.insert, database)
    return found


def _random_views(first: int, count: int) -> list[tuple[Node, Database]]:
    found = []
    for seed in range(first, first + count):
        scenario = random_scenario(seed, SET_FEATURES - {"aggregate"})
        try:
            view = set_form(scenario.plan, {t.name: t.columns for t in scenario.schema})
        except NotSetAlgebra:
            continue
        found.append((view, as_sets(scenario)))
    assert len(found) > count / 2
    return found


def test_leaf_by_leaf_and_all_at_once_give_the_same_view() -> None:
    leaves, minimal = 0, 0
    for view, database in _random_views(5000, 30):
        changed = changed_tables(database)
        if any(isinstance(part, Aggregate) for part in view.walk()):
            continue
        pairs = list(leaf_by_leaf(view, changed))
        new = before_and_after(view, database)[1]
        assert applied(view, pairs, database) == new
        assert_minimal_pair(Pairs(changed).of(view), view, database)
        leaves += len(pairs)
        old = before_and_after(view, database)[0]
        minimal += all(rows(p.delete, database) <= old and not rows(p.insert, database) & old for p in pairs)
    assert leaves > 25
    assert minimal < 30, "leaf by leaf, rows may come and go"


def test_section_2_3_occurrences_of_one_table_are_different_relations() -> None:
    """R − R' where R' is R again: between the two leaves the view holds what R has gained."""
    again = table("s", "k a", "int", mark="#2")
    r = table("s", "k a", "int")
    view = ExceptAll(r, again)
    database = state((r,), s=([(1, 1)], [], [(2, 2)]))
    first, second = leaf_by_leaf(view, frozenset(("s",)))
    assert rows(first.insert, database) == {(2, 2)}
    assert rows(second.delete, database) == {(2, 2)}
    assert Pairs(frozenset(("s",))).of(view).insert is not None
    assert rows(Pairs(frozenset(("s",))).of(view).insert, database) == set()


def test_nothing_moves_where_nothing_changes() -> None:
    assert list(leaf_by_leaf(Join(S, T, SAME_KEY), frozenset(("u",)))) == []
    assert EMPTY.plan is None
