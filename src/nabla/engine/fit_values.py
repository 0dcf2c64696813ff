"""Values of Python as a column stores them, or the reason why it cannot: the rule for rows and Arrow tables.

`fit_frames` says the same in Spark SQL; a test compares the two with each other and with Spark's own INSERT.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    Row,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.types import STRING
from nabla.engine.store_assignment import match_fields

Fit = Callable[[Any], Any]

_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_ENOUGH_DIGITS = Context(prec=400, rounding=ROUND_HALF_UP)
_MISSING = frozenset(("NaTType", "NAType"))
"""The types of what pandas writes for a value that is missing."""


class Unfit(ValueError):
    """A column cannot take a value; the text says why."""


def fitter(type_: DataType, nullable: bool = True) -> Fit:
    """The function that turns a value into one of the type, or raises Unfit."""
    fit = _fitter(type_)

    def fit_or_null(value: Any) -> Any:
        if value is None or type(value).__name__ in _MISSING:
            if nullable:
                return None
            raise Unfit("it is declared NOT NULL")
        try:
            return fit(_of_numpy(value))
        except Unfit:
            raise
        except (ValueError, OverflowError, OSError) as error:
            raise Unfit(str(error)) from None

    return fit_or_null


def shortest_float(value: float) -> float:
    """The number with the fewest digits that a FLOAT takes for the same: Spark writes it as text."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    packed = struct.pack("<f", value)
    return next((float(text) for text in texts if struct.pack("<f", float(text)) == packed), value)


def _of_numpy(value: Any) -> Any:
    """The Python value of a scalar or array of numpy, which may not be installed."""
    if type(value).__module__ != "numpy":
        return value
    if type(value).__name__ == "datetime64":
        exact = value.astype("datetime64[us]")
        if exact != value:
            raise Unfit("a column has no nanoseconds")
        return exact.item()
    return value.tolist()


def _fitter(type_: DataType) -> Fit:
    match type_:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return _integer(_BITS[type(type_)])
        case DecimalType():
            return _decimal(type_.precision, type_.scale)
        case VarcharType():
            return _text_of_length(type_.length, "")
        case CharType():
            return _text_of_length(type_.length, " ")
        case ArrayType():
            return _array(fitter(type_.elementType, type_.containsNull))
        case MapType():
            return _map(fitter(type_.keyType, False), fitter(type_.valueType, type_.valueContainsNull))
        case StructType():
            return _struct(type_)
    return _PLAIN[type(type_)]


def _wrong(value: Any) -> Unfit:
    return Unfit(f"it is of the type {type(value).__name__}")


def _number(value: Any) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value)
    if isinstance(value, Decimal) and not value.is_finite():
        raise Unfit("it is no number")
    return value


def _integer(bits: int) -> Fit:
    most = 1 << (bits - 1)

    def fit(value: Any) -> int:
        number = _number(value)
        if isinstance(number, float) and not math.isfinite(number):
            raise Unfit("it is no number")
        if isinstance(number, Decimal) and number.adjusted() > 20:
            raise Unfit("it is out of range")
        whole = int(number)
        if whole != number:
            raise Unfit("it has a fraction")
        if not -most <= whole < most:
            raise Unfit("it is out of range")
        return whole

    return fit


def _double(value: Any) -> float:
    number = _number(value)
    try:
        result = float(number)
    except OverflowError:
        raise Unfit("it is out of range") from None
    if math.isinf(result) and not isinstance(number, float):
        raise Unfit("it is out of range")
    return result


def _float(value: Any) -> float:
    result = _double(value)
    try:
        struct.pack("<f", result)
    except OverflowError:
        raise Unfit("it is out of range") from None
    return result


def _decimal(precision: int, scale: int) -> Fit:
    unit = Decimal(1).scaleb(-scale)

    def fit(value: Any) -> Decimal:
        number = _number(value)
        if isinstance(number, float):
            if not math.isfinite(number):
                raise Unfit("it is no number")
            number = Decimal(repr(number))  # as Spark does: the shortest text that means this number
        exact = Decimal(number)
        if exact and exact.adjusted() >= precision - scale:
            raise Unfit("it is out of range")
        rounded = exact.quantize(unit, context=_ENOUGH_DIGITS)
        if rounded and rounded.adjusted() >= precision - scale:
            raise Unfit("it is out of range")
        return rounded

    return fit


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value)
    return value


