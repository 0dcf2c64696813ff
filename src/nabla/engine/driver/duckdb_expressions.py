"""Expressions as DuckDB SQL: those that DuckDB computes exactly as Spark does, whatever the values are.

A function or type stands here only if both engines give the same value for every input, or DuckDB raises an error where
Spark would too: then Spark is asked, and reports it in its own words. Everything else raises `NotExact`.
`tests/engine/test_duckdb_expressions.py` compares each of them with Spark, extremes and NULLs included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nabla.algebra.expressions import Apply, Expr, Literal, Ref
from nabla.algebra.types import BIGINT, INTEGRAL, MAX_PRECISION, SqlType, as_decimal, parse_type
from nabla.engine.driver.duckdb_types import DAY, FLOATING, NUMBER, NotExact, quote, spell_literal, spell_type

_INTERVAL = re.compile(r"INTERVAL '(-?\d+)' (YEAR|MONTH)", re.IGNORECASE)
_NEGATED_DIGITS = 34


def spell(expr: Expr) -> str:
    """The expression as DuckDB SQL, closed: it can stand anywhere without parentheses around it."""
    spell_type(expr.type)
    match expr:
        case Ref():
            return quote(expr.name)
        case Literal():
            return spell_literal(expr)
        case Apply() if expr.function in _FUNCTIONS:
            return _FUNCTIONS[expr.function](expr)
    raise NotExact(f"{expr}")


def convert(text: str, source: str, target: str) -> str:
    """A value of one type as one of another, where no value is lost."""
    if source == target:
        return text
    one, other = parse_type(source), parse_type(target)
    if source == "void" or _widens(one, other):
        return f"CAST({text} AS {spell_type(target)})"
    raise NotExact(f"{source} as {target}")


def _widens(one: SqlType, other: SqlType) -> bool:
    if one in INTEGRAL and other in INTEGRAL:
        return INTEGRAL[one] <= INTEGRAL[other]
    narrow = as_decimal(one)
    if narrow.kind != "decimal" or other.kind != "decimal":
        return False
    return narrow.scale <= other.scale and narrow.precision - narrow.scale <= other.precision - other.scale


def _arguments(e: Apply) -> list[str]:
    return [spell(argument) for argument in e.arguments]


def _comparison(sign: str) -> Callable[[Apply], str]:
    def write(e: Apply) -> str:
        _check_comparable(e)
        left, right = _arguments(e)
        return f"({left} {sign} {right})"

    return write


def _check_comparable(e: Apply) -> None:
    """All values are of one type, or numbers that have a common type without rounding: nothing is read as something else."""
    kinds = {a.type for a in e.arguments} - {"void"}
    if len(kinds) < 2:
        return
    decimals = [as_decimal(parse_type(kind)) for kind in kinds]
    digits = max(d.precision - d.scale for d in decimals) + max(d.scale for d in decimals)
    if any(d.kind != "decimal" for d in decimals) or digits > MAX_PRECISION:
        raise NotExact(f"{e} compares values of different types")


def _in(e: Apply) -> str:
    _check_comparable(e)
    value, *others = _arguments(e)
    return f"({value} IN ({', '.join(others)}))"


def _infix(sign: str) -> Callable[[Apply], str]:
    return lambda e: "(" + f" {sign} ".join(_arguments(e)) + ")"


def _postfix(words: str) -> Callable[[Apply], str]:
    return lambda e: f"({_arguments(e)[0]} {words})"


def _case(e: Apply) -> str:
    pairs = list(zip(e.arguments[::2], e.arguments[1::2], strict=False))
    branches = [f"WHEN {spell(condition)} THEN {_as_result(value, e)}" for condition, value in pairs]
    otherwise = [f"ELSE {_as_result(e.arguments[-1], e)}"] if len(e.arguments) % 2 else []
    return f"CASE {' '.join(branches + otherwise)} END"


def _as_result(value: Expr, e: Apply) -> str:
    return convert(spell(value), value.type, e.type)


def _choice(function: str) -> Callable[[Apply], str]:
    """One of the arguments. Of 0.0 and -0.0 either engine may take either."""

    def write(e: Apply) -> str:
        if function != "coalesce" and e.type in FLOATING:
            raise NotExact(f"{e}")
        return f"{function}({', '.join(_as_result(a, e) for a in e.arguments)})"

    return write


def _arithmetic(sign: str) -> Callable[[Apply], str]:
    """Whole numbers of one type overflow as Spark's do. With a constant they are computed in a wider type, and the result must
    fit: DuckDB would make x > 2 of x + 1 > 3, and never see the overflow. Decimals are exact where the result keeps all digits
    of the scale; one that does not fit its type raises."""

    def write(e: Apply) -> str:
        kind = parse_type(e.type)
        left, right = _arguments(e)
        if kind in INTEGRAL:
            left, right = _whole_numbers(e)
            if any(isinstance(a, Literal) for a in e.arguments):
                return _checked(f"{_wide(left, kind)} {sign} {_wide(right, kind)}", e)
            return f"({left} {sign} {right})"
        if kind.kind != "decimal":
            if any(a.type != e.type for a in e.arguments) or e.type not in FLOATING:
                raise NotExact(f"{e}")
            return f"({left} {sign} {right})"
        one, other = (as_decimal(parse_type(a.type)) for a in e.arguments)
        scale = one.scale + other.scale if sign == "*" else max(one.scale, other.scale)
        if one.kind != "decimal" or other.kind != "decimal" or kind.scale != scale:
            raise NotExact(f"{e} rounds")
        if sign != "*":
            left, right = (f"CAST({text} AS {spell_type(e.type)})" for text in (left, right))
        else:
            left, right = (
                f"CAST({text} AS {spell_type(str(k))})" for text, k in zip((left, right), (one, other), strict=True)
            )
        return f"CAST({left} {sign} {right} AS {spell_type(e.type)})"

    return write


def _whole_numbers(e: Apply) -> list[str]:
    """Arguments that are whole numbers, in the type of the result: Spark takes the wider of two types, too."""
    if any(parse_type(a.type) not in INTEGRAL for a in e.arguments):
        raise NotExact(f"{e}")
    return [_as_result(a, e) for a in e.arguments]


def _wide(text: str, kind: SqlType) -> str:
    return f"CAST({text} AS {'HUGEINT' if kind == BIGINT else 'BIGINT'})"


def _checked(text: str, e: Apply) -> str:
    """A value in a wider type as one of the type of an expression; one that does not fit raises."""
    return f"CAST(({text}) AS {spell_type(e.type)})"


def _divide(e: Apply) -> str:
    """Decimals are divided as whole numbers and rounded half up, as Spark does; a number too large for that raises."""
    left, right = _arguments(e)
    kind = parse_type(e.type)
    if e.type == "double" and all(a.type == "double" for a in e.arguments):
        return f"CASE WHEN {right} = 0 THEN error('division by zero') ELSE {left} / {right} END"
    one, other = (as_decimal(parse_type(a.type)) for a in e.arguments)
    places = kind.scale + other.scale - one.scale
    if {one.kind, other.kind, kind.kind} != {"decimal"} or places < 0:
        raise NotExact(f"{e}")
    numerator = f"({_unscaled(left, one.scale)} * CAST('1{'0' * places}' AS HUGEINT))"
    denominator = _unscaled(right, other.scale)
    quotient = f"CAST(nabla_quotient({numerator}, {denominator}) AS DECIMAL(38, 0))"
    unit = (
        f"CAST('{'0.' + '0' * (kind.scale - 1) if kind.scale else ''}1' AS DECIMAL({max(kind.scale, 1)}, {kind.scale}))"
    )
    return f"CAST({quotient} * {unit} AS {spell_type(e.type)})"


def _unscaled(text: str, scale: int) -> str:
    """A decimal without its point."""
    if not scale:
        return f"CAST({text} AS HUGEINT)"
    return f"CAST(CAST({text} AS DECIMAL(38, {scale})) * CAST('1{'0' * scale}' AS DECIMAL(38, 0)) AS HUGEINT)"


MACROS = (
    "CREATE MACRO nabla_quotient(n, d) AS CASE WHEN d = 0 THEN error('division by zero') ELSE n // d + "
    "CASE WHEN 2 * abs(n % d) >= abs(d) THEN CASE WHEN (n < 0) = (d < 0) THEN 1 ELSE -1 END ELSE 0 END END",
)
"""A quotient of whole numbers, rounded half up (away from zero)."""


def _remainder(e: Apply) -> str:
    if parse_type(e.type) not in INTEGRAL:
        raise NotExact(f"{e}")
    left, right = _whole_numbers(e)
    return f"CASE WHEN {right} = 0 THEN error('division by zero') ELSE {left} % {right} END"


def _minus(e: Apply) -> str:
    """Spark negates a decimal by Java's BigDecimal, which rounds to 34 digits."""
    if parse_type(e.type).precision > _NEGATED_DIGITS:
        raise NotExact(f"{e}")
    (text,) = _arguments(e)
    if e.type in FLOATING:
        return f"(-{text})"
    if (kind := parse_type(e.type)) in INTEGRAL:
        return _checked(f"-{_wide(text, kind)}", e)
    return f"CAST(-{text} AS {spell_type(e.type)})"


