"""Expressions in normal form: two spellings of one expression become one tree.

Front ends build every function through `make`, bottom up, so that the arguments are in normal form already. Each rule holds
for all values, NULL and NaN included; none of them evaluates anything that Spark would not.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal

from nabla.algebra.build import is_null_literal
from nabla.algebra.expressions import Apply, Expr, Literal
from nabla.algebra.functions import COMPARISONS
from nabla.algebra.types import decimal_of

Arguments = tuple[Expr, ...]
Rule = Callable[[Apply], Expr]

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MIRRORED = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
_OPPOSITE = {
    "LessThan": "GreaterThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
    "GreaterThan": "LessThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
    "IsNull": "IsNotNull",
    "IsNotNull": "IsNull",
}
_TO_THE_END = "2147483647"
"""The length that Spark gives a substring whose length is not said."""


def make(function: str, arguments: Arguments, type_: str, nullable: bool = True) -> Expr:
    """The function applied to its arguments, in normal form; the arguments have to be in normal form already."""
    node = Apply(function, arguments, type_, nullable)
    return _RULES[function](node) if function in _RULES else node


def cast(value: Expr, type_: str) -> Expr:
    """The value in another type; a constant that keeps its value takes the new type itself."""
    return make("Cast", (value,), type_, value.nullable)


def normalize(expr: Expr) -> Expr:
    """The expression in normal form, with all its parts."""
    return expr.rewrite(lambda e: make(e.function, e.arguments, e.type, e.nullable) if isinstance(e, Apply) else e)


def _compare(e: Apply) -> Expr:
    """The constant stands on the right: `5 < x` is `x > 5`."""
    left, right = e.arguments
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return Apply(_MIRRORED[e.function], (right, left), e.type, e.nullable)
    return e


def _not(e: Apply) -> Expr:
    """`NOT x < y` is `x >= y`: both are NULL where x or y is."""
    (operand,) = e.arguments
    if isinstance(operand, Apply):
        if operand.function == "Not":
            return operand.arguments[0]
        if operand.function in _OPPOSITE:
            return Apply(_OPPOSITE[operand.function], operand.arguments, e.type, operand.nullable)
    return e


def _chain(e: Apply) -> Expr:
    """`a AND (b AND c)` is `(a AND b) AND c`."""
    left, right = e.arguments
    if isinstance(right, Apply) and right.function == e.function:
        first, second = right.arguments
        inner = _chain(Apply(e.function, (left, first), e.type, left.nullable or first.nullable))
        return Apply(e.function, (inner, second), e.type, e.nullable)
    return e


def _in(e: Apply) -> Expr:
    """`x IN (2, 1, 1)` is `x IN (1, 2)`, and `x IN (1, 1)` is `x = 1`."""
    value, *members = e.arguments
    if all(isinstance(member, Literal) for member in members):
        members = sorted(dict.fromkeys(members), key=lambda member: (member.type, member.sql))
    if len(members) == 1:
        return make("EqualTo", (value, members[0]), e.type, e.nullable)
    return Apply("In", (value, *members), e.type, e.nullable)


def _flatten(e: Apply) -> Expr:
    """`concat(concat(a, b), c)` is `concat(a, b, c)`."""
    flat: list[Expr] = []
    for argument in e.arguments:
        same = isinstance(argument, Apply) and argument.function == e.function and argument.type == e.type
        flat += argument.parts if same else (argument,)
    return flat[0] if len(flat) == 1 and flat[0].type == e.type else Apply(e.function, tuple(flat), e.type, e.nullable)


def _substring(e: Apply) -> Expr:
    *others, length = e.arguments
    to_the_end = len(others) == 2 and isinstance(length, Literal) and length.value == _TO_THE_END
    return Apply("Substring", tuple(others), e.type, e.nullable) if to_the_end else e


def _case(e: Apply) -> Expr:
    """`CASE … ELSE NULL END` is `CASE … END`."""
    if len(e.arguments) % 2 and is_null_literal(e.arguments[-1]):
        return Apply("CaseWhen", e.arguments[:-1], e.type, e.nullable)
    return e


def _minus(e: Apply) -> Expr:
    (operand,) = e.arguments
    if isinstance(operand, Literal) and operand.value is not None and operand.type in _BITS:
        return _integer_literal(-int(operand.value), operand.type) or e
    if isinstance(operand, Literal) and operand.value is not None and decimal_of(operand.type):
        return Literal(operand.value[1:] if operand.value.startswith("-") else f"-{operand.value}", operand.type)
    return e


def _date_sub(e: Apply) -> Expr:
    """`date_sub(day, 3)` is `date_add(day, -3)`."""
    day, days = e.arguments
    if isinstance(days, Literal) and days.value is not None:
        less = _integer_literal(-int(days.value), days.type)
        if less is not None:
            return Apply("DateAdd", (day, less), e.type, e.nullable)
    return e


def _cast(e: Apply) -> Expr:
    """Drop a cast to the type that the value has; a constant that keeps its value takes the new type itself."""
    (operand,) = e.arguments
    if operand.type == e.type:
        return operand
    if not isinstance(operand, Literal):
        return e
    if operand.value is None:
        return Literal(None, e.type)
    return _convert_literal(operand.value, operand.type, e.type) or e


def _convert_literal(value: str, old: str, new: str) -> Literal | None:
    """The constant in another type; None if its value would change."""
    if old in _BITS and new in _BITS:
        return _integer_literal(int(value), new)
    if old == "string" and new == "date":
        return _date(value)
    if old == "string" and new in ("float", "double"):
        return _fraction(value, new)
    decimal = decimal_of(new)
    if decimal and (old in _BITS or decimal_of(old)):
        return _decimal(Decimal(value), *decimal, new)
    return None


def _integer_literal(value: int, type_: str) -> Literal | None:
    """A whole number as a constant of an integral type; None if it does not fit."""
    bound = 1 << (_BITS[type_] - 1)
    return Literal(str(value), type_) if -bound <= value < bound else None


def _fraction(value: str, type_: str) -> Literal | None:
    """A number with a point, as Java and Python both write it."""
    if value in ("NaN", "Infinity", "-Infinity") or (
        re.fullmatch(r"-?\d+\.\d+", value) and repr(float(value)) == value
    ):
        return Literal(value, type_)
    return None


def _date(value: str) -> Literal | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return None
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return None
    return Literal(value, "date")


def _decimal(value: Decimal, precision: int, scale: int, type_: str) -> Literal | None:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if -exponent > scale or len(digits) + exponent > precision - scale:
        return None
    return Literal(f"{value:.{scale}f}", type_)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(COMPARISONS, _compare),
    "Not": _not,
    "And": _chain,
    "Or": _chain,
    "In": _in,
    "Concat": _flatten,
    "Coalesce": _flatten,
    "Substring": _substring,
    "CaseWhen": _case,
    "UnaryMinus": _minus,
    "DateSub": _date_sub,
    "Cast": _cast,
}


# Functions of Spark SQL that are written with other functions in normal form.


def between(value: Expr, low: Expr, high: Expr) -> Expr:
    above = make("GreaterThanOrEqual", (value, low), "boolean", value.nullable or low.nullable)
    below = make("LessThanOrEqual", (value, high), "boolean", value.nullable or high.nullable)
    return make("And", (above, below), "boolean", above.nullable or below.nullable)


def null_if(value: Expr, other: Expr) -> Expr:
    same = make("EqualTo", (value, other), "boolean", value.nullable or other.nullable)
    return make("CaseWhen", (same, Literal(None, value.type), value), value.type)


PARTS_OF_DATES = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "Year"),
    **dict.fromkeys(("QUARTER", "QTR"), "Quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "Month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "WeekOfYear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "DayOfMonth"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "DayOfWeek"),
    "DOY": "DayOfYear",
}
"""The function that EXTRACT(part FROM date) and date_part('part', date) are."""


def part_of_date(part: str, value: Expr) -> Expr | None:
    """EXTRACT(part FROM value), or None where the tree has no function for it."""
    if value.type.startswith("interval"):
        return interval_part(value, part.upper())
    function = PARTS_OF_DATES.get(part.upper())
    if function is None or value.type not in ("date", ""):
        return None
    return make(function, (value,), "int", value.nullable)


def move_date(function: str, day: Expr, by: Expr) -> Expr | None:
    """A date plus or minus days, or an interval of whole years, months or days; None of anything else."""
    sign = {"Add": 1, "Subtract": -1}.get(function)
    if sign is None or day.type != "date":
        return None
    if by.type in ("int", "smallint", "tinyint"):
        return make("DateAdd" if sign > 0 else "DateSub", (day, by), "date", day.nullable or by.nullable)
    if not isinstance(by, Literal) or by.value is None:
        return None
    if (days := interval_part(by, "DAY")) is not None:
        return make("DateAdd" if sign > 0 else "DateSub", (day, days), "date", day.nullable)
    amount = by.value if sign > 0 else by.value.replace("'", "'-", 1).replace("--", "")
    return make("DateAddYMInterval", (day, Literal(amount, by.type)), "date", day.nullable)


_INTERVAL = re.compile(r"INTERVAL '(-?\d+)' (YEAR|MONTH|DAY)")


def interval_part(interval: Expr, unit: str) -> Literal | None:
    """The whole days, months or years of a constant interval of that unit."""
    match = _INTERVAL.fullmatch(interval.value or "") if isinstance(interval, Literal) else None
    return Literal(match[1], "int") if match and match[2] == unit else None
