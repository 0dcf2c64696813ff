"""Griffin, Libkin, Trickey 1997, with Qian and Wiederhold's algorithm that it repairs: every example, equation and claim."""

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

from nabla.algebra.build import equal
from nabla.algebra.nodes import ExceptAll, Filter, IntersectAll, Join, Node, Scan
from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.random_plans import random_scenario
from nabla.papers.pair_laws import ViewOperator
from nabla.papers.pair_notation import pairs_algebra
from nabla.papers.pairs import Pair, Pairs, minimal
from nabla.papers.qian_wiederhold import FIGURE_1, FigureEquation, operator_sign, solution
from nabla.papers.set_form import NotSetAlgebra, set_form
from nabla.papers.sets import RowSet, project, union

R1, R2 = table("r1", "x"), table("r2", "x", mark="#2")
CHANGED = frozenset(("r1", "r2"))
UNION = union(R1, R2)


@pytest.fixture
def proposition_1() -> Database:
    return state((R1, R2), r1=([("a",), ("b",)], [("b",)], []), r2=([("a",)], [], [("b",), ("c",)]))


def test_proposition_1_qian_and_wiederhold_insert_a_row_that_is_there(proposition_1: Database) -> None:
    theirs = solution(UNION, CHANGED)
    assert rows(theirs.insert, proposition_1) == {("b",), ("c",)}
    assert rows(theirs.delete, proposition_1) == {("b",)}


def test_the_example_of_section_2_is_derived_as_printed() -> None:
    """ΔQ = ΔR2 − (R1 − ∇R1) and ∇Q = ∇R1 − R2, where R1 only loses rows and R2 only gains some."""
    database = state((R1, R2), r1=([("a",), ("b",)], [("b",)], []), r2=([("a",)], [], [("b",), ("c",)]))
    r1, gone, r2, new = ({"a", "b"}, {"b"}, {"a"}, {"b", "c"})
    theirs = solution(UNION, CHANGED)
    assert {x for (x,) in rows(theirs.insert, database)} == new - (r1 - gone)
    assert {x for (x,) in rows(theirs.delete, database)} == gone - r2


def test_the_example_of_section_3_is_minimal(proposition_1: Database) -> None:
    pair = Pairs(CHANGED).of(UNION)
    assert rows(pair.delete, proposition_1) == set()
    assert rows(pair.insert, proposition_1) == {("c",)}
    assert pairs_algebra(UNION, CHANGED).splitlines()[-2:] == [
        "∇V  = (∇r1 − r2ᵐ) ∪ (∇r2 − r1ᵐ)",
        "ΔV  = (Δr1 − r2) ∪ (Δr2 − r1)",
    ]


def test_proposition_2_makes_their_solution_minimal(proposition_1: Database) -> None:
    theirs = solution(UNION, CHANGED)
    pair = minimal(theirs, Pairs(CHANGED).operand(UNION).old.plan or UNION)
    assert_minimal_pair(pair, UNION, proposition_1)


S, T = table("s", "a b", "int"), table("t", "a b", "int", mark="#2")
OPERATORS: dict[str, Node] = {
    "σ": Filter(S, (read_text("(`a` > 0)", "boolean"),)),
    "Π": project(S, ("a",)),
    "×": Join(S, T),
    "⋈": Join(S, T, (equal(column(S, "a"), column(T, "a#2")),)),
    "∪": union(S, T),
    "∩": IntersectAll(S, T),
    "−": ExceptAll(S, T),
}


@pytest.mark.parametrize("equation", FIGURE_1, ids=lambda e: str(e.number))
def test_figure_1_holds_for_all_sets(equation: FigureEquation) -> None:
    """Both sides of an equation, for any change, minimal or not."""
    q = OPERATORS[equation.operator]
    assert operator_sign(q) == equation.operator
    rng = Random(equation.number)
    sides = list(ViewOperator(q).operands)
    names = [side.table for side in sides if isinstance(side, Scan)]
    changing = Scan(names[equation.place] + "'", sides[equation.place].at, sides[equation.place].columns, ("a", "b"))
    operands = [RowSet(side) for side in sides]
    s, t = operands[equation.place], operands[1 - equation.place] if len(operands) == 2 else RowSet(None)
    ds = RowSet(changing)
    operands[equation.place] = s - ds if equation.sign == "−" else s | ds
    left = ViewOperator(q)(*operands)
    before, change = ViewOperator(q)(*map(RowSet, sides)), equation.change(ViewOperator(q), s, ds, t)
    right = before - change if equation.result == "−" else before | change
    for _ in range(60):
        database = random_state(rng, S, T, changing)
        assert rows(left.plan, database) == rows(right.plan, database), equation.text