def _abs(e: Apply) -> str:
    """The least whole number has no absolute value in its type: both engines raise. Spark rounds decimals as for a minus."""
    kind = parse_type(e.type)
    exact = kind.precision <= _NEGATED_DIGITS if kind.kind == "decimal" else kind in INTEGRAL or e.type in FLOATING
    if not exact:
        raise NotExact(f"{e}")
    return f"CAST(abs({_arguments(e)[0]}) AS {spell_type(e.type)})"


def _cast(word: str) -> Callable[[Apply], str]:
    """Casts that lose nothing but digits behind the point, or raise (or give NULL, as TRY_CAST does) in both engines."""

    def write(e: Apply) -> str:
        (value,) = e.arguments
        text, source, target = spell(value), parse_type(value.type), parse_type(e.type)
        if value.type == e.type:
            return text
        if e.type == "double" and source.kind == "decimal" and isinstance(value, Literal) and value.value is not None:
            return spell_literal(Literal(value.value, "double"))  # Spark rounds to the nearest double; DuckDB divides
        decimals = as_decimal(source).kind == "decimal"
        if source.kind == "decimal" and target in INTEGRAL:
            text = f"trunc({text})"
        exact = (
            value.type == "void"
            or (decimals and (target in INTEGRAL or target.kind == "decimal"))
            or (source in INTEGRAL and e.type in ("double", "string"))
            or (value.type == "boolean" and (target in INTEGRAL or e.type == "string"))
            or (isinstance(value, Literal) and _reads_whole(value, e.type))
        )
        if not exact:
            raise NotExact(f"{e} depends on how a value is written")
        return f"{word}({text} AS {spell_type(e.type)})"

    return write


