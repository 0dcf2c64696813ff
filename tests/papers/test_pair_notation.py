"""The maintenance of a view in the papers' form, for people."""

from __future__ import annotations

from random import Random

import pytest
import sqlglot
from states import column, random_state, table

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named, WindowCall
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, ExceptAll, Join, Node, Project, Scan, Window
from nabla.papers.pair_notation import pairs_algebra, pairs_sql
from nabla.papers.sets import project

COURSE, REG, AGAIN = (
    table("course", "course#1 iname#2"),
    table("reg", "student#3 cname#4"),
    table("reg", "student#5 cname#6"),
)
COURSE_REG = Join(COURSE, REG, (equal(column(COURSE, "course#1"), column(REG, "cname#4")),), "left")
FACULTY = Join(COURSE_REG, AGAIN, (equal(column(COURSE_REG, "iname#2"), column(AGAIN, "student#5")),), "anti")
REG_CHANGES = frozenset(("reg",))


def test_a_view_is_written_as_the_papers_write_it() -> None:
    assert pairs_algebra(FACULTY, REG_CHANGES).splitlines() == [
        "pre-update: tables are as they were before the change",
        "∇V1  = (course ⋈[(course = cname)] ∇reg) ∪ ((course ⋉[(course = cname)] (Δreg ▷[cname] reg)) × null)",
        "V1   = course ⟕[(course = cname)] reg",
        "regᵐ = (reg − ∇reg) ∪ Δreg",
        "ΔV1  = (course ⋈[(course = cname)] Δreg) ∪ ((course ⋉[(course = cname)] (∇reg ▷[cname] regᵐ)) × null)",
        "∇V   = (∇V1 ▷[(iname = student)] reg) ∪ ((V1 − ∇V1) ⋉[(iname = student)] (Δreg ▷[student] reg))",
        "ΔV   = (ΔV1 ▷[(iname = student)] regᵐ) ∪ ((V1 − ∇V1) ⋉[(iname = student)] (∇reg ▷[student] regᵐ))",
    ]


def test_post_update_expressions_undo_the_change() -> None:
    lines = pairs_algebra(FACULTY, REG_CHANGES, at=At.NEW).splitlines()
    assert lines[0] == "post-update: tables are as they are after the change"
    assert lines[1] == "reg₀ = (reg − Δreg) ∪ ∇reg"
    assert lines[-1].startswith("ΔV   = (ΔV1 ▷[(iname = student)] reg) ∪")


def test_affected_groups_are_named_once() -> None:
    view = Aggregate(REG, ("cname#4",), (Call(Column("n#7", "bigint"), "count"),))
    assert pairs_algebra(view, REG_CHANGES).splitlines()[1:] == [
        "X1   = Δreg ∪ ∇reg",
        "X2   = γ[cname; count(*) → n]((reg ⋉[cname] π[cname](X1)))",
        "regᵐ = (reg − ∇reg) ∪ Δreg",
        "X3   = γ[cname; count(*) → n]((regᵐ ⋉[cname] π[cname](X1)))",
        "∇V   = X2 − X3",
        "ΔV   = X3 − X2",
    ]


def test_what_does_not_change_is_the_empty_set() -> None:
    assert pairs_algebra(COURSE, REG_CHANGES).splitlines()[1:] == ["∇V = ∅", "ΔV = ∅"]
    assert pairs_sql(COURSE, REG_CHANGES).count("-- none") == 2


def test_a_view_with_duplicates_is_said_to_be_read_as_a_set() -> None:
    view = Project(REG, (Named(Column("cname#9", "string"), column(REG, "cname#4")),))
    text = pairs_algebra(view, REG_CHANGES)
    assert "V is the set of the view's rows; the view itself may have duplicates" in text
    assert "∇V   = π[cname](∇reg) − π[cname](regᵐ)" in text


def test_columns_that_a_scan_leaves_out_make_it_a_projection() -> None:
    narrow = Scan("reg", At.NEW, (Column("cname#4", "string"),), ("cname",))
    whole = {"reg": (Column("student", "string"), Column("cname", "string"))}
    assert pairs_algebra(narrow, REG_CHANGES).splitlines()[1:] == ["∇V = ∇reg", "ΔV = Δreg"]
    assert pairs_algebra(narrow, REG_CHANGES, whole).splitlines()[-1] == "ΔV   = π[cname](Δreg) − π[cname](reg)"


def _window() -> Node:
    call = WindowCall(Call(Column("n#8", "bigint"), "count"))
    return Window(REG, ("cname#4",), (call,))


def _except_all() -> Node:
    bag = Project(REG, (Named(Column("cname#9", "string"), column(REG, "cname#4")),))
    return ExceptAll(bag, Project(COURSE, (Named(Column("course#9", "string"), column(COURSE, "course#1")),)))


@pytest.mark.parametrize(
    ("view", "reason"),
    [(_window(), "Window is not an operator"), (_except_all(), "EXCEPT ALL counts duplicates")],
    ids=["window", "except all"],
)
def test_a_view_that_is_no_set_algebra_says_why(view: Node, reason: str) -> None:
    for text in (pairs_algebra(view, REG_CHANGES), pairs_sql(view, REG_CHANGES)):
        assert "are about sets, and this view cannot be read as one" in text
        assert reason in text


def test_the_sql_is_a_query_for_each_set_over_tables_and_deltas() -> None:
    text = pairs_sql(FACULTY, REG_CHANGES)
    assert [line for line in text.splitlines() if line.startswith("--")] == [
        "-- pre-update: tables are as they were before the change",
        "-- ∇V: rows to delete",
        "-- ΔV: rows to insert",
    ]
    queries = sqlglot.parse(text, read="spark")
    assert len(queries) == 2
    for query in queries:
        assert query is not None
        assert query.args.get("with_") or query.args.get("with"), "shared results are common table expressions"
        read = {t.name for t in query.find_all(sqlglot.exp.Table)}
        assert {"course", "reg"} <= read
        assert {name for name in read if not name.startswith("shared")} <= {"course", "reg", "∇reg", "Δreg"}


def test_a_view_without_columns_has_sql() -> None:
    """π_∅: whether there is a row."""
    for query in sqlglot.parse(pairs_sql(project(REG, ()), REG_CHANGES), read="spark"):
        assert query is not None
        assert all(select.expressions for select in query.find_all(sqlglot.exp.Select))


def test_the_text_of_a_deep_view_is_linear_in_its_depth() -> None:
    def lines(depth: int) -> list[str]:
        view: Node = REG
        for i in range(depth):
            other = table("course", f"course#{i}a iname#{i}b")
            joined = Join(view, other, (equal(view.columns[1].ref, other.columns[0].ref),), "left")
            view = ExceptAll(
                Project(joined, tuple(Named(c, c.ref) for c in joined.columns)), Join(joined, AGAIN, (), "semi")
            )
        return pairs_algebra(view, frozenset(("reg", "course"))).splitlines()

    three, four, five = lines(3), lines(4), lines(5)
    assert len(five) - len(four) == len(four) - len(three) > 5
    assert max(map(len, five)) < 2 * max(map(len, three))


def test_random_states_are_what_the_other_tests_take_them_for() -> None:
    database = random_state(Random(3), COURSE, REG)
    assert database.after["reg"] == (database.before["reg"] - database.read("∇reg", At.OLD)) + database.read(
        "Δreg", At.OLD
    )
    assert not database.before["reg"] & database.read("Δreg", At.OLD)
