"""What is known of functions without Spark: which ones aggregate, and the types of the usual expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from nabla.algebra.reference.evaluator import CannotEvaluate, Slot, compile_expression, parse_type, read_expression
from nabla.algebra.reference.evaluator.aggregates import AGGREGATES
from nabla.algebra.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FRACTIONAL,
    INTEGRAL,
    UNKNOWN,
    SqlType,
    bounded,
)
from nabla.frontends.datalog.terms import Apply, Operation, Term, Variable, sql_of

TypeOf: TypeAlias = Callable[[Term, Mapping[str, str]], str]
"""The type of a term over variables whose types are given; it may aggregate. Raises UnknownType where there is none, and
Changeable where the value can be another one every time."""

_ONLY_IN_SPARK = """
    approx_percentile approx_top_k bitmap_construct_agg bitmap_or_agg corr count_min_sketch covar_pop covar_samp
    histogram_numeric hll_sketch_agg hll_union_agg kurtosis listagg mode percentile_approx percentile_disc regr_avgx
    regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_json_agg skewness
    string_agg try_avg try_sum
"""
AGGREGATE_FUNCTIONS = AGGREGATES.union(_ONLY_IN_SPARK.split())
ZERO_WHEN_EMPTY = frozenset(("count", "sum", "count_if", "approx_count_distinct"))
"""Aggregates that have a value where there is nothing to aggregate."""

_FLAGS = frozenset(("bool_and", "bool_or", "every", "some", "any"))
_SAME = frozenset(("min", "max", "min_by", "max_by", "any_value", "first", "first_value", "last", "last_value"))
_BITS = frozenset(("bit_and", "bit_or", "bit_xor"))
_COUNTS = frozenset(("count", "count_if", "approx_count_distinct"))
_ARRAYS = frozenset(("collect_list", "collect_set", "array_agg"))


class UnknownType(Exception):
    """The type of an expression cannot be told without Spark."""


class Changeable(Exception):
    """An expression whose value changes although no fact does."""


class KnownTypes:
    """Types of expressions, asked once each: Spark takes milliseconds to tell one. They can be stored with a program, so
    that whoever reads it again need not ask."""

    def __init__(self, ask: TypeOf, known: Iterable[tuple[str, Mapping[str, str], str]] = ()) -> None:
        self.ask = ask
        self.known = {_question(sql, columns): kind for sql, columns, kind in known}

    def __call__(self, term: Term, columns: Mapping[str, str]) -> str:
        key = _question(sql_of(term), columns)
        if key not in self.known:
            self.known[key] = self.ask(term, columns)
        return self.known[key]

    def to_json(self) -> list[tuple[str, dict[str, str], str]]:
        return [(sql, dict(columns), kind) for (sql, columns), kind in self.known.items()]


def _question(sql: str, columns: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return sql, tuple(sorted(columns.items()))


def plain_type_of(term: Term, columns: Mapping[str, str]) -> str:
    """The types of arithmetic, comparisons, literals, the usual functions and aggregates; the rest needs Spark."""
    if isinstance(term, Variable):
        return columns[term.name]
    if isinstance(term, Apply) and term.function in _ARRAYS:
        (argument,) = term.arguments
        return f"array<{plain_type_of(argument, columns)}>"
    try:
        kind = _type(term, {name: parse_type(kind) for name, kind in columns.items()})
    except CannotEvaluate as error:
        raise UnknownType(str(error)) from None
    if kind == UNKNOWN or kind.kind in ("array", "struct"):
        raise UnknownType(f"the type of {term}")
    return str(kind)


def _type(term: Term, types: Mapping[str, SqlType]) -> SqlType:
    """Calls of aggregate functions are variables of the types that they return."""
    results: dict[str, SqlType] = {}

    def around(part: Term) -> Term:
        match part:
            case Apply() if part.function in AGGREGATES:
                result = Variable(f"?{len(results)}")
                results[result.name] = _aggregate_type(part.function, [_type(a, types) for a in part.arguments])
                return result
            case Apply():
                return replace(part, arguments=tuple(map(around, part.arguments)))
            case Operation():
                return replace(part, operands=tuple(map(around, part.operands)))
        return part

    text, known = sql_of(around(term)), {**types, **results}
    expr = read_expression(text, {name: str(kind) for name, kind in known.items() if kind != UNKNOWN})
    return compile_expression(expr, {name: Slot(name, kind) for name, kind in known.items()}).type


def _aggregate_type(function: str, kinds: list[SqlType]) -> SqlType:
    if function in _COUNTS:
        return BIGINT
    if function in _FLAGS:
        return BOOLEAN
    first = kinds[0] if kinds else UNKNOWN
    if function in _SAME or function in _BITS:
        return first
    if function == "sum":
        if first.kind == "decimal":
            return bounded(first.precision + 10, first.scale)
        return BIGINT if first in INTEGRAL else DOUBLE if first in FRACTIONAL else UNKNOWN
    if function in ("avg", "mean") and first.kind == "decimal":
        return bounded(first.precision + 4, first.scale + 4)
    return DOUBLE
