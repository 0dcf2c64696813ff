"""Functions by the names under which Spark SQL calls them, in normal form: `nvl(x, 0)` is `coalesce(x, 0)`."""

from __future__ import annotations

from collections.abc import Callable

from nabla.algebra.expressions import Expr, Literal
from nabla.algebra.functions import FUNCTIONS, NAMES
from nabla.algebra.normalize import Arguments, cast, make, move_date, null_if, part_of_date
from nabla.algebra.result_types import result_nullable, result_type

CASTS = frozenset(("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "date", "timestamp"))
"""Types whose names Spark takes as functions that cast."""


def apply(function: str, arguments: Arguments) -> Expr:
    """A function by its class in Catalyst, of the type that follows from its arguments."""
    return make(function, arguments, result_type(function, arguments), result_nullable(function, arguments))


def infix(function: str, left: Expr, right: Expr) -> Expr | None:
    """Arithmetic, also of dates with days and intervals. None if the tree has no function for it."""
    if left.type == "date" or right.type.startswith("interval"):
        return move_date(function, left, right)
    return apply(function, (left, right))


def by_name(name: str, arguments: Arguments) -> Expr | None:
    """The call of a function, or None if the tree does not know the function."""
    name = name.lower()
    if (form := _FORMS.get((name, len(arguments)))) is not None:
        return form(*arguments)
    if name in CASTS and len(arguments) == 1:
        return cast(arguments[0], name)
    if name in ("nvl", "ifnull"):
        return apply("Coalesce", arguments)
    function = NAMES.get(name)
    if function is None or not FUNCTIONS[function].takes(len(arguments)):
        return None
    dates = _DATES.get(function, 0)
    return apply(function, (*map(_as_date, arguments[:dates]), *arguments[dates:]))


def _as_date(value: Expr) -> Expr:
    return cast(value, "date") if value.type else value


_DATES = {
    **dict.fromkeys(("Year", "YearOfWeek", "Quarter", "Month", "WeekOfYear", "WeekDay"), 1),
    **dict.fromkeys(("DayOfMonth", "DayOfWeek", "DayOfYear", "DateAdd", "DateSub", "AddMonths"), 1),
    "DateDiff": 2,
}
"""The number of arguments of a function, from the first, that are dates: Spark casts other values to dates."""


def _choose(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    return apply("CaseWhen", (condition, value, otherwise))


def _choose_if_there(value: Expr, then: Expr, otherwise: Expr) -> Expr:
    return _choose(apply("IsNotNull", (value,)), then, otherwise)


def _date_part(part: Expr, value: Expr) -> Expr | None:
    return part_of_date(part.value, value) if isinstance(part, Literal) and part.value else None


def _left(value: Expr, length: Expr) -> Expr:
    return apply("Substring", (value, Literal("1", "int"), length))


def _round(value: Expr) -> Expr:
    return apply("Round", (value, Literal("0", "int")))


_FORMS: dict[tuple[str, int], Callable[..., Expr | None]] = {
    ("if", 3): _choose,
    ("iff", 3): _choose,
    ("nvl2", 3): _choose_if_there,
    ("nullif", 2): null_if,
    ("date_part", 2): _date_part,
    ("datepart", 2): _date_part,
    ("positive", 1): lambda value: value,
    ("left", 2): _left,
    ("round", 1): _round,
    ("to_date", 1): lambda value: cast(value, "date"),
    # Spark SQL has the characters to remove first, Catalyst has them last.
    ("trim", 2): lambda characters, value: apply("StringTrim", (value, characters)),
    ("ltrim", 2): lambda characters, value: apply("StringTrimLeft", (value, characters)),
    ("rtrim", 2): lambda characters, value: apply("StringTrimRight", (value, characters)),
}
"""Functions that other functions express, by their name and the number of their arguments."""
