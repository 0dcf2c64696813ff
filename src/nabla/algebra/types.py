"""Spark's types, as far as they decide values: the types of arithmetic, and the digits of decimals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

Value = Any


class SqlType(NamedTuple):
    kind: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind


# The type is UNKNOWN if a caller gives no types. Then the values decide when they are evaluated.
UNKNOWN = SqlType("unknown")
VOID = SqlType("void")
TINYINT, SMALLINT, INT, BIGINT = SqlType("tinyint"), SqlType("smallint"), SqlType("int"), SqlType("bigint")
FLOAT, DOUBLE = SqlType("float"), SqlType("double")
STRING, BOOLEAN, DATE = SqlType("string"), SqlType("boolean"), SqlType("date")
ARRAY, STRUCT = SqlType("array"), SqlType("struct")

MAX_PRECISION = 38
_LEAST_SCALE = 6  # the scale that a result of more than 38 digits keeps at least (DecimalType.MINIMUM_ADJUSTED_SCALE)

# The integral types from narrow to wide: their bits, and the digits they have as a decimal.
INTEGRAL: Mapping[SqlType, tuple[int, int]] = {TINYINT: (8, 3), SMALLINT: (16, 5), INT: (32, 10), BIGINT: (64, 20)}
FRACTIONAL = frozenset((FLOAT, DOUBLE))
# Types whose values Python compares as Spark does: no NaN, no nesting, nothing implicit.
PLAIN = frozenset((TINYINT, SMALLINT, INT, BIGINT, STRING, BOOLEAN, DATE))

_SYNONYMS = {
    "integer": INT,
    "long": BIGINT,
    "short": SMALLINT,
    "byte": TINYINT,
    "real": FLOAT,
    "text": STRING,
    "varchar": STRING,
    "char": STRING,
    "bool": BOOLEAN,
    "dec": SqlType("decimal"),
    "numeric": SqlType("decimal"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DDL = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision, scale)


def decimal_of(ddl: str) -> tuple[int, int] | None:
    """Precision and scale, if the type is a decimal that says both."""
    match = _DECIMAL.fullmatch(ddl)
    return (int(match[1]), int(match[2])) if match else None


@lru_cache(maxsize=4096)
def parse_type(ddl: str) -> SqlType:
    match = _DDL.match(ddl)
    if match is None:
        return UNKNOWN
    kind = _SYNONYMS.get(match[1].lower(), SqlType(match[1].lower()))
    return decimal(int(match[2] or 10), int(match[3] or 0)) if kind.kind == "decimal" else kind


def between_commas(text: str) -> list[str]:
    """The parts of a list whose commas are in no brackets: `a:int,b:decimal(3,2)`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def type_of(value: Value) -> SqlType:
    """The type that a value alone suggests."""
    if isinstance(value, Decimal):
        return decimal_literal(value)
    return _PYTHON_TYPES.get(type(value), UNKNOWN)


_PYTHON_TYPES: Mapping[type, SqlType] = {
    type(None): VOID,
    bool: BOOLEAN,
    int: BIGINT,
    float: DOUBLE,
    str: STRING,
    date: DATE,
}


def decimal_literal(value: Decimal) -> SqlType:
    _, digits, exponent = value.as_tuple()
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    return decimal(max(len(digits), scale), scale)


def literal_digits(value: str, kind: SqlType) -> int:
    """The digits of a whole constant, which decimal arithmetic takes as narrow as it is; 0 where its type alone decides."""
    return len(value.lstrip("-0")) or 1 if kind in (SMALLINT, INT, BIGINT) else 0


def as_decimal(kind: SqlType, digits: int = 0) -> SqlType:
    """An operand of decimal arithmetic; `digits` is set for an integer literal, which takes only those it needs."""
    if kind in INTEGRAL:
        return decimal(digits or INTEGRAL[kind][1], 0)
    return kind


def fit_decimal(precision: int, scale: int) -> SqlType:
    """The decimal type of a result. If it needs more than 38 digits, Spark keeps the integral part and reduces the scale, down
    to six."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    return decimal(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, _LEAST_SCALE)))


def bounded(precision: int, scale: int) -> SqlType:
    """The decimal type with at most 38 digits, before and after the point."""
    return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def _sum(p1: int, s1: int, p2: int, s2: int) -> SqlType:
    scale = max(s1, s2)
    return fit_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product(p1: int, s1: int, p2: int, s2: int) -> SqlType:
    return fit_decimal(p1 + p2 + 1, s1 + s2)


def _quotient(p1: int, s1: int, p2: int, s2: int) -> SqlType:
    scale = max(_LEAST_SCALE, s1 + p2 + 1)
    return fit_decimal(p1 - s1 + s2 + scale, scale)


def _remainder(p1: int, s1: int, p2: int, s2: int) -> SqlType:
    scale = max(s1, s2)
    return fit_decimal(min(p1 - s1, p2 - s2) + scale, scale)


_DECIMAL_RESULTS: Mapping[str, Callable[[int, int, int, int], SqlType]] = {
    "+": _sum,
    "-": _sum,
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    "div": lambda p1, s1, p2, s2: BIGINT,
}


def decimal_result(operator: str, left: SqlType, right: SqlType) -> SqlType:
    return _DECIMAL_RESULTS[operator](left.precision, left.scale, right.precision, right.scale)


def wider(left: SqlType, right: SqlType) -> SqlType:
    """The common type of two branches (CASE, COALESCE, GREATEST …)."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left in INTEGRAL and right in INTEGRAL:
        return max(left, right, key=lambda kind: INTEGRAL[kind][0])
    if not (numeric(left) and numeric(right)):
        return UNKNOWN
    if left in FRACTIONAL or right in FRACTIONAL:
        return DOUBLE
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    return bounded(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def widest(types: Iterable[SqlType]) -> SqlType:
    result = VOID
    for kind in types:
        result = wider(result, kind)
    return result


def numeric(kind: SqlType) -> bool:
    return kind in INTEGRAL or kind in FRACTIONAL or kind.kind == "decimal"
