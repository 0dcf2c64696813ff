"""SQL values in Python: how they compare, how they sort, and the two ways in which an evaluation can fail.

NULL is None, an array is a tuple, a struct is a `Struct`; everything else is the Python value that PySpark returns. All
values are hashable, so that a row is a tuple and a bag a Counter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

Value: TypeAlias = Any
Row: TypeAlias = tuple[Value, ...]
Truth: TypeAlias = bool | None
Key: TypeAlias = tuple[Any, ...]

# NaN is not equal to itself in Python and is one value in Spark. Python finds an object in a Counter by identity before
# it asks for equality, so one NaN object for all makes bags of rows with NaN behave.
NAN = float("nan")


class CannotEvaluate(Exception):
    """The interpreter does not know this function or operator; Spark may well."""


class SparkWouldFail(Exception):
    """The evaluation is an error in Spark too (ANSI mode): division by zero, overflow, a malformed cast."""


class Struct(tuple[Value, ...]):
    """A struct is equal to the tuple of its values: names belong to the type."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str], values: Iterable[Value]) -> Struct:
        struct = cls(values)
        struct.names = tuple(names)
        return struct

    def field(self, name: str) -> Value:
        # Spark resolves the names of fields without regard to case.
        for own, value in zip(self.names, self, strict=True):
            if own.lower() == name.lower():
                return value
        raise CannotEvaluate(f"a struct has no field {name}, only {', '.join(self.names)}")


def canonical(number: float) -> float:
    return number if number == number else NAN


def order_key(value: Value) -> Key:
    """A key that sorts any values of one type as Spark's ascending order does: NULL first, NaN after every number."""
    if value is None:
        return (0,)
    if value != value:
        return (2,)
    if isinstance(value, tuple):
        return (1, tuple(order_key(v) for v in value))
    return (1, value)


def row_key(row: Iterable[Value]) -> Key:
    """The total order of whole rows, which decides where an ORDER BY leaves a choice."""
    return tuple([order_key(v) for v in row])


def sorting_key(ascending: bool, nulls_first: bool) -> Callable[[Value], Key]:
    """The key of one ORDER BY item for a sort with `reverse=not ascending`."""
    null: Key = (0,) if nulls_first is ascending else (3,)
    return lambda value: null if value is None else order_key(value)


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise SparkWouldFail(f"'{text}' is compared with a number and is none") from None


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise SparkWouldFail(f"'{text}' is compared with a date and is none") from None


def _unchanged(value: Value) -> Value:
    return value


# What each of two values of different Python types becomes before Spark compares them. Pairs that Python compares
# exactly (int with float or Decimal) are not listed.
_ALIGNMENTS: Mapping[tuple[type, type], tuple[Callable[[Any], Value], Callable[[Any], Value]]] = {
    (Decimal, float): (float, _unchanged),
    (float, Decimal): (_unchanged, float),
    (str, int): (_number, _unchanged),
    (int, str): (_unchanged, _number),
    (str, float): (float, _unchanged),
    (float, str): (_unchanged, float),
    (str, Decimal): (float, float),
    (Decimal, str): (float, float),
    (str, date): (_date, _unchanged),
    (date, str): (_unchanged, _date),
}


def align(left: Value, right: Value) -> tuple[Value, Value]:
    """Two values of different types as Spark's implicit casts make them comparable."""
    casts = _ALIGNMENTS.get((type(left), type(right)))
    return (casts[0](left), casts[1](right)) if casts else (left, right)


def equal(left: Value, right: Value) -> Truth:
    if left is None or right is None:
        return None
    if type(left) is not type(right):
        left, right = align(left, right)
    return bool(left == right) or (left != left and right != right)


def not_equal(left: Value, right: Value) -> Truth:
    return negated(equal(left, right))


def less(left: Value, right: Value) -> Truth:
    if left is None or right is None:
        return None
    if type(left) is not type(right):
        left, right = align(left, right)
    return order_key(left) < order_key(right)


def greater(left: Value, right: Value) -> Truth:
    return less(right, left)


def at_most(left: Value, right: Value) -> Truth:
    return negated(less(right, left))


def at_least(left: Value, right: Value) -> Truth:
    return negated(less(left, right))


def null_safe_equal(left: Value, right: Value) -> bool:
    return right is None if left is None else equal(left, right) is True


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(left: Truth, right: Truth) -> Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def disjunction(left: Truth, right: Truth) -> Truth:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


Comparison: TypeAlias = Callable[[Value, Value], Truth]

# The comparisons of SQL, and the Python operator that does the same for two values of one type that has no NaN.
COMPARISONS: Mapping[str, tuple[Comparison, Callable[[Value, Value], bool]]] = {
    "=": (equal, operator.eq),
    "<>": (not_equal, operator.ne),
    "<": (less, operator.lt),
    "<=": (at_most, operator.le),
    ">": (greater, operator.gt),
    ">=": (at_least, operator.ge),
}
