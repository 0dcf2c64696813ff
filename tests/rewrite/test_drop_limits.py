"""Limits that cut nothing off are dropped, and no others."""

from __future__ import annotations

import pytest

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Order
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import Aggregate, At, Distinct, ExceptAll, Join, JoinKind, Node, Scan, TopK, UnionAll
from nabla.algebra.reference.interpreter import evaluate
from nabla.dev.testing.random_plans import ALL, random_scenario
from nabla.rewrite.drop_limits import drop_limits, most_rows


def scan(number: int = 1) -> Scan:
    return Scan("t", At.NEW, (Column(f"x#{number}", "int"),), ("x",))


def total(number: int = 1) -> Node:
    """A query of one row, always."""
    rows = scan(number)
    return Aggregate(rows, (), (Call(Column(f"n#{number + 100}", "bigint"), "sum", (rows.columns[0].ref,)),))


@pytest.mark.parametrize(
    "query",
    [total(), Distinct(total()), ExceptAll(total(), total(2)), TopK(scan(), (Order(scan().columns[0].ref),), 1)],
    ids=lambda query: type(query).__name__,
)
def test_a_limit_over_one_row_is_dropped(query: Node) -> None:
    assert drop_limits(TopK(query, (), 1)) == query
    assert drop_limits(TopK(query, (), 100)) == query


@pytest.mark.parametrize("kept", [TopK(scan(), (), 1), TopK(total(), (), 0), TopK(total(), (), 1, 1)], ids=str)
def test_a_limit_that_may_cut_rows_off_stays(kept: Node) -> None:
    assert drop_limits(kept) == kept


def test_a_limit_stays_where_two_rows_may_come_together() -> None:
    two = UnionAll((total(1), total(2)), (Column("n#200", "bigint"),))
    assert drop_limits(TopK(two, (), 1)) == TopK(two, (), 1)
    assert drop_limits(TopK(two, (), 2)) == two


@pytest.mark.parametrize(
    ("kind", "rows"), [("inner", 1), ("left", 1), ("right", 1), ("full", 2), ("semi", 1), ("anti", 1)]
)
def test_joins_of_single_rows(kind: JoinKind, rows: int) -> None:
    left, right = total(1), total(2)
    join = Join(left, right, (equal(left.columns[0].ref, right.columns[0].ref),), kind)
    assert most_rows(join, Memo()) == rows


def test_no_query_has_more_rows_than_the_bound_says() -> None:
    bounded = 0
    for seed in range(150):
        scenario = random_scenario(seed, ALL)
        for node in scenario.plan.walk():
            most = most_rows(node, Memo())
            if most is not None:
                bounded += 1
                assert sum(evaluate(node, scenario.database).values()) <= most
    assert bounded > 40
