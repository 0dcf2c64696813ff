"""Functions that are NULL when an argument is: what they do, and the type they return.

A table each for sqlglot's own classes of functions and for those that it only knows by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from nabla.algebra.reference.evaluator.arithmetic import EXACT, absolute, half_up, positive_remainder
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.dates import MOVES
from nabla.algebra.reference.evaluator.values import SparkWouldFail, Value, equal
from nabla.algebra.types import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTEGRAL,
    STRING,
    UNKNOWN,
    SqlType,
    decimal,
)

Result: TypeAlias = SqlType | Callable[..., SqlType]


class Function(NamedTuple):
    apply: Callable[..., Value]
    result: Result

    def type(self, *arguments: SqlType) -> SqlType:
        return self.result if isinstance(self.result, SqlType) else self.result(*arguments)


def first_type(*arguments: SqlType) -> SqlType:
    return arguments[0]


def _substring(text: str, position: int, length: int = 1 << 31) -> str:
    """Positions count from one, negative ones from the end; a start before the text uses up part of the length."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "\\") -> re.Pattern[str]:
    """% is any text, _ any character; after the escape character both are themselves."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    return like_pattern(pattern, escape).fullmatch(text) is not None


def _ilike(text: str, pattern: str) -> bool:
    return like(text.lower(), pattern.lower())


def _whole(rounding: str) -> Callable[[Value], Value]:
    direction = math.floor if rounding == ROUND_FLOOR else math.ceil

    def apply(number: Value) -> Value:
        if isinstance(number, Decimal):
            return number.quantize(Decimal(1), rounding=rounding, context=EXACT)
        return direction(number)

    return apply


def _whole_type(argument: SqlType) -> SqlType:
    return decimal(argument.precision - argument.scale + 1, 0) if argument.kind == "decimal" else BIGINT


def _sign(number: Value) -> Value:
    sign = (number > 0) - (number < 0)
    return Decimal(sign) if isinstance(number, Decimal) else float(sign)


def _root(number: Value) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


def to_date(value: Value) -> date:
    day: date = cast_to(DATE)(value)
    return day


def _date_add(day: Value, days: int) -> date:
    return MOVES["DAY"](to_date(day), days)


def _date_difference(end: Value, start: Value) -> int:
    return (to_date(end) - to_date(start)).days


def contains(array: tuple[Value, ...], element: Value) -> bool | None:
    if any(equal(own, element) for own in array):
        return True
    return None if None in array else False


def element_at(array: tuple[Value, ...], index: int) -> Value:
    if index == 0 or abs(index) > len(array):
        raise SparkWouldFail(f"element {index} of an array of {len(array)}")
    return array[index - 1] if index > 0 else array[index]


def item(array: tuple[Value, ...], index: int) -> Value:
    if not 0 <= index < len(array):
        raise SparkWouldFail(f"index {index} of an array of {len(array)}")
    return array[index]


def _sequence(start: int, end: int, step: int | None = None) -> tuple[int, ...]:
    by = step or (1 if end >= start else -1)
    return tuple(range(start, end + (1 if by > 0 else -1), by))


def _split(text: str, pattern: str) -> tuple[str, ...]:
    return tuple(re.split(pattern, text))


def _size_of(value: Value) -> int:
    return len(value)


def _concat(*values: Value) -> Value:
    """Of arrays, or of anything that becomes text."""
    if values and isinstance(values[0], tuple):
        return tuple(element for array in values for element in array)
    text = cast_to(STRING)
    return "".join(text(value) for value in values)


def _concat_type(*arguments: SqlType) -> SqlType:
    return ARRAY if arguments and arguments[0] == ARRAY else STRING


def _integral_first(*arguments: SqlType) -> SqlType:
    return arguments[0] if arguments[0] in INTEGRAL else UNKNOWN


CLASSES: Mapping[type[exp.Expr], Function] = {
    exp.Upper: Function(str.upper, STRING),
    exp.Lower: Function(str.lower, STRING),
    exp.Initcap: Function(lambda text, delimiter=" ": " ".join(w.capitalize() for w in text.split(" ")), STRING),
    exp.Length: Function(_size_of, INT),
    exp.Substring: Function(_substring, STRING),
    exp.Left: Function(_left, STRING),
    exp.Right: Function(_right, STRING),
    exp.Replace: Function(lambda text, old, new="": text.replace(old, new) if old else text, STRING),
    exp.Reverse: Function(lambda value: value[::-1], first_type),
    exp.Repeat: Function(lambda text, times: text * max(times, 0), STRING),
    exp.StartsWith: Function(str.startswith, BOOLEAN),
    exp.EndsWith: Function(str.endswith, BOOLEAN),
    exp.Contains: Function(lambda text, part: part in text, BOOLEAN),
    exp.StrPosition: Function(lambda text, part: text.find(part) + 1, INT),
    exp.Concat: Function(_concat, _concat_type),
    exp.DPipe: Function(_concat, _concat_type),
    exp.Like: Function(like, BOOLEAN),
    exp.ILike: Function(_ilike, BOOLEAN),
    exp.RegexpLike: Function(lambda text, pattern: re.search(pattern, text) is not None, BOOLEAN),
    exp.Abs: Function(absolute, first_type),
    exp.Ceil: Function(_whole(ROUND_CEILING), _whole_type),
    exp.Floor: Function(_whole(ROUND_FLOOR), _whole_type),
    exp.Sign: Function(_sign, DOUBLE),
    exp.Sqrt: Function(_root, DOUBLE),
    exp.Pow: Function(lambda base, power: float(base) ** float(power), DOUBLE),
    exp.TsOrDsToDate: Function(to_date, DATE),
    exp.TsOrDsAdd: Function(_date_add, DATE),
    exp.DateDiff: Function(_date_difference, INT),
    exp.Year: Function(lambda day: day.year, INT),
    exp.Month: Function(lambda day: day.month, INT),
    exp.Day: Function(lambda day: day.day, INT),
    exp.Quarter: Function(lambda day: (day.month + 2) // 3, INT),
    exp.DayOfMonth: Function(lambda day: day.day, INT),
    exp.ArraySize: Function(_size_of, INT),
    exp.ArrayContains: Function(contains, BOOLEAN),
    exp.GenerateSeries: Function(_sequence, ARRAY),
    exp.RegexpSplit: Function(_split, ARRAY),
}

NAMES: Mapping[str, Function] = {
    "pmod": Function(positive_remainder, _integral_first),
    "positive": Function(lambda number: number, first_type),
    "negative": Function(lambda number: -number, first_type),
    "ucase": Function(str.upper, STRING),
    "lcase": Function(str.lower, STRING),
}

EXTRACTED: Mapping[str, Callable[[date], int]] = {
    "YEAR": lambda day: day.year,
    "MONTH": lambda day: day.month,
    "DAY": lambda day: day.day,
    "QUARTER": lambda day: (day.month + 2) // 3,
}

__all__ = ["CLASSES", "EXTRACTED", "NAMES", "Function", "element_at", "half_up", "item", "like"]
