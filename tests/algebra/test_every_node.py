"""Every operator of the algebra is known everywhere: to SQL, to the interpreter, to the calculus, to the notation.

Whoever adds a node adds an example of it here, and the tests say what else it needs.
"""

from __future__ import annotations

import json

import pytest
import sqlglot
from plans import call, columns, condition, expr, scan

from nabla.algebra import nodes
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column, quote
from nabla.algebra.json import load_plan, to_data
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
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.notation.tree import notation, tree
from nabla.algebra.reference.interpreter import EVALUATIONS
from nabla.algebra.sql import to_sql
from nabla.calculus.laws import law_of
from nabla.calculus.obstacles import obstacles

R, S = scan("r", "a#1 b#2"), scan("s", "c#3 d#4")
A = R.columns[0]
LEVEL = Scan("level", At.NEW, columns("e#7 f#8"), ("c0", "c1"))
WEIGHT = Column("weight#", "bigint", False)
EXAMPLES: list[Node] = [
    R,
    Constant(columns("a#1"), ((expr("1"),), (expr("2"),))),
    Filter(R, (condition("(`a#1` > 0)"),)),
    Project(R, (Named(A, A.ref),)),
    Join(R, S, (condition("(`a#1` = `c#3`)"),), "left"),
    UnionAll((R, S), R.columns),
    ExceptAll(R, S),
    IntersectAll(R, S),
    Distinct(R),
    Aggregate(R, ("a#1",), (call("n#5", "count"),)),
    Window(R, ("a#1",), (WindowCall(Call(Column("n#5", "int", False), "row_number"), (Order(A.ref),)),)),
    TopK(R, (Order(A.ref),), 3),
    Generate(R, expr("explode(array(`a#1`, `b#2`))"), columns("e#5")),
    Recursion(R, LEVEL, "level", columns("x#5 y#6")),
    Opaque("SELECT 1 AS a", (), columns("a#1"), "NABLA_UNSUPPORTED_OPERATOR", "a sample"),
    Negate(R),
    Weigh(R, WEIGHT),
    Unweigh(Weigh(R, WEIGHT), WEIGHT.name),
    Consolidate(R),
]
ON_CHANGES = (Weigh, Unweigh, Consolidate)
"""Operators that only derived changes have: they need no law, for they are not derived again."""


def test_every_node_has_an_example() -> None:
    concrete = {kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, Node)} - {Node}
    assert {type(node) for node in EXAMPLES} == concrete == set(_concrete_below(Node))


def _concrete_below(kind: type[Node]) -> list[type[Node]]:
    """The subclasses that have none themselves, wherever they are defined in the algebra."""
    found = [c for below in kind.__subclasses__() for c in (_concrete_below(below) or [below])]
    return [c for c in found if c.__module__.startswith("nabla.algebra.")]


def _kind(node: Node) -> str:
    return type(node).__name__


@pytest.mark.parametrize("node", EXAMPLES, ids=_kind)
def test_every_node_has_a_lowering(node: Node) -> None:
    text = to_sql(node, lambda scan: quote(scan.table))
    (statement,) = sqlglot.parse(text, dialect="spark")
    assert statement is not None
    names = ["*"] if isinstance(node, Opaque) else [c.name for c in node.columns]
    assert statement.named_selects == names + ["_n"] * node.signed


def test_every_node_has_an_evaluation() -> None:
    assert set(EVALUATIONS) == {type(node) for node in EXAMPLES}


@pytest.mark.parametrize("node", EXAMPLES, ids=_kind)
def test_every_node_has_a_law_or_an_obstacle(node: Node) -> None:
    if isinstance(node, ON_CHANGES):
        assert law_of(node) is None
    else:
        assert (law_of(node) is None) == bool(obstacles(node))


@pytest.mark.parametrize("node", EXAMPLES, ids=_kind)
def test_every_node_has_a_notation(node: Node) -> None:
    assert notation(node)
    assert tree(node)


@pytest.mark.parametrize("node", EXAMPLES, ids=_kind)
def test_every_node_can_be_stored(node: Node) -> None:
    assert load_plan(json.loads(json.dumps(to_data(node)))) == node
