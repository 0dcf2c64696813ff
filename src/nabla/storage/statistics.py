"""Statistics of a file's columns from Parquet footers or the Delta log: bounds and NULL counts.

Everything here is *sound*: a value of the file is never below its minimum or above its maximum. Where a writer rounds
the wrong way or leaves something out, the bound is widened or dropped. NaN is greater than every number, as in Spark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

Value = int | float | str | date | datetime | Decimal

_LONGEST_TEXT = 32
_COLUMNS = 32  # as many as Delta's writers describe by default: a table of hundreds of columns keeps a readable log
_EXACT_DIGITS = 15  # of a JSON number that some writer may have passed through a double
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Statistics:
    """Bounds and NULL counts by column; a column that is absent has no known bound."""

    minimum: Mapping[str, Value] = field(default_factory=dict)
    maximum: Mapping[str, Value] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


def bounded(kind: pa.DataType) -> bool:
    """Whether bounds are kept for a column of this type."""
    return bool(
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_date32(kind)
        or (types.is_timestamp(kind) and kind.unit == "us")
        or types.is_decimal128(kind)
    )


def bounded_in_log(kind: pa.DataType) -> bool:
    """Whether the bounds that logs have for a column of this type are to be believed."""
    return bounded(kind) and not (types.is_decimal(kind) and kind.precision > _EXACT_DIGITS)


def from_footer(footer: pq.FileMetaData) -> Statistics:
    """The statistics of the top-level columns of a Parquet file."""
    minimum: dict[str, Value] = {}
    maximum: dict[str, Value] = {}
    nulls: dict[str, int] = {}
    schema = footer.schema.to_arrow_schema()
    for i in _top_level(footer.schema)[:_COLUMNS]:
        name = footer.schema.column(i).name
        chunks = [footer.row_group(g).column(i).statistics for g in range(footer.num_row_groups)]
        if all(chunk is not None and chunk.has_null_count for chunk in chunks):
            nulls[name] = sum(chunk.null_count for chunk in chunks)
        bounds = _footer_bounds(chunks) if bounded(schema.field(name).type) else None
        if bounds is not None:
            _put(minimum, name, lower(bounds[0]))
            _put(maximum, name, _upper(bounds[1]))
    return Statistics(minimum, maximum, nulls)


def from_log(actions: pa.Table, schema: pa.Schema, logical: Mapping[str, str]) -> list[Statistics]:
    """The statistics of each file of `DeltaTable.get_add_actions()`; `logical` gives the column of each stored name."""
    low, high = (_log_bounds(actions, side, schema, logical) for side in ("min", "max"))
    nulls = {logical[n]: v for n, v in _fields(actions, "null_count") if n in logical and types.is_integer(v.type)}
    counts = {name: column.to_pylist() for name, column in nulls.items()}
    return [Statistics(_row(low, i), _row(high, i), _row(counts, i)) for i in range(actions.num_rows)]


def to_delta(rows: int, statistics: Statistics, *, tight: bool = True) -> str:
    """The `stats` text of an add action. They are not `tight` where they are those of more rows than the table has."""
    nulls = ",".join(f"{_json(name)}:{count}" for name, count in statistics.nulls.items())
    low = _delta_bounds(statistics.minimum, up=False)
    high = _delta_bounds(statistics.maximum, up=True)
    wide = "" if tight else '"tightBounds":false,'
    return f'{{"numRecords":{rows},{wide}"minValues":{{{low}}},"maxValues":{{{high}}},"nullCount":{{{nulls}}}}}'


def encode(value: Value) -> object:
    """A bound as JSON that `decode` turns back exactly."""
    match value:
        case datetime():
            return {"timestamp": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
        case _:
            return value


def decode(value: Any) -> Value:
    """The inverse of `encode`."""
    match value:
        case {"timestamp": text}:
            return datetime.fromisoformat(text)
        case {"date": text}:
            return date.fromisoformat(text)
        case {"decimal": text}:
            return Decimal(text)
        case _:
            return value  # type: ignore[no-any-return]  # int, float or str, as JSON has them


def _top_level(schema: pq.ParquetSchema) -> list[int]:
    columns = (schema.column(i) for i in range(len(schema)))
    return [i for i, c in enumerate(columns) if c.path == c.name and c.max_repetition_level == 0]


def _footer_bounds(chunks: Iterable[pq.Statistics | None]) -> tuple[Value, Value] | None:
    low: list[Any] = []
    high: list[Any] = []
    for chunk in chunks:
        if chunk is None:
            return None
        if not chunk.has_min_max:
            if chunk.has_null_count and chunk.num_values == 0:
                continue  # nothing but NULLs
            return None
        try:
            low.append(chunk.min)
            high.append(chunk.max)
        except (ValueError, OverflowError, pa.ArrowException):
            return None  # a date that Python cannot hold, bytes that are no text
    return (min(low), max(high)) if low and not any(map(_is_nan, low)) else None


def _log_bounds(
    actions: pa.Table, side: str, schema: pa.Schema, logical: Mapping[str, str]
) -> dict[str, list[Value | None]]:
    found: dict[str, list[Value | None]] = {}
    for stored, column in _fields(actions, side):
        name = logical.get(stored)
        if name is None or not bounded(schema.field(name).type) or not bounded_in_log(column.type):
            continue
        try:
            values = column.to_pylist()
        except (ValueError, OverflowError):
            continue
        widen = lower if side == "min" else upper_in_log
        found[name] = [None if value is None else widen(value) for value in values]
    return found


def _fields(actions: pa.Table, group: str) -> list[tuple[str, pa.ChunkedArray]]:
    if group not in actions.column_names or not types.is_struct(actions[group].type):
        return []
    kind = actions[group].type
    names = [kind.field(i).name for i in range(kind.num_fields)]
    return list(zip(names, actions[group].flatten(), strict=True))


def _row(columns: Mapping[str, list[Any]], i: int) -> dict[str, Any]:
    return {name: values[i] for name, values in columns.items() if values[i] is not None}


def _put(bounds: dict[str, Value], name: str, value: Value | None) -> None:
    if value is not None:
        bounds[name] = value


def lower(value: Any) -> Value | None:
    """A lower bound that is short, for a smallest value; None if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    return _utc(value)


