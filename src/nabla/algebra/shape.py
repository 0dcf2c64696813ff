"""Shapes, by which queries are compared without the names of their columns. A common table expression that is used twice
comes from Spark as two copies with different names."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass, replace

from nabla.algebra.expressions import Column, Expr, Lambda, Ref, Variable
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import Node, Scan


def shape(node: Node) -> Hashable:
    """The shape of a query: queries that differ only in the names of columns have equal shapes."""
    return Shape().of(node)


class Shape:
    """Makes a shape. It numbers columns at their first occurrence, which is below every operator that reads them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.seen: Memo[Node, int] = Memo()

    def of(self, value: object) -> Hashable:
        match value:
            case Node() if value in self.seen:  # its columns have numbers already
                return "seen", self.seen[value]
            case Node() if value.inputs:
                made = self.of_dataclass(value)
                self.seen[value] = len(self.seen)
                return made
            case Scan():  # names of tables and of their fields are part of the shape
                return value.table, value.at, value.fields, self.of(value.output)
            case Column():
                return self.numbers.setdefault(value.name, len(self.numbers)), value.type, value.nullable
            case Expr():
                return self.number(value), value.type, value.nullable
            case str():
                return self.numbers.get(value, value)
            case tuple():
                return tuple(self.of(part) for part in value)
            case _ if is_dataclass(value):
                return self.of_dataclass(value)
        assert isinstance(value, Hashable)
        return value

    def number(self, expr: Expr) -> Expr:
        """The expression with its columns as their numbers. A column that is never NULL leaves the nullability of the
        expressions around it as it is."""
        numbers = {c: Ref(str(self.of(c)), "", nullable=False) for c in expr.columns}
        return _number_variables(expr.substitute(numbers))

    def of_dataclass(self, value: object) -> Hashable:
        return type(value).__name__, *(self.of(getattr(value, f.name)) for f in fields(value))  # type: ignore[arg-type]


def _number_variables(expr: Expr) -> Expr:
    """The expression with the variables of its lambdas numbered in the order in which they occur."""
    bound = dict.fromkeys(v.name for part in expr.walk() if isinstance(part, Lambda) for v in part.variables)
    numbers = {name: str(number) for number, name in enumerate(bound)}

    def numbered(part: Expr) -> Expr:
        match part:
            case Variable():
                return replace(part, name=numbers[part.name])
            case Lambda():
                return replace(part, variables=tuple(replace(v, name=numbers[v.name]) for v in part.variables))
        return part

    return expr.rewrite(numbered) if numbers else expr
