"""Terms: an expression compiled to a function of a row, with the type of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.values import Value
from nabla.algebra.types import UNKNOWN, VOID, SqlType, widest

# A row is anything that maps the key of a slot to a value: a tuple by position, or a dict by name.
Get: TypeAlias = Callable[[Any], Value]


class Slot(NamedTuple):
    """Where a column is in a row, and its type."""

    key: int | str
    type: SqlType = UNKNOWN


Layout: TypeAlias = Mapping[str, Slot]


class Term(NamedTuple):
    get: Get
    type: SqlType
    digits: int = 0  # of an integer literal


def constant(value: Value, kind: SqlType, digits: int = 0) -> Term:
    return Term(lambda row: value, kind, digits)


def converted(term: Term, target: SqlType) -> Term:
    """The term as an implicit cast to the common type makes it; where a type is not known, as it is."""
    if term.type == target or UNKNOWN in (term.type, target) or VOID in (term.type, target):
        return term
    cast, get = cast_to(target), term.get
    return Term(lambda row: cast(get(row)), target)


def unified(terms: Iterable[Term]) -> tuple[list[Get], SqlType]:
    """Branches of one expression, brought to their common type."""
    branches = list(terms)
    common = widest(term.type for term in branches)
    return [converted(term, common).get for term in branches], common


def strict(function: Callable[..., Value], terms: Iterable[Term], kind: SqlType) -> Term:
    """A function that is NULL as soon as one argument is. Common arities are written out: this is the inner loop."""
    gets = [term.get for term in terms]
    if len(gets) == 1:
        return Term(_strict_unary(function, gets[0]), kind)
    if len(gets) == 2:
        return Term(_strict_binary(function, gets[0], gets[1]), kind)

    def get(row: Any) -> Value:
        values = [argument(row) for argument in gets]
        return None if None in values else function(*values)

    return Term(get, kind)


def _strict_unary(function: Callable[..., Value], argument: Get) -> Get:
    def get(row: Any) -> Value:
        value = argument(row)
        return None if value is None else function(value)

    return get


def _strict_binary(function: Callable[..., Value], left: Get, right: Get) -> Get:
    def get(row: Any) -> Value:
        x = left(row)
        if x is None:
            return None
        y = right(row)
        return None if y is None else function(x, y)

    return get
