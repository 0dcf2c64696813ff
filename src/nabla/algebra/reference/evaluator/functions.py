"""Functions that are NULL when an argument is, by their classes in Catalyst: what they do, and the type they return."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from nabla.algebra.reference.evaluator.arithmetic import EXACT, absolute, positive_remainder
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.dates import MOVES
from nabla.algebra.reference.evaluator.values import CannotEvaluate, SparkWouldFail, Value, equal, sorting_key
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


def _first_type(*arguments: SqlType) -> SqlType:
    return arguments[0]


def _substring(text: str, position: int, length: int = 1 << 31) -> str:
    """Positions count from one, negative ones from the end; a start before the text uses up part of the length."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


@lru_cache(maxsize=1024)
def _like_pattern(pattern: str, escape: str = "\\") -> re.Pattern[str]:
    """% is any text, _ any character; after the escape character both are themselves."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like_pattern(pattern, escape).fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like(text.lower(), pattern.lower(), escape)


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


def _contains(array: tuple[Value, ...], element: Value) -> bool | None:
    if any(equal(own, element) for own in array):
        return True
    return None if None in array else False


def _element_at(array: tuple[Value, ...], index: int) -> Value:
    if index == 0 or abs(index) > len(array):
        raise SparkWouldFail(f"element {index} of an array of {len(array)}")
    return array[index - 1] if index > 0 else array[index]


def _item(array: tuple[Value, ...], index: int) -> Value:
    if not 0 <= index < len(array):
        raise SparkWouldFail(f"index {index} of an array of {len(array)}")
    return array[index]


def _sequence(start: int, end: int, step: int | None = None) -> tuple[int, ...]:
    if not isinstance(start, int):
        raise CannotEvaluate(f"a sequence from {start}")
    by = step or (1 if end >= start else -1)
    return tuple(range(start, end + (1 if by > 0 else -1), by))


def _split(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """Into at most `limit` parts, if that is positive."""
    return (text,) if limit == 1 else tuple(re.split(pattern, text, maxsplit=max(limit - 1, 0)))


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


def _flatten(arrays: tuple[Value, ...]) -> Value:
    return None if None in arrays else tuple([value for array in arrays for value in array])


def _sorted(nulls_first: bool) -> Callable[..., Value]:
    key = sorting_key(True, nulls_first)
    return lambda values, ascending=True: tuple(sorted(values, key=key, reverse=not ascending))


def _integral_first(*arguments: SqlType) -> SqlType:
    return arguments[0] if arguments[0] in INTEGRAL else UNKNOWN


FUNCTIONS: Mapping[str, Function] = {
    "Upper": Function(str.upper, STRING),
    "Lower": Function(str.lower, STRING),
    "InitCap": Function(lambda text: " ".join(word.capitalize() for word in text.split(" ")), STRING),
    "Length": Function(_size_of, INT),
    "Substring": Function(_substring, STRING),
    "Right": Function(_right, STRING),
    "StringReplace": Function(lambda text, old, new="": text.replace(old, new) if old else text, STRING),
    "StringTrim": Function(lambda text, characters=" ": text.strip(characters), STRING),
    "StringTrimLeft": Function(lambda text, characters=" ": text.lstrip(characters), STRING),
    "StringTrimRight": Function(lambda text, characters=" ": text.rstrip(characters), STRING),
    "Reverse": Function(lambda value: value[::-1], _first_type),
    "StringRepeat": Function(lambda text, times: text * max(times, 0), STRING),
    "StartsWith": Function(str.startswith, BOOLEAN),
    "EndsWith": Function(str.endswith, BOOLEAN),
    "Contains": Function(lambda text, part: part in text, BOOLEAN),
    "StringInstr": Function(lambda text, part: text.find(part) + 1, INT),
    "Concat": Function(_concat, _concat_type),
    "Like": Function(_like, BOOLEAN),
    "ILike": Function(_ilike, BOOLEAN),
    "RLike": Function(lambda text, pattern: re.search(pattern, text) is not None, BOOLEAN),
    "Abs": Function(absolute, _first_type),
    "Ceil": Function(_whole(ROUND_CEILING), _whole_type),
    "Floor": Function(_whole(ROUND_FLOOR), _whole_type),
    "Signum": Function(_sign, DOUBLE),
    "Sqrt": Function(_root, DOUBLE),
    "Pow": Function(lambda base, power: float(base) ** float(power), DOUBLE),
    "Pmod": Function(positive_remainder, _integral_first),
    "DateAdd": Function(_date_add, DATE),
    "DateSub": Function(lambda day, days: _date_add(day, -days), DATE),
    "DateDiff": Function(_date_difference, INT),
    "Size": Function(_size_of, INT),
    "ArrayContains": Function(_contains, BOOLEAN),
    "GetArrayItem": Function(_item, UNKNOWN),
    "ElementAt": Function(_element_at, UNKNOWN),
    "Sequence": Function(_sequence, ARRAY),
    "StringSplit": Function(_split, ARRAY),
    "Flatten": Function(_flatten, ARRAY),
    "ArrayDistinct": Function(lambda values: tuple(dict.fromkeys(values)), ARRAY),
    # Where NULLs are among the elements, these two differ in where they go.
    "SortArray": Function(_sorted(nulls_first=True), ARRAY),
    "ArraySort": Function(_sorted(nulls_first=False), ARRAY),
}

PARTS_OF_DATES: Mapping[str, Callable[[date], int]] = {
    "Year": lambda day: day.year,
    "Quarter": lambda day: (day.month + 2) // 3,
    "Month": lambda day: day.month,
    "DayOfMonth": lambda day: day.day,
}