def _binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong(value)
    return bytes(value)


def _local(value: datetime.date) -> datetime.datetime:
    """A time as a wall clock shows it; one without a zone is local time, as in Spark."""
    if not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time())
    if getattr(value, "nanosecond", 0):
        raise Unfit("a column has no nanoseconds")
    return value.astimezone().replace(tzinfo=None) if value.tzinfo is not None else value


def _date(value: Any) -> datetime.date:
    if not isinstance(value, datetime.date):
        raise _wrong(value)
    if not isinstance(value, datetime.datetime):
        return value
    local = _local(value)
    if local.time() != datetime.time():
        raise Unfit("it has a time of day")
    return local.date()


def _timestamp(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.date):
        raise _wrong(value)
    local = _local(value)
    return value if isinstance(value, datetime.datetime) and value.tzinfo is not None else local.astimezone()


def _timestamp_ntz(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.date):
        raise _wrong(value)
    return _local(value)


def _text(value: Any) -> str:
    """A text, or a simple value as Spark writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode()
    if isinstance(value, datetime.datetime):
        shown = _local(value).isoformat(" ")
        return shown.rstrip("0") if "." in shown else shown
    if type(value) in (bool, int, float, Decimal, datetime.date):
        return str(cast_to(STRING)(value))
    raise _wrong(value)


def _text_of_length(length: int, padding: str) -> Fit:
    """As in Spark, spaces beyond the length are cut off, and a CHAR is filled up with spaces."""

    def fit(value: Any) -> str:
        text = _text(value)
        if len(text) > length:
            text = text[:length] + text[length:].rstrip(" ")
        if len(text) > length:
            raise Unfit(f"it has {len(text)} characters")
        return text.ljust(length) if padding else text

    return fit


def _array(element: Fit) -> Fit:
    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _wrong(value)
        return [element(part) for part in value]

    return fit


def _map(key: Fit, value: Fit) -> Fit:
    def fit(given: Any) -> list[tuple[Any, Any]]:
        pairs: Iterable[Any] = given.items() if isinstance(given, Mapping) else given
        if not isinstance(given, Mapping | list | tuple) or any(
            not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs
        ):
            raise _wrong(given)
        entries = [(key(k), value(v)) for k, v in pairs]
        if len({repr(k) for k, _ in entries}) != len(entries):
            raise Unfit("a key is there twice")
        return entries

    return fit


def _struct(type_: StructType) -> Fit:
    fields = [(field.name, fitter(field.dataType, field.nullable)) for field in type_.fields]

    def fit(value: Any) -> dict[str, Any]:
        if isinstance(value, Row):
            value = value.asDict(recursive=False) if hasattr(value, "__fields__") else tuple(value)
        if isinstance(value, Mapping):
            positions = match_fields([str(name) for name in value], type_.names)
            if positions is None:
                raise Unfit(f"its fields are {', '.join(map(str, value)) or 'none'}")
            given = list(value.values())
            value = [given[position] for position in positions]
        if not isinstance(value, tuple | list):
            raise _wrong(value)
        if len(value) != len(fields):
            raise Unfit(f"it has {len(value)} values for {len(fields)} fields")
        return {name: _fit_field(name, part, fit_part) for (name, fit_part), part in zip(fields, value, strict=True)}

    return fit


def _fit_field(name: str, value: Any, fit: Fit) -> Any:
    try:
        return fit(value)
    except Unfit as error:
        raise Unfit(f'field "{name}" cannot take {value!r}: {error}') from None


_PLAIN: Mapping[type[DataType], Fit] = {
    BooleanType: _boolean,
    FloatType: _float,
    DoubleType: _double,
    StringType: _text,
    NullType: _text,  # a column of NULLs is stored as text
    BinaryType: _binary,
    DateType: _date,
    TimestampType: _timestamp,
    TimestampNTZType: _timestamp_ntz,
}
