"""Functions without Spark: the names of aggregate functions, and the types of the usual expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from nabla.algebra.expressions import Expr, Foreign, Ref
from nabla.algebra.reference.evaluator.aggregates import AGGREGATES
from nabla.algebra.types import FRACTIONAL, INTEGRAL, bounded, parse_type
from nabla.frontends.datalog.terms import Apply, Term, Variable, sql_of, walk
from nabla.frontends.datalog.trees import tree_of

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
    """Only Spark knows the type of an expression."""


class Changeable(Exception):
    """The value of an expression can change although no fact does."""


class KnownTypes:
    """Remembers the types of expressions, because Spark takes milliseconds to give one. They are stored with a program, so
    that a later process need not ask Spark."""

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
    """The type of a term of arithmetic, comparisons, literals, usual functions and aggregates. Raises UnknownType for other
    functions, whose types only Spark knows."""
    values: dict[Term, Expr] = {Variable(name): Ref(name, kind) for name, kind in columns.items()}
    for part in walk(term):
        if isinstance(part, Apply) and part.function in AGGREGATES:
            kinds = [plain_type_of(argument, columns) for argument in part.arguments]
            values[part] = Ref(str(part), _aggregate_type(part.function, kinds))
    tree = tree_of(term, values)
    if not tree.type or any(isinstance(part, Foreign) for part in tree.walk()):
        raise UnknownType(f"the type of {term}")
    return tree.type


def _aggregate_type(function: str, kinds: list[str]) -> str:
    if function in _COUNTS:
        return "bigint"
    if function in _FLAGS:
        return "boolean"
    first = kinds[0] if kinds else ""
    if function in _SAME or function in _BITS:
        return first
    if function in _ARRAYS:
        return f"array<{first}>"
    kind = parse_type(first)
    if function == "sum":
        if kind.kind == "decimal":
            return str(bounded(kind.precision + 10, kind.scale))
        return "bigint" if kind in INTEGRAL else "double" if kind in FRACTIONAL else ""
    if function in ("avg", "mean") and kind.kind == "decimal":
        return str(bounded(kind.precision + 4, kind.scale + 4))
    return "double"