def _views() -> list[tuple[int, Database, frozenset[str], Node]]:
    found = []
    for seed in range(4000, 4060):
        scenario = random_scenario(
            seed, frozenset(("filter", "project", "join", "union", "distinct", "except", "intersect"))
        )
        try:
            view = set_form(scenario.plan, {t.name: t.columns for t in scenario.schema})
        except NotSetAlgebra:
            continue
        database = as_sets(scenario)
        found.append((seed, database, changed_tables(database), view))
    return found


def test_qian_and_wiederhold_give_a_solution_that_proposition_2_makes_minimal() -> None:
    not_minimal = 0
    for seed, database, changed, view in _views():
        theirs = solution(view, changed)
        deleted, inserted = rows(theirs.delete, database), rows(theirs.insert, database)
        old, new = before_and_after(view, database)
        assert (old - deleted) | inserted == new, seed
        not_minimal += bool(inserted & old or deleted - old)
        before = Pairs(changed).operand(view).old.plan
        assert before is not None
        assert_minimal_pair(minimal(theirs, before), view, database, seed)
    assert not_minimal


def test_figure_1_has_no_equation_for_an_outer_join() -> None:
    with pytest.raises(LookupError, match="figure 1 has no equation"):
        solution(Join(S, T, (), "left"), frozenset(("s",)))


def _sizes_stay_equal(s: Pair, t: Pair, database: Database) -> bool:
    """|ΔS| − |∇S| = |ΔT| − |∇T|: whether size(S) = size(T) will hold, told from the deltas alone."""
    growth = [len(rows(pair.insert, database)) - len(rows(pair.delete, database)) for pair in (s, t)]
    return growth[0] == growth[1]


def test_integrity_example_of_section_1_holds_for_minimal_pairs() -> None:
    rng = Random(7)
    s, t = project(S, ("a",)), union(S, T)
    pairs = Pairs(frozenset(("s", "t")))
    told = []
    for _ in range(200):
        database = random_state(rng, S, T)
        (s_old, s_new), (t_old, t_new) = before_and_after(s, database), before_and_after(t, database)
        if len(s_old) == len(t_old):
            told.append(_sizes_stay_equal(pairs.of(s), pairs.of(t), database))
            assert told[-1] == (len(s_new) == len(t_new))
    assert {True, False} == set(told)


def test_integrity_example_of_section_1_needs_minimality() -> None:
    """ΔΠ(S) = Π(ΔS) is a solution too (GK98, equation P4), but counts rows that were there."""
    database = state((S, T), s=([(1, 1)], [], [(1, 2)]), t=([(5, 5)], [], [(6, 6)]))
    pairs = Pairs(frozenset(("s", "t")))
    s, t = project(S, ("a",)), T
    loose = Pair(None, project(pairs.operand(S).inserted.plan or S, ("a",)))
    assert _sizes_stay_equal(loose, pairs.of(t), database), "the violation goes unnoticed"
    assert not _sizes_stay_equal(pairs.of(s), pairs.of(t), database)
    assert not _sizes_stay_equal(minimal(loose, project(pairs.operand(S).old.plan or S, ("a",))), pairs.of(t), database)


def test_sizes_add_up_in_qian_and_wiederholds_solution_although_it_is_not_minimal() -> None:
    """Inserted rows are never in Q − ∇Q, and deleted rows are always in Q. This is enough for counting."""
    for seed, database, changed, view in _views():
        theirs = solution(view, changed)
        deleted, inserted = rows(theirs.delete, database), rows(theirs.insert, database)
        old, new = before_and_after(view, database)
        assert deleted <= old, seed
        assert not inserted & (old - deleted), seed
        assert len(new) - len(old) == len(inserted) - len(deleted), seed
