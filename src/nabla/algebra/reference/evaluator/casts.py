"""CAST among the simple types, in ANSI mode: what does not fit is an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TypeAlias

from nabla.algebra.reference.evaluator.arithmetic import in_range, rounded
from nabla.algebra.reference.evaluator.values import NAN, CannotEvaluate, SparkWouldFail, Value, canonical
from nabla.algebra.types import (
    ARRAY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    STRING,
    STRUCT,
    SqlType,
)

Cast: TypeAlias = Callable[[Value], Value]

_TRUE, _FALSE = frozenset(("t", "true", "y", "yes", "1")), frozenset(("f", "false", "n", "no", "0"))
_SPECIAL_DOUBLES = {"nan": NAN, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}


def _malformed(text: str, kind: str) -> SparkWouldFail:
    return SparkWouldFail(f"'{text}' is no {kind}")


def _text_to_integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise _malformed(text, "integer") from None


def _text_to_double(text: str) -> float:
    plain = text.strip().lower()
    try:
        return _SPECIAL_DOUBLES[plain] if plain in _SPECIAL_DOUBLES else float(plain)
    except ValueError:
        raise _malformed(text, "double") from None


def _text_to_decimal(text: str) -> Decimal:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise _malformed(text, "decimal") from None


def _text_to_boolean(text: str) -> bool:
    plain = text.strip().lower()
    if plain not in _TRUE | _FALSE:
        raise _malformed(text, "boolean")
    return plain in _TRUE


def _text_to_date(text: str) -> date:
    try:
        year, month, day = text.strip().split("-")
        return date(int(year), int(month), int(day))
    except ValueError:
        raise _malformed(text, "date") from None


def _real_to_integer(number: float) -> int:
    if not math.isfinite(number):
        raise SparkWouldFail(f"{number} is cast to an integer")
    return int(number)


def _real_to_text(number: float) -> str:
    """Java's Double.toString: scientific outside 10^-3 … 10^7, and always a digit after the point."""
    if number != number:
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"


def _unchanged(value: Value) -> Value:
    return value


_TO_INTEGER: Mapping[type, Cast] = {
    bool: int,
    int: _unchanged,
    float: _real_to_integer,
    Decimal: int,
    str: _text_to_integer,
}
_TO_DOUBLE: Mapping[type, Cast] = {bool: float, int: float, float: canonical, Decimal: float, str: _text_to_double}
_TO_DECIMAL: Mapping[type, Cast] = {
    bool: lambda truth: Decimal(int(truth)),
    int: Decimal,
    float: lambda number: Decimal(repr(number)),
    Decimal: _unchanged,
    str: _text_to_decimal,
}
_TO_TEXT: Mapping[type, Cast] = {
    bool: lambda truth: "true" if truth else "false",
    int: str,
    float: _real_to_text,
    Decimal: lambda number: format(number, "f"),
    str: _unchanged,
    date: date.isoformat,
}
_TO_BOOLEAN: Mapping[type, Cast] = {bool: _unchanged, int: bool, float: bool, Decimal: bool, str: _text_to_boolean}
_TO_DATE: Mapping[type, Cast] = {date: _unchanged, str: _text_to_date}

_TABLES: Mapping[SqlType, Mapping[type, Cast]] = {
    **dict.fromkeys(INTEGRAL, _TO_INTEGER),
    FLOAT: _TO_DOUBLE,
    DOUBLE: _TO_DOUBLE,
    STRING: _TO_TEXT,
    BOOLEAN: _TO_BOOLEAN,
    DATE: _TO_DATE,
}


def _by_type(table: Mapping[type, Cast], target: SqlType) -> Cast:
    def cast(value: Value) -> Value:
        if value is None:
            return None
        convert = table.get(type(value))
        if convert is None:
            raise CannotEvaluate(f"CAST of {type(value).__name__} as {target}")
        return convert(value)

    return cast


def _of_nothing(value: Value) -> Value:
    """A value that its type alone decides: a NULL, or an array without elements."""
    if value is None or value == ():
        return value
    raise CannotEvaluate("CAST of a nested value")


@lru_cache(maxsize=1024)
def cast_to(target: SqlType) -> Cast:
    """The cast of any value, NULL too, to a type."""
    if target.kind == "decimal":
        exact = _by_type(_TO_DECIMAL, target)
        return lambda value: None if value is None else rounded(exact(value), target)
    if target in (ARRAY, STRUCT):
        return _of_nothing
    if target not in _TABLES:
        raise CannotEvaluate(f"CAST as {target}")
    plain = _by_type(_TABLES[target], target)
    if target in INTEGRAL:
        return lambda value: None if value is None else in_range(plain(value), target)
    return plain
