"""Terms of random expressions, with the facts that are needed to compute with them, and constants of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from nabla.algebra.expressions import Expr, Literal
from nabla.algebra.reference.evaluator import SqlType, parse_type
from nabla.algebra.types import INT, decimal_literal, type_of

NUMBERS = ("int", "decimal", "double")
INTEGERS = {"int": 2.0e9, "bigint": 4.0e18}
CONSTANTS: Mapping[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 3, 5),
    "decimal": (Decimal("0.50"), Decimal("1.00"), Decimal("2.25")),
    "double": (0.0, 0.5, 1.0, 2.25),
    "string": ("a", "b", "ab", ""),
    "boolean": (True, False),
    "date": (date(2024, 1, 2), date(2024, 1, 31)),
}


@dataclass(frozen=True)
class Sample:
    """An expression with the facts that are needed to compute with it."""

    expr: Expr
    bound: float = 1.0
    exact: bool = True

    @property
    def sql(self) -> str:
        return self.expr.sql

    @property
    def nullable(self) -> bool:
        return self.expr.nullable

    @property
    def type(self) -> SqlType:
        return parse_type(self.expr.type)

    @property
    def kind(self) -> str:
        return kind_of(self.expr.type)


def kind_of(type_: str) -> str:
    """Types that expressions mix freely: int stands for bigint too."""
    kind = parse_type(type_).kind
    return "int" if kind == "bigint" else kind


def literal(value: Any, type_: str) -> str:
    if value is None:
        return f"CAST(NULL AS {type_.upper()})"
    return _LITERALS[type(value)](value)


_LITERALS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda truth: "true" if truth else "false",
    int: str,
    float: lambda number: f"{number!r}D",
    Decimal: lambda number: f"{number}BD",
    str: lambda text: f"'{text}'",
    date: lambda day: f"DATE '{day.isoformat()}'",
}


def constant(value: Any, type_: str) -> Literal:
    """A value as a constant of a type."""
    if isinstance(value, bool):
        return Literal("true" if value else "false", type_)
    return Literal(None if value is None else str(value), type_)


def literal_type(value: Any) -> SqlType:
    """As Spark types it: a decimal takes the digits that are written, an integer is an int."""
    if isinstance(value, Decimal):
        return decimal_literal(value)
    return INT if type(value) is int else type_of(value)


def capacity(type_: str) -> float:
    """The bound that numbers of a type must stay below."""
    kind = parse_type(type_)
    if kind.kind == "decimal":
        return 10.0 ** (kind.precision - kind.scale) - 1
    return INTEGERS.get(kind.kind, float("inf"))
