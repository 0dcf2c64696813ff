"""What is known of functions without Spark: which ones aggregate, and the types of the usual expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from nabla.algebra.reference.evaluator import CannotEvaluate, Slot, Term, parse_type
from nabla.algebra.reference.evaluator.aggregates import AGGREGATES
from nabla.algebra.reference.evaluator.calls import names_of
from nabla.algebra.reference.evaluator.compiler import Scope, children, parse, shape_of
from nabla.algebra.reference.evaluator.terms import constant
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

TypeOf: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""The type of Spark SQL text over columns whose types are given; it may aggregate. Raises UnknownType where there is none, and
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

    def __call__(self, sql: str, columns: Mapping[str, str]) -> str:
        key = _question(sql, columns)
        if key not in self.known:
            self.known[key] = self.ask(sql, columns)
        return self.known[key]

    def to_json(self) -> list[tuple[str, dict[str, str], str]]:
        return [(sql, dict(columns), kind) for (sql, columns), kind in self.known.items()]


def _question(sql: str, columns: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return sql, tuple(sorted(columns.items()))


def plain_type_of(sql: str, columns: Mapping[str, str]) -> str:
    """The types of arithmetic, comparisons, literals, the usual functions and aggregates; the rest needs Spark."""
    layout = {name: Slot(0, parse_type(kind)) for name, kind in columns.items()}
    shape, names = shape_of(sql)
    if len(names) == 1 and shape == "`0`":
        return columns[names[0]]
    try:
        tree = parse(shape)
        function = next((n for n in names_of(tree) if n in AGGREGATES), None)
        if function in _ARRAYS:
            (argument,) = children(tree)
            return f"array<{_plain(argument, columns, names)}>"
        scope = _TypeScope(tuple(layout[name] for name in names))
        return _known(scope(tree).type, sql)
    except CannotEvaluate as error:
        raise UnknownType(str(error)) from None


def _plain(argument: exp.Expr, columns: Mapping[str, str], names: tuple[str, ...]) -> str:
    scope = _TypeScope(tuple(Slot(0, parse_type(columns[name])) for name in names))
    return _known(scope(argument).type, argument.sql("spark"))


def _known(kind: SqlType, sql: str) -> str:
    if kind == UNKNOWN or kind.kind in ("array", "struct"):
        raise UnknownType(f"the type of {sql}")
    return str(kind)


class _TypeScope(Scope):
    """Builds a term for its type alone: a call of an aggregate function is an operand of the type it returns."""

    def __call__(self, node: exp.Expr) -> Term:
        function = next((n for n in names_of(node) if n in AGGREGATES), None)
        if function is None:
            return super().__call__(node)
        arguments = [c for c in children(node) if not isinstance(c, exp.Star)]
        if arguments and isinstance(arguments[0], exp.Distinct):
            arguments = arguments[0].expressions
        kinds = [super(_TypeScope, self).__call__(a).type for a in arguments]
        return constant(None, _aggregate_type(function, kinds))


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
