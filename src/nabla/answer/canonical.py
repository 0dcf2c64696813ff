"""Expressions in a form in which they are compared: without NULLability, with the operands of commutative functions in order,
and with each column as the representative of the columns that equal it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from nabla.algebra.expressions import Apply, Clock, Expr, Foreign, Literal, Ref

COMMUTATIVE = frozenset(("EqualTo", "EqualNullSafe", "Add", "Multiply", "And", "Or"))
INEXACT = ("float", "double", "collate", "map", "variant")
"""Types with values that are equal and yet differ: 0.0 and -0.0, texts that a collation takes as equal."""


def is_exact(type_: str) -> bool:
    """Whether equal values of the type are the same value."""
    return not any(word in type_ for word in INEXACT)


def strip(expr: Expr) -> Expr:
    """The expression with everything in it nullable: a column may be NULL in a view and not in a query."""
    return expr.rewrite(_nullable)


def _nullable(part: Expr) -> Expr:
    match part:
        case Ref() if not part.nullable:
            return Ref(part.name, part.type, True)
        case Apply() | Foreign() if not part.nullable:
            return replace(part, nullable=True)
    return part


def canonical(expr: Expr, representative: Callable[[str], str] = lambda name: name) -> Expr:
    """The form of an expression. Expressions of one form have equal values in rows where the represented columns are equal."""

    def change(part: Expr) -> Expr:
        match part:
            case Ref():
                name = representative(part.name)
                return part if part.nullable and name == part.name else Ref(name, part.type, True)
            case Apply() if part.function in COMMUTATIVE:
                ordered = tuple(sorted(part.arguments, key=lambda argument: argument.sql))
                if part.nullable and ordered == part.arguments:
                    return part
                return Apply(part.function, ordered, part.type, True)
        return _nullable(part)

    return expr.rewrite(change)


def conjuncts_of(expr: Expr) -> Iterator[Expr]:
    """The parts of a conjunction, or the expression itself."""
    if isinstance(expr, Apply) and expr.function == "And":
        for part in expr.arguments:
            yield from conjuncts_of(part)
    else:
        yield expr


def disjuncts_of(expr: Expr) -> Iterator[Expr]:
    """The parts of a disjunction, or the expression itself."""
    if isinstance(expr, Apply) and expr.function == "Or":
        for part in expr.arguments:
            yield from disjuncts_of(part)
    else:
        yield expr


def repeatable(expressions: Iterable[Expr]) -> bool:
    """Whether expressions give the same value for the same row each time: no rand(), no clock."""
    return all(e.deterministic and not any(isinstance(part, Clock) for part in e.walk()) for e in expressions)


def is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type == "boolean" and expr.value == "true"
