"""NOT IN is a plain equality exactly where neither column has a NULL."""

from __future__ import annotations

from collections import Counter

import pytest

from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, JoinKind, Node, Project, Scan, UnionAll
from nabla.algebra.parse import read
from nabla.algebra.reference.interpreter import Bag, Database, evaluate
from nabla.rewrite.drop_null_tests import drop_null_tests, has_null_tests

X, Y, Z = (Column(f"{name}#{i}", "bigint") for i, name in enumerate("xyz"))
TYPES = {c.name: ("bigint", True) for c in (X, Y, Z)}
NOT_IN = read("((`x#0` = `y#1`) OR ((`x#0` = `y#1`) IS NULL))", TYPES)
LEFT, RIGHT = Scan("s", At.NEW, (X,), ("x",)), Scan("t", At.NEW, (Y,), ("y",))


def database(*right: int | None) -> Database:
    rows: dict[str, Bag] = {"s": Counter({(1,): 2, (2,): 1, (3,): 1}), "t": Counter((value,) for value in right)}
    return Database({"s": ("x",), "t": ("y",)}, rows, rows)


def never_null(rows: Database) -> object:
    return lambda scan, field: all(row[0] is not None for row in rows.after[scan.table])


@pytest.mark.parametrize("kind", ["anti", "semi"])
@pytest.mark.parametrize("right", [(1, 5), (1, None), ()])
def test_rows_stay_the_same(kind: JoinKind, right: tuple[int | None, ...]) -> None:
    rows, plan = database(*right), Join(LEFT, RIGHT, (NOT_IN,), kind)
    simpler = drop_null_tests(plan, never_null(rows))  # type: ignore[arg-type]
    assert evaluate(simpler, rows) == evaluate(plan, rows)
    assert has_null_tests(simpler) is (None in right)


def test_one_side_with_nulls_is_enough_to_keep_the_test() -> None:
    plan = Join(LEFT, RIGHT, (NOT_IN,), "anti")
    assert drop_null_tests(plan, lambda scan, field: scan.table == "s") is plan
    assert drop_null_tests(plan, lambda scan, field: scan.table == "t") is plan


def _count(node: Node) -> Node:
    return Aggregate(node, (), (Call(Y, "max", (Z.ref,)),))


OTHER = Scan("t", At.NEW, (Z,), ("y",))


@pytest.mark.parametrize(
    ("right", "is_known"),
    [
        (Filter(RIGHT, (read("`y#1` > 0", TYPES),)), True),
        (Distinct(RIGHT), True),
        (Project(OTHER, (Named(Y, Z.ref),)), True),
        (Project(OTHER, (Named(Y, read("`z#2` + 1L", TYPES)),)), False),
        (Project(OTHER, (Named(Y, read("CAST(NULL AS BIGINT)", TYPES)),)), False),
        (Project(OTHER, (Named(Y, read("7L", TYPES)),)), True),
        (UnionAll((RIGHT, OTHER), (Y,)), True),
        (Join(LEFT, RIGHT, (), "left"), False),
        (Join(RIGHT, LEFT, (), "left"), True),
        (Join(LEFT, RIGHT, (), "full"), False),
        (_count(OTHER), False),
    ],
)
def test_columns_are_followed_down_to_their_tables(right: Node, is_known: bool) -> None:
    """An outer join and an aggregate of nothing make NULLs where the tables have none."""
    left = Scan("s", At.NEW, (Column("w#9", "bigint"),), ("x",))
    test = read("((`w#9` = `y#1`) OR ((`w#9` = `y#1`) IS NULL))", {**TYPES, "w#9": ("bigint", True)})
    simpler = drop_null_tests(Join(left, right, (test,), "anti"), lambda scan, field: True)
    assert has_null_tests(simpler) is not is_known
