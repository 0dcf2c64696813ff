"""Griffin, Kumar 1998: semijoin, anti-semijoin and outer joins; their examples, equations and what they take for granted."""

from __future__ import annotations

from random import Random

import pytest
from states import assert_minimal_pair, before_and_after, column, random_state, rows, state, table

from nabla.algebra.build import equal
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import At, Join, Node, Scan
from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing.expressions import read_text
from nabla.papers.pair_laws import ViewOperator
from nabla.papers.pair_rules import friendless, met
from nabla.papers.pairs import Pairs
from nabla.papers.set_form import set_form
from nabla.papers.sets import RowSet

COURSE, REG, REG_AGAIN = (
    table("course", "course iname"),
    table("reg", "student cname"),
    table("reg", "student cname", mark="#2"),
)
COURSE_REG = Join(COURSE, REG, (equal(column(COURSE, "course"), column(REG, "cname")),), "left")
FACULTY_COURSE_REG = Join(
    COURSE_REG, REG_AGAIN, (equal(column(COURSE_REG, "iname"), column(REG_AGAIN, "student#2")),), "anti"
)
REG_CHANGES = frozenset(("reg",))


@pytest.fixture
def university() -> Database:
    """Jill, who teaches psychology, registers for AI, for which nobody was registered."""
    return state(
        (COURSE, REG),
        reg=([("Joe", "DB"), ("Mary", "DB"), ("Sam", "Psych")], [], [("Jill", "AI")]),
        course=([("DB", "Bob"), ("AI", "Tom"), ("History", "Jack"), ("Psych", "Jill")], [], []),
    )


@pytest.mark.parametrize("at", [At.OLD, At.NEW], ids=["pre-update", "post-update"])
def test_example_2_1_course_reg(university: Database, at: At) -> None:
    assert set_form(COURSE_REG).columns == COURSE_REG.columns
    pair = Pairs(REG_CHANGES, at).of(COURSE_REG)
    assert rows(pair.delete, university) == {("AI", "Tom", None, None)}
    assert rows(pair.insert, university) == {("AI", "Tom", "Jill", "AI")}
    assert before_and_after(COURSE_REG, university)[1] == {
        ("AI", "Tom", "Jill", "AI"),
        ("DB", "Bob", "Joe", "DB"),
        ("DB", "Bob", "Mary", "DB"),
        ("History", "Jack", None, None),
        ("Psych", "Jill", "Sam", "Psych"),
    }


@pytest.mark.parametrize("at", [At.OLD, At.NEW], ids=["pre-update", "post-update"])
def test_example_3_1_faculty_course_reg_where_reg_occurs_twice(university: Database, at: At) -> None:
    pair = Pairs(REG_CHANGES, at).of(FACULTY_COURSE_REG)
    assert rows(pair.delete, university) == {("AI", "Tom", None, None), ("Psych", "Jill", "Sam", "Psych")}
    assert rows(pair.insert, university) == {("AI", "Tom", "Jill", "AI")}
    assert_minimal_pair(pair, FACULTY_COURSE_REG, university)


S = Scan("s", At.NEW, (Column("k", "int", False), Column("a", "int")), ("k", "a"))
T = Scan("t", At.NEW, (Column("l", "int"), Column("b", "int", False)), ("l", "b"))
SAME_KEY = (equal(column(S, "k"), column(T, "l")),)
BOTH = frozenset(("s", "t"))


def test_figure_4_semijoin_deletions_as_printed() -> None:
    """(S ⋉ (∇T ▷ Tᵐ)) ∪ (∇S ⋉ (T − ∇T)) ∪ (∇S ⋉ (ΔT ⋉ T)): print lost the last sign, and only ⋉ makes it true."""
    q = Join(S, T, SAME_KEY, "semi")
    pairs = Pairs(BOTH)
    s, t, semi = pairs.operand(S), pairs.operand(T), ViewOperator(q)
    key = (column(T, "l"),)

    def printed(sign: str) -> RowSet:
        loyal = RowSet(friendless(t.deleted.plan or T, t.new.plan or T, key))
        alone = RowSet(friendless(t.inserted.plan or T, t.old.plan or T, key))
        last = alone if sign == "▷" else t.inserted - alone
        return semi(s.old, loyal) | semi(s.deleted, t.kept) | semi(s.deleted, last)

    pair, wrong = pairs.of(q), 0
    for i in range(100):
        database = random_state(Random(i), S, T)
        assert rows(printed("⋉").plan, database) == rows(pair.delete, database), i
        wrong += rows(printed("▷").plan, database) != rows(pair.delete, database)
    assert wrong


def test_equation_r1_says_what_a_friend_is_for_any_condition() -> None:
    """(Q ⋉ S) − (Q ⋉ T) = Q ⋉ (S ▷ T): S ⋉ fr(D, X) = (S ⋉ D) ▷ X."""
    q = ViewOperator(Join(S, T, SAME_KEY, "semi"))
    d, x = (Scan(name, At.NEW, T.columns, T.fields) for name in ("∇t", "t"))
    by_friends = met(q, RowSet(S), RowSet(d), RowSet(x)).plan
    by_condition = Join(Join(S, d, SAME_KEY, "semi"), x, SAME_KEY, "anti")
    for i in range(100):
        database = random_state(Random(i), S, T)
        assert rows(by_friends, database) == rows(by_condition, database), i


def _all_null(q: Join) -> Database:
    return state(
        (q.left, q.right),  # type: ignore[arg-type]
        s=([(None,)], [(None,)], []),
        t=([(None,)], [], []),
    )


def test_the_row_of_nulls_is_taken_for_granted_not_to_be_there() -> None:
    """S ⟗ T has the row (NULL, NULL) from S's row of NULLs and from T's. When the first goes, the second's stays; figure 4
    deletes it. The set form writes such joins out as the unions that define them."""
    s, t = table("s", "a", "int", nullable=True), table("t", "b", "int", nullable=True)
    q = Join(s, t, (equal(column(s, "a"), column(t, "b")),), "full")
    database = _all_null(q)
    figure_4 = Pairs(frozenset(("s",))).of(q)
    assert rows(figure_4.delete, database) == {(None, None)}
    assert before_and_after(set_form(q), database) == ({(None, None)}, {(None, None)})
    assert_minimal_pair(Pairs(frozenset(("s",))).of(set_form(q)), set_form(q), database)


@pytest.mark.parametrize("kind", ["left", "right", "full"])
@pytest.mark.parametrize("condition", ["=", "<=>", "<", ""])
def test_outer_joins_of_rows_of_nulls(kind: str, condition: str) -> None:
    s, t = table("s", "a", "int", nullable=True), table("t", "b", "int", nullable=True)
    on: tuple[Expr, ...] = (equal(column(s, "a"), column(t, "b"), null_safe=condition == "<=>"),)
    if condition in ("<", ""):
        on = (read_text("(`a` < `b`)", "boolean"),) if condition else ()
    view: Node = set_form(Join(s, t, on, kind))  # type: ignore[arg-type]
    pair = Pairs(frozenset(("s", "t"))).of(view)
    for i in range(60):
        assert_minimal_pair(pair, view, random_state(Random(i), s, t, rows=3), i)