def _reads_whole(literal: Literal, target: str) -> bool:
    """Whether a text is a day, or a number of no more digits behind the point than its type keeps."""
    if literal.type != "string" or literal.value is None:
        return False
    if target == "date":
        return DAY.fullmatch(literal.value) is not None
    number, kind = NUMBER.fullmatch(literal.value), parse_type(target)
    return number is not None and kind.kind == "decimal" and len(number[1] or "") <= kind.scale


def _date_part(function: str, more: str = "") -> Callable[[Apply], str]:
    def write(e: Apply) -> str:
        if e.arguments[0].type != "date":
            raise NotExact(f"{e} depends on the time zone")
        return f"CAST({function}({_arguments(e)[0]}){more} AS INTEGER)"

    return write


def _move_days(sign: str) -> Callable[[Apply], str]:
    def write(e: Apply) -> str:
        day, days = e.arguments
        if day.type != "date" or parse_type(days.type) not in INTEGRAL or parse_type(days.type) == BIGINT:
            raise NotExact(f"{e}")
        return f"({spell(day)} {sign} CAST({spell(days)} AS INTEGER))"

    return write


def _move_months(e: Apply) -> str:
    day, months = e.arguments
    interval = _INTERVAL.fullmatch(months.value or "") if isinstance(months, Literal) else None
    if day.type != "date" or interval is None:
        raise NotExact(f"{e}")
    count = int(interval[1]) * (12 if interval[2].upper() == "YEAR" else 1)
    return f"CAST({spell(day)} + to_months({count}) AS DATE)"


