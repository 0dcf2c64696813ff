"""The statistics of an add action, as a Delta log has them: JSON, whose values have the types of the table's columns.

Everything that is not exactly as writers should write it raises ValueError: the caller then asks deltalake.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from nabla.storage import schemas, statistics
from nabla.storage.statistics import Statistics, Value

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?")
_SHORT = 16
"""Characters of a number that is rounded to a float the same way whether it is read as a double first or not."""

Reader = Callable[[str], tuple[int | None, Statistics]]
"""Gives the number of rows, if the text has one, and the statistics of columns."""
Parse = Callable[[Any], Value]


@lru_cache(maxsize=256)
def reader(schema_json: str) -> Reader:
    """A function that reads statistics of files of a table with this schema."""
    schema = schemas.arrow(schema_json)
    parsers = {column.name: parse for column in schema if (parse := _parser(column.type)) is not None}
    counted = frozenset(column.name for column in schema if not types.is_struct(column.type))
    return partial(_read, parsers, counted)


def _read(parsers: Mapping[str, Parse], counted: frozenset[str], text: str) -> tuple[int | None, Statistics]:
    found = _object(json.loads(text, parse_float=_exact, parse_constant=_refuse))
    rows = found.get("numRecords")
    minimum = _bounds(parsers, found.get("minValues"), statistics.lower)
    maximum = _bounds(parsers, found.get("maxValues"), statistics.upper_in_log)
    nulls = {n: _integer(64, v) for n, v in _object(found.get("nullCount")).items() if n in counted and v is not None}
    return None if rows is None else _integer(64, rows), Statistics(minimum, maximum, nulls)


def _bounds(parsers: Mapping[str, Parse], found: Any, widen: Callable[[Value], Value | None]) -> dict[str, Value]:
    bounds = {}
    for name, value in _object(found).items():
        if value is not None and name in parsers:
            widened = widen(parsers[name](value))
            if widened is not None:
                bounds[name] = widened
    return bounds


def _parser(kind: pa.DataType) -> Parse | None:
    """A function that gives a JSON value the type of a column; None for columns without bounds."""
    if not statistics.bounded_in_log(kind):
        return None
    if types.is_integer(kind):
        return partial(_integer, kind.bit_width)
    if types.is_floating(kind):
        return _single if types.is_float32(kind) else _double
    if types.is_date32(kind):
        return _date
    if types.is_timestamp(kind):
        return partial(_timestamp, kind.tz is not None)
    return partial(_decimal, kind.precision, kind.scale) if types.is_decimal128(kind) else _string


def _integer(bits: int, value: Any) -> int:
    whole = _whole(value)
    if not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError(value)
    return whole


def _double(value: Any) -> float:
    if type(value) is not int and type(value) is not Decimal:
        raise ValueError(value)
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(value) from error


def _single(value: Any) -> float:
    double = _double(value)
    try:
        single: float = struct.unpack("f", struct.pack("f", double))[0]
    except OverflowError as error:
        raise ValueError(value) from error
    if single != double and len(str(value)) > _SHORT:
        raise ValueError(value)
    return single


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    value.encode()  # raises for half of a character
    return value


def _date(value: Any) -> date:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise ValueError(value)
    return date.fromisoformat(value)


def _timestamp(zoned: bool, value: Any) -> datetime:
    matched = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if matched is None or zoned != (matched[2] is not None):
        raise ValueError(value)
    try:
        found = datetime.fromisoformat(matched[0])
        return found.astimezone(UTC) if zoned else found
    except OverflowError as error:
        raise ValueError(value) from error


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    if type(value) is not int and type(value) is not Decimal:
        raise ValueError(value)
    try:
        found = Decimal(value).quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation as error:
        raise ValueError(value) from error
    has_exponent = isinstance(value, Decimal) and value.as_tuple().exponent > 0  # type: ignore[operator]  # finite
    if has_exponent or found != value or abs(found).scaleb(scale) >= 10**precision:
        raise ValueError(value)
    return found


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(value)
    return value


def _exact(text: str) -> Decimal:
    """A number with a fraction: a double would not do for decimals."""
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error


def _refuse(text: str) -> None:
    raise ValueError(text)
