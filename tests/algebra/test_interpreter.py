"""The meaning of every node of the algebra."""

from __future__ import annotations

from collections import Counter

import pytest
from plans import bag, call, columns, condition, database, expr, project, renamed, scan

from nabla.algebra import nodes
from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Negate,
    Opaque,
    Project,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.reference.evaluator import CannotEvaluate
from nabla.algebra.reference.interpreter import Database, NegativeWeight, evaluate
from nabla.dev.testing.expressions import read_text

R = scan("r", "a#1 b#2")
DB = database("a b", [(1, 10), (1, 10), (2, None), (None, 5)])
TWO = Database(
    {"r": ("a", "b"), "s": ("c",)},
    {"r": bag((1, 10)), "s": bag((1,))},
    {"r": bag((1, 10), (1, 10), (2, 20), (None, 0)), "s": bag((1,), (1,), (3,), (None,))},
)
S = scan("s", "c#3")
CHANGE = database("a b", [(1, 10), (2, 20)], [(1, 10), (1, 10), (3, 30)])


def test_a_scan_reads_the_state_that_it_names() -> None:
    assert evaluate(scan("r", "a#1 b#2", At.OLD), CHANGE) == bag((1, 10), (2, 20))
    assert evaluate(scan("r", "a#1 b#2", At.NEW), CHANGE) == bag((1, 10), (1, 10), (3, 30))
    assert evaluate(scan("r", "a#1 b#2", At.DELTA), CHANGE) == {(1, 10): 1, (2, 20): -1, (3, 30): 1}


def test_a_scan_takes_its_fields_in_any_order_and_not_all() -> None:
    assert evaluate(scan("r", "b#1 a#2"), DB)[10, 1] == 2
    assert evaluate(scan("r", "a#1"), DB) == {(1,): 2, (2,): 1, (None,): 1}


def test_changes_that_cancel_are_gone() -> None:
    assert evaluate(scan("r", "b#1", At.DELTA), database("a b", [(1, 5)], [(2, 5)])) == {}


def test_a_filter_keeps_what_is_true() -> None:
    assert evaluate(Filter(R, (condition("`a#1` < 2 OR `b#2` > 7"),)), DB) == {(1, 10): 2}
    assert evaluate(Filter(R, (condition("`a#1` = 2"), condition("`b#2` IS NULL"))), DB) == bag((2, None))
    assert evaluate(Filter(R, ()), DB) == evaluate(R, DB)


def test_a_projection_adds_up_what_becomes_equal() -> None:
    assert evaluate(project(R, x="`a#1` IS NULL"), DB) == {(False,): 3, (True,): 1}


def test_a_projection_of_a_change_keeps_weights() -> None:
    delta = scan("r", "a#1 b#2", At.DELTA)
    assert evaluate(project(delta, x="`b#2` / `b#2`"), CHANGE) == {(1.0,): 1}


def test_a_constant_gives_its_rows() -> None:
    rows = ((expr("1"), expr("CAST(NULL AS INT)")), (expr("1"), expr("2")), (expr("1"), expr("2")))
    assert evaluate(Constant(columns("a#1 b#2"), rows), DB) == {(1, None): 1, (1, 2): 2}
    assert evaluate(Constant(columns("a#1"), ()), DB) == {}


def test_inner_weights_multiply() -> None:
    assert evaluate(Join(R, S, (condition("`a#1` = `c#3`"),)), TWO) == {(1, 10, 1): 4}
    assert sum(evaluate(Join(R, S), TWO).values()) == 16


def test_a_null_safe_condition_joins_nulls() -> None:
    on = (equal(R.columns[0].ref, S.columns[0].ref, null_safe=True),)
    assert evaluate(Join(R, S, on), TWO) == {(1, 10, 1): 4, (None, 0, None): 1}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("left", {(1, 10, 1): 4, (2, 20, None): 1, (None, 0, None): 1}),
        ("right", {(1, 10, 1): 4, (None, None, 3): 1, (None, None, None): 1}),
        ("full", {(1, 10, 1): 4, (2, 20, None): 1, (None, 0, None): 1, (None, None, 3): 1, (None, None, None): 1}),
        ("semi", {(1, 10): 2}),
        ("anti", {(2, 20): 1, (None, 0): 1}),
    ],
)
def test_other_joins(kind: nodes.JoinKind, expected: dict[tuple[int | None, ...], int]) -> None:
    assert evaluate(Join(R, S, (condition("`a#1` = `c#3`"),), kind), TWO) == expected


