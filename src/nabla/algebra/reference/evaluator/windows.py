"""Window functions over one partition. Rows that the ORDER BY does not tell apart stand in the total order of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from nabla.algebra.calls import CURRENT_ROW, UNBOUNDED_FOLLOWING, UNBOUNDED_PRECEDING, Bound, Frame, Order, WindowCall
from nabla.algebra.expressions import Literal
from nabla.algebra.reference.evaluator.aggregates import Aggregation
from nabla.algebra.reference.evaluator.calls import CompiledCall, compile_call
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.compiler import compile_expression
from nabla.algebra.reference.evaluator.terms import Get, Layout
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Key, Row, Value, row_key, sorting_key
from nabla.algebra.types import parse_type

WindowFunction: TypeAlias = Callable[[Sequence[Row]], list[Value]]


class Partition(NamedTuple):
    """Rows in order; the peers of row i, which the order does not tell from it, are rows first[i] to last[i] - 1."""

    rows: list[Row]
    first: list[int]
    last: list[int]


def compile_window(call: WindowCall, layout: Layout) -> WindowFunction:
    """A function of the rows of a partition, in any order, that returns a value for each of them."""
    column = _column(compile_call(call.call, layout), _extents(call))
    arranged = _arranger(call.order, layout)
    to_type = cast_to(parse_type(call.column.type)) if call.call.cast else None

    def evaluate(rows: Sequence[Row]) -> list[Value]:
        places, partition = arranged(rows)
        values = column(partition)
        result: list[Value] = [None] * len(rows)
        for place, value in zip(places, values, strict=True):
            result[place] = to_type(value) if to_type else value
        return result

    return evaluate


# The order


def sorted_places(rows: Sequence[Row], order: Sequence[Order], layout: Layout) -> tuple[list[int], list[list[Key]]]:
    """The positions of the rows in sorted order, and for each ORDER BY item the key of each row."""
    keys = []
    for item in order:
        get, key = compile_expression(item.expr, layout).get, sorting_key(item.ascending, item.nulls_first)
        keys.append([key(get(row)) for row in rows])
    places = sorted(range(len(rows)), key=lambda place: row_key(rows[place]))
    # Sorting is stable: the last item first, the first item decides.
    for item, values in zip(reversed(order), reversed(keys), strict=True):
        places.sort(key=values.__getitem__, reverse=not item.ascending)
    return places, keys


def _arranger(order: tuple[Order, ...], layout: Layout) -> Callable[[Sequence[Row]], tuple[list[int], Partition]]:
    def arranged(rows: Sequence[Row]) -> tuple[list[int], Partition]:
        places, keys = sorted_places(rows, order, layout)
        first: list[int] = []
        for i, place in enumerate(places):
            is_peer = i > 0 and all(key[place] == key[places[i - 1]] for key in keys)
            first.append(first[-1] if is_peer else i)
        last = [len(places)] * len(places)
        for i in range(len(places) - 2, -1, -1):
            last[i] = last[i + 1] if first[i + 1] == first[i] else i + 1
        return places, Partition([rows[place] for place in places], first, last)

    return arranged


# The column

Column: TypeAlias = Callable[[Partition], list[Value]]


def _column(function: CompiledCall, extents: Extents) -> Column:
    if function.name in _RANKINGS:
        rank = _RANKINGS[function.name]
        return lambda partition: rank(partition, function)
    if function.name in _POSITIONS:
        pick = _POSITIONS[function.name]
        return lambda partition: [_picked(partition.rows[a:b], function, pick) for a, b in extents(partition)]
    aggregate = function.aggregation
    return lambda partition: _running(partition, extents, aggregate)


def _running(partition: Partition, extents: Extents, aggregate: Aggregation) -> list[Value]:
    known: dict[tuple[int, int], Value] = {}
    values = []
    for a, b in extents(partition):
        if (a, b) not in known:
            known[a, b] = aggregate((row, 1) for row in partition.rows[a:b])
        values.append(known[a, b])
    return values


def _picked(rows: list[Row], function: CompiledCall, pick: Callable[[list[Value], CompiledCall], Value]) -> Value:
    values = [function.arguments[0].get(row) for row in rows]
    if function.ignore_nulls:
        values = [value for value in values if value is not None]
    return pick(values, function)


def _nth(values: list[Value], function: CompiledCall) -> Value:
    n = function.argument(1, 1)
    return values[n - 1] if n <= len(values) else None


_POSITIONS: Mapping[str, Callable[[list[Value], CompiledCall], Value]] = {
    "first_value": lambda values, function: values[0] if values else None,
    "first": lambda values, function: values[0] if values else None,
    "last_value": lambda values, function: values[-1] if values else None,
    "last": lambda values, function: values[-1] if values else None,
    "nth_value": _nth,
}


def _row_number(partition: Partition, function: CompiledCall) -> list[Value]:
    return list(range(1, len(partition.rows) + 1))


def _rank(partition: Partition, function: CompiledCall) -> list[Value]:
    return [first + 1 for first in partition.first]


def _dense_rank(partition: Partition, function: CompiledCall) -> list[Value]:
    ranks: list[Value] = []
    for i, first in enumerate(partition.first):
        ranks.append((ranks[-1] if ranks else 0) + (first == i))
    return ranks


def _percent_rank(partition: Partition, function: CompiledCall) -> list[Value]:
    others = len(partition.rows) - 1
    return [first / others if others else 0.0 for first in partition.first]


def _cume_dist(partition: Partition, function: CompiledCall) -> list[Value]:
    return [last / len(partition.rows) for last in partition.last]


def _ntile(partition: Partition, function: CompiledCall) -> list[Value]:
    size, larger = divmod(len(partition.rows), function.argument(0, 1))
    boundary = larger * (size + 1)
    places = range(len(partition.rows))
    return [i // (size + 1) + 1 if i < boundary else larger + (i - boundary) // size + 1 for i in places]


def _shifted(direction: int) -> Callable[[Partition, CompiledCall], list[Value]]:
    def apply(partition: Partition, function: CompiledCall) -> list[Value]:
        if function.ignore_nulls:
            raise CannotEvaluate(f"{function.name} IGNORE NULLS")
        offset, rows = direction * function.argument(1, 1), partition.rows
        default: Get = function.arguments[2].get if len(function.arguments) > 2 else lambda row: None
        value = function.arguments[0].get
        inside = range(len(rows))
        return [value(rows[i + offset]) if i + offset in inside else default(rows[i]) for i in inside]

    return apply


_RANKINGS: Mapping[str, Callable[[Partition, CompiledCall], list[Value]]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _shifted(-1),
    "lead": _shifted(1),
}

# The frame

Extents: TypeAlias = Callable[[Partition], Iterator[tuple[int, int]]]
"""For each row of a partition, the place where its frame starts and the one before which it ends."""
Edge: TypeAlias = Callable[[Partition, int], int]


def _extents(call: WindowCall) -> Extents:
    frame = call.frame or _default_frame(call)
    start, end = _edge(frame.unit, frame.lower, is_end=False), _edge(frame.unit, frame.upper, is_end=True)

    def extents(partition: Partition) -> Iterator[tuple[int, int]]:
        size = len(partition.rows)
        for i in range(size):
            a, b = max(start(partition, i), 0), min(end(partition, i), size)
            yield a, max(a, b)

    return extents


def _default_frame(call: WindowCall) -> Frame:
    """The rows up to the last peer where there is an order, and the whole partition elsewhere."""
    return Frame("range", UNBOUNDED_PRECEDING, CURRENT_ROW if call.order else UNBOUNDED_FOLLOWING)


def _edge(unit: str, bound: Bound, is_end: bool) -> Edge:
    if bound == UNBOUNDED_PRECEDING:
        return lambda partition, i: 0
    if bound == UNBOUNDED_FOLLOWING:
        return lambda partition, i: len(partition.rows)
    if unit == "rows":
        offset = _rows_away(bound)
        return lambda partition, i: i + offset + is_end
    if bound != CURRENT_ROW:
        raise CannotEvaluate(f"RANGE {bound}")
    return (lambda partition, i: partition.last[i]) if is_end else (lambda partition, i: partition.first[i])


def _rows_away(bound: Bound) -> int:
    if bound == CURRENT_ROW:
        return 0
    if not isinstance(bound.distance, Literal) or bound.distance.value is None:
        raise CannotEvaluate(f"ROWS {bound}")
    return int(bound.distance.value) * (1 if bound.side == "following" else -1)