def _upper(value: Any) -> Value | None:
    if isinstance(value, float):
        return None  # whether a file holds NaN, the greatest value, is not recorded by most writers
    if isinstance(value, str):
        return _text_above(value)
    return _utc(value)


def upper_in_log(value: Any) -> Value | None:
    """An upper bound that is short, for a greatest value in a log, whose writers cut timestamps to milliseconds."""
    if isinstance(value, datetime):
        try:
            value += _MILLISECOND
        except OverflowError:
            return None
    return _upper(value)


def _utc(value: Any) -> Value:
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC) if zoned else value  # type: ignore[no-any-return]


def _text_above(text: str) -> str | None:
    """A short text that is not less than `text` in the order of code points, or None."""
    if len(text) <= _LONGEST_TEXT:
        return text
    for end in range(_LONGEST_TEXT, 0, -1):
        following = ord(text[end - 1]) + 1
        if following == 0xD800:
            following = 0xE000  # surrogates are no characters
        if following <= 0x10FFFF:
            return text[: end - 1] + chr(following)
    return None


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _delta_bounds(bounds: Mapping[str, Value], *, up: bool) -> str:
    texts = ((name, _delta_text(value, up=up)) for name, value in bounds.items())
    return ",".join(f"{_json(name)}:{text}" for name, text in texts if text is not None)


def _delta_text(value: Value, *, up: bool) -> str | None:
    match value:
        case datetime():
            return _delta_timestamp(value, up=up)
        case date():
            return f'"{value.isoformat()}"'
        case Decimal():
            return format(value, "f")
        case _:
            return _json(value)


def _json(value: object) -> str:
    """A value as JSON. Characters stand for themselves: deltalake misreads the codes of those beyond 16 bits."""
    return json.dumps(value, ensure_ascii=False)


def _delta_timestamp(value: datetime, *, up: bool) -> str | None:
    """A bound in milliseconds, as Delta's readers expect it."""
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if up and whole != value:
        try:
            whole += _MILLISECOND
        except OverflowError:
            return None
    zone = "Z" if value.tzinfo else ""
    return f'"{whole.replace(tzinfo=None).isoformat(timespec="milliseconds")}{zone}"'
