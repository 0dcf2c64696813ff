"""Arithmetic with Spark's typing in ANSI mode: overflow and division by zero are errors, decimals are exact."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from nabla.algebra.reference.evaluator.values import CannotEvaluate, SparkWouldFail, Value, canonical
from nabla.algebra.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FRACTIONAL,
    INTEGRAL,
    MAX_PRECISION,
    UNKNOWN,
    SqlType,
    as_decimal,
    decimal_result,
    numeric,
    type_of,
    wider,
)

Binary: TypeAlias = Callable[[Value, Value], Value]

# Wide enough that no sum or product of two Spark decimals is ever rounded before Spark rounds it.
EXACT = Context(prec=3 * MAX_PRECISION, rounding=ROUND_HALF_UP)


class Operation(NamedTuple):
    """A function of two values that are not NULL, and the type of what it returns."""

    apply: Binary
    type: SqlType


def in_range(value: int, kind: SqlType) -> int:
    bits = INTEGRAL[kind][0]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise SparkWouldFail(f"{value} does not fit {kind}")
    return value


@cache
def _unit(scale: int) -> Decimal:
    return Decimal(1).scaleb(-scale)


def rounded(value: Decimal, kind: SqlType) -> Decimal:
    """The decimal with exactly the digits of its type, half up."""
    result = value.quantize(_unit(kind.scale), context=EXACT)
    if result and result.adjusted() + kind.scale >= kind.precision:
        raise SparkWouldFail(f"{value} does not fit {kind}")
    return result


def _refuse_zero(divisor: Value) -> None:
    if divisor == 0:
        raise SparkWouldFail("division by zero")


def _truncated_quotient(x: int, y: int) -> int:
    _refuse_zero(y)
    return abs(x) // abs(y) * (1 if (x < 0) is (y < 0) else -1)


def _integer_remainder(x: int, y: int) -> int:
    """The sign of the dividend, as in Java."""
    _refuse_zero(y)
    return abs(x) % abs(y) * (-1 if x < 0 else 1)


def _real_quotient(x: float, y: float) -> float:
    _refuse_zero(y)
    return x / y


def _real_remainder(x: float, y: float) -> float:
    _refuse_zero(y)
    return math.fmod(x, y)


def _real_integer_quotient(x: float, y: float) -> int:
    _refuse_zero(y)
    return int(x / y)


def _decimal_quotient(x: Decimal, y: Decimal) -> Decimal:
    _refuse_zero(y)
    return EXACT.divide(x, y)


def _decimal_remainder(x: Decimal, y: Decimal) -> Decimal:
    _refuse_zero(y)
    return EXACT.remainder(x, y)


def _decimal_integer_quotient(x: Decimal, y: Decimal) -> int:
    _refuse_zero(y)
    return int(EXACT.divide_int(x, y))


_INTEGER: Mapping[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": _integer_remainder,
    "div": _truncated_quotient,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_REAL: Mapping[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _real_quotient,
    "%": _real_remainder,
    "div": _real_integer_quotient,
}
_DECIMAL: Mapping[str, Binary] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _decimal_quotient,
    "%": _decimal_remainder,
    "div": _decimal_integer_quotient,
}
_DATES: Mapping[str, Operation] = {
    "+": Operation(lambda day, days: day + timedelta(days), DATE),
    "-": Operation(lambda day, days: day - timedelta(days), DATE),
}


def _on_integers(symbol: str, left: SqlType, right: SqlType) -> Operation:
    if symbol == "/":
        return Operation(lambda x, y: _real_quotient(float(x), float(y)), DOUBLE)
    function = _INTEGER[symbol]
    result = BIGINT if symbol == "div" else wider(left, right)
    return Operation(lambda x, y: in_range(function(x, y), result), result)


def _on_reals(symbol: str) -> Operation:
    function = _REAL[symbol]
    if symbol == "div":
        return Operation(lambda x, y: function(float(x), float(y)), BIGINT)
    return Operation(lambda x, y: canonical(function(float(x), float(y))), DOUBLE)


def _on_decimals(symbol: str, left: SqlType, right: SqlType) -> Operation:
    function, result = _DECIMAL[symbol], decimal_result(symbol, left, right)
    if symbol == "div":
        return Operation(lambda x, y: function(Decimal(x), Decimal(y)), result)
    return Operation(lambda x, y: rounded(function(Decimal(x), Decimal(y)), result), result)


def _by_value(symbol: str) -> Operation:
    """Where the types are not known, those of the values decide."""
    return Operation(lambda x, y: operation(symbol, type_of(x), type_of(y)).apply(x, y), UNKNOWN)


@lru_cache(maxsize=4096)
def operation(symbol: str, left: SqlType, right: SqlType, digits: tuple[int, int] = (0, 0)) -> Operation:
    """`digits` are those of an operand that is an integer literal: decimal arithmetic takes it as narrow as it is."""
    if left == DATE and right in INTEGRAL and symbol in _DATES:
        return _DATES[symbol]
    if not (numeric(left) and numeric(right)):
        return _without_types(symbol, left, right)
    if left in INTEGRAL and right in INTEGRAL:
        return _on_integers(symbol, left, right)
    if left in FRACTIONAL or right in FRACTIONAL:
        return _on_reals(symbol)
    return _on_decimals(symbol, as_decimal(left, digits[0]), as_decimal(right, digits[1]))


def _without_types(symbol: str, left: SqlType, right: SqlType) -> Operation:
    known = [kind for kind in (left, right) if kind != UNKNOWN and kind.kind != "void"]
    if len(known) == 2 or any(not numeric(kind) and kind != DATE for kind in known):
        raise CannotEvaluate(f"{left} {symbol} {right}")
    return _by_value(symbol)


def negative(value: Value) -> Value:
    # The operators of Decimal round to the digits of the thread's context; its copy methods do not.
    return value.copy_negate() if isinstance(value, Decimal) else -value


def absolute(value: Value) -> Value:
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def positive_remainder(x: Value, y: Value) -> Value:
    remainder = _integer_remainder(x, y)
    return _integer_remainder(remainder + y, y) if remainder < 0 else remainder


def half_up(value: Value, digits: int) -> Value:
    """round(): half away from zero, on the decimal digits that a double shows."""
    step = Decimal(1).scaleb(-digits)
    if isinstance(value, int):
        return value if digits >= 0 else int(EXACT.quantize(Decimal(value), step))
    if isinstance(value, float):
        return float(Decimal(repr(value)).quantize(step, context=EXACT)) if math.isfinite(value) else value
    return EXACT.quantize(value, step)
