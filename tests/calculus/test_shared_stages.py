"""Grouping operators that differ in names alone share one stage; those that differ in anything else do not."""

from __future__ import annotations

from random import Random

import pytest

from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from nabla.algebra.shape import shape
from nabla.calculus.stages import cut
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import check
from nabla.dev.testing.random_data import RandomSizes, Table, random_database
from nabla.explain.operators import stages_by_node
from nabla.planner.delta_steps import rebuild_steps
from nabla.planner.steps import side_by_side

SIZES = RandomSizes(rows=6, depth=2, scans=3, operations=3)
TABLES = (Table("r", (Column("k", "int"), Column("x", "int"))),)


def rows(number: int, fields: tuple[str, str] = ("k", "x")) -> Scan:
    return Scan("r", At.NEW, (Column(f"k#{number}", "int"), Column(f"x#{number + 1}", "int")), fields)


def totals(number: int, function: str = "sum", least: str = "0", fields: tuple[str, str] = ("k", "x")) -> Aggregate:
    """The sums of x by k, in names that begin at a number."""
    leaf = rows(number, fields)
    kept = Filter(leaf, (read_text(f"({leaf.columns[1].ref.sql} > {least})", "boolean"),))
    total = Call(Column(f"total#{number + 2}", "bigint"), function, (leaf.columns[1].ref,))
    return Aggregate(kept, (f"k#{number}",), (total,))


def beside_its_largest(one: Node, other: Node) -> Node:
    largest = Aggregate(other, (), (Call(Column("largest#99", "bigint"), "max", (other.columns[1].ref,)),))
    same = read_text(f"({one.columns[1].ref.sql} = `largest#99`)", "boolean")
    return Filter(Join(one, largest), (same,))


def test_a_relation_used_twice_is_kept_once() -> None:
    view = beside_its_largest(totals(1), totals(11))
    staged = cut(view)
    assert [stage.table for stage in staged.stages] == ["@0", "@1"]
    assert [stage.table for stage in staged.operators] == ["@0", "@0", "@1"]
    by_node = stages_by_node(view, staged)
    assert [by_node[n].table for n in view.walk() if isinstance(n, Aggregate)] == ["@0", "@1", "@0"]


@pytest.mark.parametrize(
    "other",
    [totals(11, function="min"), totals(11, least="1"), totals(11, fields=("x", "k")), Distinct(rows(11))],
    ids=["another function", "another filter", "other columns of the table", "another operator"],
)
def test_what_differs_in_more_than_names_is_kept_apart(other: Node) -> None:
    assert len(cut(beside_its_largest(totals(1), other)).stages) == 3


def test_names_that_are_swapped_are_not_the_same() -> None:
    """Each of the two sums reads another column, under the names of the other's."""
    one, other = rows(1), rows(1, ("x", "k"))
    assert shape(one) != shape(other)
    first, second = (
        Project(rows(1), (Named(Column("y#9", "int"), read_text(f"`{c}`", "int")),)) for c in ("k#1", "x#2")
    )
    assert shape(first) != shape(second)


def test_names_of_variables_are_names() -> None:
    """Two copies of a common table expression have lambdas with variables of their own."""
    leaf = Scan("r", At.NEW, (Column("a#1", "array<int>"),), ("a",))
    texts = ("x -> (x + 1)", "y -> (y + 1)", "x -> (x + 2)")
    one, other, another = (
        shape(Filter(leaf, (read_text(f"array_contains(transform(`a#1`, {text}), 2)", "boolean"),))) for text in texts
    )
    assert one == other
    assert one != another


def test_a_number_is_not_taken_for_a_column() -> None:
    first, second = (Filter(rows(1), (read_text(f"(`x#2` > {text})", "boolean"),)) for text in ("`k#1`", "0"))
    assert shape(first) != shape(second)


@pytest.mark.parametrize("seed", range(40))
def test_a_view_that_shares_a_stage_is_maintained(seed: int) -> None:
    rng = Random(seed)
    one, other = totals(1, rng.choice(("sum", "max"))), totals(11, rng.choice(("sum", "max")))
    database = random_database(rng, TABLES, SIZES)
    check(beside_its_largest(one, other), database, frozenset("r"))
    check(Join(one, other, (read_text("(`k#1` = `k#11`)", "boolean"),), "full"), database, frozenset("r"))
    check(Distinct(UnionAll((one, other), (Column("k#50", "int"), Column("t#51", "bigint")))), database, frozenset("r"))


def test_states_that_do_not_read_each_other_are_built_together() -> None:
    view = beside_its_largest(totals(1), totals(11, least="1"))
    groups = side_by_side(rebuild_steps(cut(view)))
    assert [len(together) for together in groups] == [2, 1, 1]
