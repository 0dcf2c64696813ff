"""The rows of a view, of its feed and of its query, as bags of plain values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabla.engine.feed import FEED_COLUMNS
from nabla.lake.facade import Lake
from nabla.storage import reading

Bag = Counter[tuple[Any, ...]]
_DIGITS = 9
_NOTHING = 1e-9
"""The variance of equal numbers may come out a little above zero; up to this bound it counts as zero."""
_SHOWN = 5


def rounded(rows: Iterable[tuple[Any, ...]]) -> Bag:
    """Rows as a bag, with floating point numbers rounded to nine digits: the last digits depend on the order of summation."""
    return Counter(tuple(_plain(value, _DIGITS) for value in row) for row in rows)


def exact(rows: Iterable[tuple[Any, ...]]) -> Bag:
    return Counter(tuple(_plain(value, 17) for value in row) for row in rows)


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        if digits == _DIGITS and abs(value) < _NOTHING:
            return 0.0
        return "NaN" if math.isnan(value) else float(f"{value:.{digits}g}") + 0.0
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return tuple(_plain(v, digits) for v in value.values())
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map, which has no order
        return tuple(sorted((_plain(v, digits) for v in value), key=repr))
    if isinstance(value, list | tuple):
        return tuple(_plain(v, digits) for v in value)
    return value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*map(_values, table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values as Python has them; dates beyond the years that it knows as texts."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(pa.string()).to_pylist()


def stored(lake: Lake, view: str) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a view, read from its files without Spark, and its version."""
    part = lake.context.log.state().entries[view].parts["data"]
    return rows_of(reading.read(lake.context.log.snapshot(part))), part.version


def feed(lake: Lake, view: str, since: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(inserted, deleted) rows of the refreshes after a version."""
    part = lake.context.log.state().entries[view].parts["feed"]
    table = reading.read(lake.context.log.snapshot(part))
    kind, version, _ = (table.column(name) for name in table.column_names[-len(FEED_COLUMNS) :])
    columns = table.select(table.column_names[: -len(FEED_COLUMNS)])
    recent = pc.greater(version, since)
    inserted, deleted = (
        columns.filter(pc.and_(recent, pc.equal(kind, word))) if len(table) else columns
        for word in ("insert", "delete")
    )
    return rows_of(inserted), rows_of(deleted)


@dataclass(frozen=True)
class Contents:
    """The stored rows of a view at a version."""

    rows: list[tuple[Any, ...]]
    version: int


def wrong_content(found: Iterable[tuple[Any, ...]], expected: Iterable[tuple[Any, ...]]) -> str | None:
    has, wanted = rounded(found), rounded(expected)
    if has == wanted:
        return None
    return f"the view is not its query: too many {_shown(has - wanted)}, missing {_shown(wanted - has)}"


def wrong_feed(lake: Lake, view: str, before: Contents, after: Contents, counts: tuple[int, int]) -> str | None:
    """The fault of a feed that is not the minimal change from before to after, or that the report counts wrongly."""
    inserted, deleted = feed(lake, view, before.version)
    if both := exact(inserted) & exact(deleted):
        return f"the feed is not minimal: inserted and deleted {_shown(both)}"
    if (len(inserted), len(deleted)) != counts:
        return f"the report counts {counts} rows, the feed has {(len(inserted), len(deleted))}"
    said, moved = rounded(inserted), rounded(after.rows)
    said.subtract(rounded(deleted))
    moved.subtract(rounded(before.rows))
    if {row: n for row, n in said.items() if n} != {row: n for row, n in moved.items() if n}:
        return f"the feed is not the change: {_signed(said)} instead of {_signed(moved)}"
    return None


def _signed(change: Bag) -> str:
    return f"inserts {_shown(+change)} and deletes {_shown(-change)}"


def _shown(bag: Bag) -> str:
    some = dict(list(bag.items())[:_SHOWN])
    return f"{some}{' and more' if len(bag) > _SHOWN else ''}" if bag else "none"
