"""Terms of rules become expressions, whichever operator they use."""

from __future__ import annotations

import pytest

from nabla.algebra.expressions import Ref
from nabla.frontends.datalog.terms import Operation, Variable
from nabla.frontends.datalog.trees import tree_of

X, Y = Variable("X"), Variable("Y")
VALUES = {X: Ref("x", "int"), Y: Ref("y", "int")}


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("+", "(`x` + `y`)"),
        ("-", "(`x` - `y`)"),
        ("*", "(`x` * `y`)"),
        ("/", "(`x` / `y`)"),
        ("div", "(`x` div `y`)"),
        ("mod", "(`x` % `y`)"),
        ("||", "concat(`x`, `y`)"),
    ],
)
def test_every_operator_of_the_grammar_is_known_to_the_tree(operator: str, text: str) -> None:
    assert tree_of(Operation(operator, (X, Y)), VALUES).sql == text