def test_not_in_finds_nothing_beside_a_null() -> None:
    not_in = condition("((`a#1` = `c#3`) OR ((`a#1` = `c#3`) IS NULL))")
    assert evaluate(Join(R, S, (not_in,), "anti"), TWO) == {}


def test_a_semijoin_with_a_change_sees_deletions_too() -> None:
    keys = renamed(scan("r", "a#1 b#2", At.DELTA), "'")
    near = Join(scan("r", "a#1 b#2", At.OLD), keys, (condition("`a#1` = `a#1'`"),), "semi")
    assert evaluate(near, CHANGE) == bag((1, 10), (2, 20))


def test_the_preserved_side_of_an_outer_join_may_be_a_change_and_the_other_may_not() -> None:
    delta, other = scan("r", "a#1 b#2", At.DELTA), scan("r", "a#3 b#4")
    on = (condition("`a#1` = `a#3`"),)
    expected = {(1, 10, 1, 10): 2, (2, 20, None, None): -1, (3, 30, 3, 30): 1}
    assert evaluate(Join(delta, other, on, "left"), CHANGE) == expected
    with pytest.raises(NegativeWeight, match="Join"):
        evaluate(Join(other, delta, on, "left"), CHANGE)
    with pytest.raises(NegativeWeight):
        evaluate(Join(delta, other, on, "full"), CHANGE)


def test_a_union_adds_by_position() -> None:
    assert evaluate(UnionAll((R, R), columns("x#8 y#9")), DB)[1, 10] == 4
    assert evaluate(UnionAll((), columns("x#8")), DB) == {}


def test_a_bag_and_its_negation_cancel() -> None:
    assert evaluate(UnionAll((R, Negate(R)), R.columns), DB) == {}


def test_weights_become_a_column_and_weights_again() -> None:
    weight = Column("w#9", "bigint", False)
    weighed = Weigh(scan("r", "a#1 b#2", At.DELTA), weight)
    assert evaluate(weighed, CHANGE) == bag((1, 10, 1), (2, 20, -1), (3, 30, 1))
    assert evaluate(Unweigh(weighed, "w#9"), CHANGE) == CHANGE.delta("r")
    assert evaluate(Unweigh(Weigh(R, weight), "w#9"), DB) == DB.new("r")
    assert evaluate(Unweigh(project(R, x="1", w="`b#2` - 10"), "w"), database("a b", [(1, 10), (2, 9)])) == {(1,): -1}


def test_consolidation_changes_nothing() -> None:
    assert evaluate(Consolidate(R), DB) == evaluate(R, DB)


def test_distinct_counts_once() -> None:
    assert evaluate(Distinct(scan("r", "a#1")), DB) == bag((1,), (2,), (None,))


def test_an_aggregate_takes_nulls_as_one_group() -> None:
    node = Aggregate(R, ("b#2",), (call("n#5", "count"), call("s#6", "sum", "a#1")))
    assert evaluate(node, DB) == bag((10, 2, 2), (None, 1, 2), (5, 1, None))


def test_an_aggregate_without_keys_has_a_row_even_of_nothing() -> None:
    node = Aggregate(R, (), (call("n#5", "count"), call("s#6", "sum", "a#1")))
    assert evaluate(node, database("a b", [])) == bag((0, None))
    assert evaluate(Aggregate(R, ("a#1",), (call("n#5", "count"),)), database("a b", [])) == {}


def test_an_aggregate_without_keys_and_calls_is_distinct_of_no_columns() -> None:
    assert evaluate(Aggregate(R, ()), DB) == bag(())
    assert evaluate(Aggregate(R, ()), database("a b", [])) == {}


