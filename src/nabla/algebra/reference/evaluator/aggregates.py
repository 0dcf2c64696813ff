"""Aggregate functions over the rows of a group.

Where SQL leaves a choice (first, any_value, ties of min_by, the order of collect_list) the least value by the total
order is taken, so that a result is a function of the bag.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from nabla.algebra.reference.evaluator.arithmetic import EXACT, in_range, rounded
from nabla.algebra.reference.evaluator.terms import Get, Term
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Row, Value, order_key
from nabla.algebra.types import BIGINT, SqlType, bounded, type_of, widest

Weighted: TypeAlias = Iterable[tuple[Any, int]]
Aggregation: TypeAlias = Callable[[Weighted], Value]


class Inputs(NamedTuple):
    """What an aggregate function sees: the values of its arguments for each row, and the arguments' types."""

    rows: Sequence[Row]
    types: tuple[SqlType, ...]

    @property
    def values(self) -> list[Value]:
        """The values of the first argument that are not NULL."""
        return [row[0] for row in self.rows if row[0] is not None]

    @property
    def decimal(self) -> SqlType | None:
        """The type of the first argument, if it is a decimal; what the caller did not say, the values do."""
        kind = self.types[0]
        if kind.kind == "unknown":
            kind = widest(type_of(value) for value in self.values)
        return kind if kind.kind == "decimal" else None


Reduction: TypeAlias = Callable[[Inputs], Value]


def _count(inputs: Inputs) -> int:
    """Rows without a NULL among the arguments; count(*) has none."""
    return sum(None not in row for row in inputs.rows)


def _total(values: Iterable[Decimal]) -> Decimal:
    return reduce(EXACT.add, values, Decimal(0))


def _sum(inputs: Inputs) -> Value:
    values = inputs.values
    if not values:
        return None
    if kind := inputs.decimal:
        return rounded(_total(values), bounded(kind.precision + 10, kind.scale))
    # fsum does not depend on the order of the rows, which a bag does not have.
    return math.fsum(values) if isinstance(values[0], float) else in_range(sum(values), BIGINT)


def _average(inputs: Inputs) -> Value:
    values = inputs.values
    if not values:
        return None
    if kind := inputs.decimal:
        return rounded(EXACT.divide(_total(values), len(values)), bounded(kind.precision + 4, kind.scale + 4))
    return math.fsum(values) / len(values)


def _extreme(choose: Callable[..., Value]) -> Reduction:
    return lambda inputs: choose(inputs.values, key=order_key, default=None)


def _extreme_by(choose: Callable[..., Value]) -> Reduction:
    def apply(inputs: Inputs) -> Value:
        rows = [row for row in inputs.rows if row[1] is not None]
        if not rows:
            return None
        best = order_key(choose((row[1] for row in rows), key=order_key))
        return min((row[0] for row in rows if order_key(row[1]) == best), key=order_key)

    return apply


def _some_value(choose: Callable[..., Value]) -> Reduction:
    def apply(inputs: Inputs) -> Value:
        ignore_nulls = any(len(row) > 1 and row[1] is True for row in inputs.rows)
        values = inputs.values if ignore_nulls else [row[0] for row in inputs.rows]
        return choose(values, key=order_key, default=None)

    return apply


def _of_truths(decide: Callable[[Iterable[Value]], bool]) -> Reduction:
    return lambda inputs: decide(values) if (values := inputs.values) else None


def _bitwise(combine: Callable[[int, int], int]) -> Reduction:
    return lambda inputs: reduce(combine, values) if (values := inputs.values) else None


def _variance(missing: int, root: bool = False) -> Reduction:
    """`missing` degrees of freedom: one for a sample."""

    def apply(inputs: Inputs) -> Value:
        values = [float(value) for value in inputs.values]
        if len(values) <= missing:
            return None
        mean = math.fsum(values) / len(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - missing)
        return math.sqrt(variance) if root else variance

    return apply


def _collected(inputs: Inputs) -> Value:
    return tuple(sorted(inputs.values, key=order_key))


def _collected_set(inputs: Inputs) -> Value:
    return tuple(sorted(set(inputs.values), key=order_key))


def _distinct_values(inputs: Inputs) -> int:
    return len(set(inputs.values))


def _percentile(inputs: Inputs) -> Value:
    values = sorted(inputs.values, key=order_key)
    if not values:
        return None
    fraction = inputs.rows[0][1]
    if isinstance(fraction, tuple):
        return tuple(_interpolated(values, float(f)) for f in fraction)
    return _interpolated(values, float(fraction))


def _interpolated(values: list[Value], fraction: float) -> float:
    position = (len(values) - 1) * fraction
    low, high = values[math.floor(position)], values[math.ceil(position)]
    weight = position - math.floor(position)
    return float(low) if low == high else (1 - weight) * float(low) + weight * float(high)


def _median(inputs: Inputs) -> Value:
    values = sorted(inputs.values, key=order_key)
    return _interpolated(values, 0.5) if values else None


_REDUCTIONS: Mapping[str, Reduction] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extreme(min),
    "max": _extreme(max),
    "min_by": _extreme_by(min),
    "max_by": _extreme_by(max),
    "any_value": _some_value(min),
    "first": _some_value(min),
    "first_value": _some_value(min),
    "last": _some_value(max),
    "last_value": _some_value(max),
    "count_if": lambda inputs: sum(row[0] is True for row in inputs.rows),
    "bool_and": _of_truths(all),
    "every": _of_truths(all),
    "bool_or": _of_truths(any),
    "some": _of_truths(any),
    "any": _of_truths(any),
    "bit_and": _bitwise(lambda x, y: x & y),
    "bit_or": _bitwise(lambda x, y: x | y),
    "bit_xor": _bitwise(lambda x, y: x ^ y),
    "var_pop": _variance(0),
    "var_samp": _variance(1),
    "variance": _variance(1),
    "stddev_pop": _variance(0, root=True),
    "stddev_samp": _variance(1, root=True),
    "stddev": _variance(1, root=True),
    "std": _variance(1, root=True),
    "collect_list": _collected,
    "array_agg": _collected,
    "collect_set": _collected_set,
    "approx_count_distinct": _distinct_values,
    "percentile": _percentile,
    "percentile_cont": _percentile,
    "median": _median,
}

AGGREGATES = frozenset(_REDUCTIONS)


def aggregation(function: str, arguments: tuple[Term, ...], distinct: bool, condition: Get | None) -> Aggregation:
    if function not in _REDUCTIONS:
        raise CannotEvaluate(f"the aggregate function {function}")
    reduction, types = _REDUCTIONS[function], tuple(term.type for term in arguments)
    gets = [term.get for term in arguments]

    def aggregate(rows: Weighted) -> Value:
        inputs: list[Row] = []
        for row, copies in rows:
            if condition is None or condition(row):
                inputs.extend([tuple([get(row) for get in gets])] * copies)
        return reduction(Inputs(list(dict.fromkeys(inputs)) if distinct else inputs, types))

    return aggregate
