"""Window functions over one partition. Rows that the ORDER BY does not tell apart stand in the total order of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from nabla.algebra.calls import Order, WindowCall
from nabla.algebra.reference.evaluator.aggregates import AGGREGATES, Aggregation
from nabla.algebra.reference.evaluator.calls import Function, aggregation_of, window_function
from nabla.algebra.reference.evaluator.compiler import compile_expression
from nabla.algebra.reference.evaluator.terms import Get, Layout
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Key, Row, Value, row_key, sorting_key

WindowFunction: TypeAlias = Callable[[Sequence[Row]], list[Value]]


class Partition(NamedTuple):
    """Rows in order; the peers of row i, which the order does not tell from it, are rows first[i] to last[i] - 1."""

    rows: list[Row]
    first: list[int]
    last: list[int]


def compile_window(call: WindowCall, layout: Layout) -> WindowFunction:
    """A function of the rows of a partition, in any order, that returns a value for each of them."""
    function = window_function(call.call.sql, layout, _KNOWN)
    column = _column(function, frame_of(call))
    arranged = _arranger(call.order, layout)

    def evaluate(rows: Sequence[Row]) -> list[Value]:
        places, partition = arranged(rows)
        values = column(partition)
        result: list[Value] = [None] * len(rows)
        for place, value in zip(places, values, strict=True):
            result[place] = value
        return result

    return evaluate


# The order


def sorted_places(rows: Sequence[Row], order: Sequence[Order], layout: Layout) -> tuple[list[int], list[list[Key]]]:
    """The positions of the rows in sorted order, and for each ORDER BY item the key of each row."""
    keys = []
    for item in order:
        get, key = compile_expression(item.expr.sql, layout).get, sorting_key(item.ascending, item.nulls_first)
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


def _column(function: Function, frame: Frame) -> Column:
    if function.name in _RANKINGS:
        rank = _RANKINGS[function.name]
        return lambda partition: rank(partition, function)
    if function.name in _POSITIONS:
        pick = _POSITIONS[function.name]
        return lambda partition: [_picked(partition.rows[a:b], function, pick) for a, b in frame(partition)]
    aggregate = aggregation_of(function)
    return lambda partition: _running(partition, frame, aggregate)


def _running(partition: Partition, frame: Frame, aggregate: Aggregation) -> list[Value]:
    known: dict[tuple[int, int], Value] = {}
    values = []
    for a, b in frame(partition):
        if (a, b) not in known:
            known[a, b] = aggregate((row, 1) for row in partition.rows[a:b])
        values.append(known[a, b])
    return values


def _picked(rows: list[Row], function: Function, pick: Callable[[list[Value], Function], Value]) -> Value:
    values = [function.arguments[0].get(row) for row in rows]
    if function.ignore_nulls:
        values = [value for value in values if value is not None]
    return pick(values, function)


def _nth(values: list[Value], function: Function) -> Value:
    n = function.argument(1, 1)
    return values[n - 1] if n <= len(values) else None


_POSITIONS: Mapping[str, Callable[[list[Value], Function], Value]] = {
    "first_value": lambda values, function: values[0] if values else None,
    "first": lambda values, function: values[0] if values else None,
    "last_value": lambda values, function: values[-1] if values else None,
    "last": lambda values, function: values[-1] if values else None,
    "nth_value": _nth,
}


def _row_number(partition: Partition, function: Function) -> list[Value]:
    return list(range(1, len(partition.rows) + 1))


def _rank(partition: Partition, function: Function) -> list[Value]:
    return [first + 1 for first in partition.first]


def _dense_rank(partition: Partition, function: Function) -> list[Value]:
    ranks: list[Value] = []
    for i, first in enumerate(partition.first):
        ranks.append((ranks[-1] if ranks else 0) + (first == i))
    return ranks


def _percent_rank(partition: Partition, function: Function) -> list[Value]:
    others = len(partition.rows) - 1
    return [first / others if others else 0.0 for first in partition.first]


def _cume_dist(partition: Partition, function: Function) -> list[Value]:
    return [last / len(partition.rows) for last in partition.last]


def _ntile(partition: Partition, function: Function) -> list[Value]:
    size, larger = divmod(len(partition.rows), function.argument(0, 1))
    boundary = larger * (size + 1)
    places = range(len(partition.rows))
    return [i // (size + 1) + 1 if i < boundary else larger + (i - boundary) // size + 1 for i in places]


def _shifted(direction: int) -> Callable[[Partition, Function], list[Value]]:
    def apply(partition: Partition, function: Function) -> list[Value]:
        if function.ignore_nulls:
            raise CannotEvaluate(f"{function.name} IGNORE NULLS")
        offset, rows = direction * function.argument(1, 1), partition.rows
        default: Get = function.arguments[2].get if len(function.arguments) > 2 else lambda row: None
        value = function.arguments[0].get
        inside = range(len(rows))
        return [value(rows[i + offset]) if i + offset in inside else default(rows[i]) for i in inside]

    return apply


_RANKINGS: Mapping[str, Callable[[Partition, Function], list[Value]]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _shifted(-1),
    "lead": _shifted(1),
}

_KNOWN = AGGREGATES | _RANKINGS.keys() | _POSITIONS.keys()

# The frame

Frame: TypeAlias = Callable[[Partition], Iterator[tuple[int, int]]]
Bound: TypeAlias = Callable[[Partition, int], int]

_BOUND = r"unbounded\s+preceding|unbounded\s+following|current\s+row|-?\d+\s+(?:preceding|following)"
_FRAME = re.compile(rf"\s*(rows|range)\s+(?:between\s+({_BOUND})\s+and\s+({_BOUND})|({_BOUND}))\s*", re.IGNORECASE)


def frame_of(call: WindowCall) -> Frame:
    """Without a frame: the rows up to the last peer where there is an order, and the whole partition elsewhere."""
    if not call.frame:
        end = "current row" if call.order else "unbounded following"
        return _between("range", "unbounded preceding", end)
    match = _FRAME.fullmatch(call.frame)
    if match is None:
        raise CannotEvaluate(f"the frame {call.frame}")
    return _between(match[1].lower(), match[2] or match[4], match[3] or "current row")


def _between(unit: str, lower: str, upper: str) -> Frame:
    start, end = _bound(unit, lower, is_end=False), _bound(unit, upper, is_end=True)

    def frame(partition: Partition) -> Iterator[tuple[int, int]]:
        size = len(partition.rows)
        for i in range(size):
            a, b = max(start(partition, i), 0), min(end(partition, i), size)
            yield a, max(a, b)

    return frame


def _bound(unit: str, text: str, is_end: bool) -> Bound:
    first, second = text.lower().split()
    if first == "unbounded":
        return (lambda partition, i: 0) if second == "preceding" else (lambda partition, i: len(partition.rows))
    if unit == "rows":
        offset = 0 if first == "current" else int(first) * (1 if second == "following" else -1)
        return lambda partition, i: i + offset + is_end
    if first != "current":
        raise CannotEvaluate(f"RANGE {text}")
    return (lambda partition, i: partition.last[i]) if is_end else (lambda partition, i: partition.first[i])