def test_a_window_adds_columns_to_each_copy() -> None:
    order = (Order(read_text("`b#2`", "int")),)
    calls = (
        WindowCall(Call(Column("n#5", "int"), "row_number"), order),
        WindowCall(Call(Column("s#6", "bigint"), "sum", (read_text("`b#2`", "int"),))),
    )
    expected = bag((1, 10, 1, 20), (1, 10, 2, 20), (2, None, 1, None), (None, 5, 1, 5))
    assert evaluate(Window(R, ("a#1",), calls), DB) == expected


def test_the_first_rows_in_an_order() -> None:
    order = (Order(read_text("`a#1`", "int"), ascending=False, nulls_first=False),)
    assert evaluate(TopK(R, order, 2), DB) == bag((2, None), (1, 10))
    assert evaluate(TopK(R, order, 2, offset=1), DB) == {(1, 10): 2}
    assert evaluate(TopK(R, order, None, offset=3), DB) == bag((None, 5))
    assert evaluate(TopK(R, order, 0), DB) == {}


def test_ties_are_broken_by_the_whole_row() -> None:
    tied = database("a b", [(1, 3), (1, None), (1, 2)])
    assert evaluate(TopK(R, (Order(read_text("`a#1`", "int")),), 2), tied) == bag((1, None), (1, 2))


def test_bag_difference_and_intersection() -> None:
    both = Database(
        {"r": ("a", "b"), "s": ("c", "d")},
        {},
        {"r": Counter({(1, 1): 3, (2, 2): 1, (None, 1): 1}), "s": Counter({(1, 1): 1, (None, 1): 2})},
    )
    other = scan("s", "c#3 d#4")
    assert evaluate(ExceptAll(R, other), both) == {(1, 1): 2, (2, 2): 1}
    assert evaluate(IntersectAll(R, other), both) == {(1, 1): 1, (None, 1): 1}


@pytest.mark.parametrize(
    ("generator", "width", "outer", "expected"),
    [
        ("explode(array(`a#1`, `b#2`))", 1, False, {(1,): 2, (10,): 2, (2,): 1, (None,): 2, (5,): 1}),
        ("posexplode(array(`a#1`))", 2, False, {(0, 1): 2, (0, 2): 1, (0, None): 1}),
        ("explode(CASE WHEN `a#1` = 1 THEN array(7) END)", 1, False, {(7,): 2}),
        ("explode(CASE WHEN `a#1` = 1 THEN array(7) END)", 1, True, {(7,): 2, (None,): 2}),
        (
            "stack(2, `a#1`, 8, `a#1` + 1)",
            2,
            False,
            {(1, 8): 2, (2, None): 2, (2, 8): 1, (3, None): 1, (None, 8): 1, (None, None): 1},
        ),
        ("inline(array(named_struct('p', 1, 'q', `a#1`)))", 2, False, {(1, 1): 2, (1, 2): 1, (1, None): 1}),
    ],
)
def test_a_generator_unnests(generator: str, width: int, outer: bool, expected: dict[tuple[object, ...], int]) -> None:
    output = columns("x#7 y#8"[: 3 * width + width - 1])
    node = Generate(R, read_text(generator, "row"), output, outer)
    result = evaluate(Project(node, tuple(Named(c, c.ref) for c in output)), DB)
    assert result == expected


@pytest.mark.parametrize(
    "make", [Distinct, lambda r: Aggregate(r, ("a#1",)), lambda r: TopK(r, (), 1), lambda r: ExceptAll(r, r)]
)
def test_operators_of_bags_refuse_negative_weights(make: type[Distinct]) -> None:
    with pytest.raises(NegativeWeight):
        evaluate(make(scan("r", "a#1 b#2", At.DELTA)), CHANGE)


def test_a_query_that_is_not_algebra_is_refused() -> None:
    with pytest.raises(CannotEvaluate, match="PIVOT"):
        evaluate(Opaque("SELECT 1", (), columns("a#1"), "NABLA_X", "PIVOT in line 3"), DB)


def test_a_shared_subtree_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monkeypatch.setattr(Database, "read", lambda self, table, at: reads.append(table) or self.new(table))
    evaluate(UnionAll((R, R, R), R.columns), DB)
    assert reads == ["r"]