def _days_between(e: Apply) -> str:
    if any(a.type != "date" for a in e.arguments):
        raise NotExact(f"{e}")
    return f"CAST({_arguments(e)[0]} - {_arguments(e)[1]} AS INTEGER)"


def _like(e: Apply) -> str:
    value, pattern, *escape = e.arguments
    if not isinstance(pattern, Literal) or "\\" in (pattern.value or "") or escape or value.type != "string":
        raise NotExact(f"{e} has a pattern of its own kind")
    return f"({spell(value)} LIKE {spell(pattern)})"


def _substring(e: Apply) -> str:
    """Both engines count places from one, but they disagree about zero and negative places."""
    value, *places = e.arguments
    if value.type != "string" or not all(isinstance(n, Literal) and int(n.value or 0) > 0 for n in places):
        raise NotExact(f"{e}")
    return f"substring({', '.join(_arguments(e))})"


def _text(template: str) -> Callable[[Apply], str]:
    """A function of texts in UTF-8 that reads no locale and no collation."""

    def write(e: Apply) -> str:
        if any(a.type != "string" for a in e.arguments):
            raise NotExact(f"{e}")
        return template.format(*_arguments(e))

    return write


def _concat(e: Apply) -> str:
    if len(e.arguments) < 2 or any(a.type != "string" for a in e.arguments):
        raise NotExact(f"{e}")
    return _infix("||")(e)


def _trim(function: str) -> Callable[[Apply], str]:
    def write(e: Apply) -> str:
        if len(e.arguments) > 1 or e.arguments[0].type != "string":
            raise NotExact(f"{e}")
        return f"{function}({_arguments(e)[0]}, ' ')"

    return write


_FUNCTIONS: Mapping[str, Callable[[Apply], str]] = {
    "EqualTo": _comparison("="),
    "EqualNullSafe": _comparison("IS NOT DISTINCT FROM"),
    "LessThan": _comparison("<"),
    "LessThanOrEqual": _comparison("<="),
    "GreaterThan": _comparison(">"),
    "GreaterThanOrEqual": _comparison(">="),
    "And": _infix("AND"),
    "Or": _infix("OR"),
    "Not": lambda e: f"(NOT {_arguments(e)[0]})",
    "IsNull": _postfix("IS NULL"),
    "IsNotNull": _postfix("IS NOT NULL"),
    "In": _in,
    "CaseWhen": _case,
    "Coalesce": _choice("coalesce"),
    "Greatest": _choice("greatest"),
    "Least": _choice("least"),
    "Add": _arithmetic("+"),
    "Subtract": _arithmetic("-"),
    "Multiply": _arithmetic("*"),
    "Divide": _divide,
    "Remainder": _remainder,
    "UnaryMinus": _minus,
    "Abs": _abs,
    "Cast": _cast("CAST"),
    "TryCast": _cast("TRY_CAST"),
    "Year": _date_part("year"),
    "Quarter": _date_part("quarter"),
    "Month": _date_part("month"),
    "DayOfMonth": _date_part("day"),
    "DayOfYear": _date_part("dayofyear"),
    "DayOfWeek": _date_part("dayofweek", " + 1"),
    "DateAdd": _move_days("+"),
    "DateSub": _move_days("-"),
    "DateDiff": _days_between,
    "DateAddYMInterval": _move_months,
    "Like": _like,
    "Substring": _substring,
    "Length": _text("CAST(length({0}) AS INTEGER)"),
    "StartsWith": _text("starts_with({0}, {1})"),
    "EndsWith": _text("ends_with({0}, {1})"),
    "Contains": _text("contains({0}, {1})"),
    "Concat": _concat,
    "StringTrim": _trim("trim"),
    "StringTrimLeft": _trim("ltrim"),
    "StringTrimRight": _trim("rtrim"),
}

EXACT_FUNCTIONS = frozenset(_FUNCTIONS)
