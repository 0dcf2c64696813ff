"""Values as people write them, in the type of a column, and as they are compared and shown."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from nabla.cli.view_tests.read import Rows, Value, malformed

_BOOLEANS = {"true": True, "false": False}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER = re.compile(r"[+-]?\d[\d_]*")
_DECIMAL = re.compile(r"[+-]?\d*\.?\d+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}.*")
DIGITS = 9
"""Significant digits in which floating-point numbers are compared: sums depend on the order of their terms beyond that."""


def typed(value: Value, type_: DataType, zone: str) -> Any:
    """A value in a type. Times without an offset are in the time zone `zone`."""
    content = value.content
    if content is None:
        return None
    try:
        match type_:
            case ArrayType() if isinstance(content, tuple):
                return [typed(part, type_.elementType, zone) for part in content]
            case MapType() if isinstance(content, Mapping):
                keys = {key: typed(Value(key, value.place), type_.keyType, zone) for key in content}
                return {keys[key]: typed(part, type_.valueType, zone) for key, part in content.items()}
            case StructType() if isinstance(content, Mapping):
                unknown = [name for name in content if name not in type_.names]
                if unknown:
                    raise ValueError(f'there is no field "{unknown[0]}"')
                missing = Value(None, value.place)
                return {f.name: typed(content.get(f.name, missing), f.dataType, zone) for f in type_.fields}
            case _ if isinstance(content, str):
                return _scalar(content, type_, zone)
    except (ValueError, decimal.InvalidOperation, OverflowError) as error:
        why = f": {error}" if str(error) and not isinstance(error, decimal.InvalidOperation) else ""
        raise malformed(f"{_short(content)} is no {type_.simpleString()}{why}", value.place, "Correct it.") from error
    raise malformed(f"{_short(content)} is no {type_.simpleString()}", value.place, "Correct it.")


def _scalar(text: str, type_: DataType, zone: str) -> Any:
    match type_:
        case StringType() | CharType() | VarcharType():
            return text
        case BooleanType():
            if text.lower() not in _BOOLEANS:
                raise ValueError("write true or false")
            return _BOOLEANS[text.lower()]
        case IntegralType():
            number = int(text)
            if not -(1 << (_BITS[type_.simpleString()] - 1)) <= number < 1 << (_BITS[type_.simpleString()] - 1):
                raise ValueError("it is too large")
            return number
        case FloatType() | DoubleType():
            return float(text)
        case DecimalType():
            return _decimal(text, type_)
        case DateType():
            return datetime.date.fromisoformat(text)
        case TimestampType():
            moment = datetime.datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
        case TimestampNTZType():
            moment = datetime.datetime.fromisoformat(text)
            if moment.tzinfo:
                raise ValueError("it has no time zone")
            return moment
        case BinaryType():
            return bytes.fromhex(text)
    raise ValueError("a test cannot write values of this type")


def _decimal(text: str, type_: DecimalType) -> decimal.Decimal:
    number = decimal.Decimal(text)
    with decimal.localcontext(prec=60):
        exact = number.quantize(decimal.Decimal(1).scaleb(-type_.scale))
    if exact != number or len(exact.as_tuple().digits) > type_.precision:
        raise ValueError("it does not fit")
    return exact


def infer(rows: Rows) -> StructType:
    """The columns of a table that only tests know, by its values."""
    return StructType([StructField(column, _infer(r.get(column) for r in rows.rows)) for column in rows.columns])


def _infer(values: Iterable[Value | None]) -> DataType:
    known = [value for value in values if value is not None and value.content is not None]
    texts = [value.content for value in known if isinstance(value.content, str)]
    if not known or len(texts) < len(known):
        if known:
            raise malformed("the type of a list or mapping is not known", known[0].place, "Declare a `schema`.")
        return StringType()
    plain = all(value.plain for value in known)
    kinds: list[tuple[Callable[[str], object], DataType]] = [
        (_INTEGER.fullmatch, LongType()),
        (_DECIMAL.fullmatch, DecimalType(38, max((len(t.partition(".")[2]) for t in texts), default=0))),
        (lambda text: text.lower() in _BOOLEANS, BooleanType()),
        (_DATE.fullmatch, DateType()),
        (_TIME.fullmatch, TimestampType()),
    ]
    return next((type_ for fits, type_ in kinds if plain and all(map(fits, texts))), StringType())


def comparable(value: Any, type_: DataType) -> Any:
    """A value in a form that is equal for values that a test takes as equal, and that can be counted."""
    if value is None:
        return None
    match type_:
        case FloatType() | DoubleType():
            return "NaN" if math.isnan(value) else float(f"{value:.{DIGITS}g}") + 0.0
        case DecimalType():
            return decimal.Decimal(value).normalize()
        case TimestampType():
            return value.astimezone(datetime.UTC)
        case ArrayType():
            return tuple(comparable(part, type_.elementType) for part in value)
        case MapType():
            pairs = value.items() if isinstance(value, Mapping) else value
            return frozenset((comparable(k, type_.keyType), comparable(v, type_.valueType)) for k, v in pairs)
        case StructType():
            return tuple(comparable(value[f.name], f.dataType) for f in type_.fields)
    return value


def shown(value: Any, type_: DataType, zone: str) -> str:
    """A value as it would be written in a test."""
    if value is None:
        return "NULL"
    match type_:
        case BooleanType():
            return "true" if value else "false"
        case StringType() | CharType() | VarcharType():
            return repr(value) if value == "" or value != value.strip() or not value.isprintable() else value
        case TimestampType():
            return str(value.astimezone(ZoneInfo(zone)).replace(tzinfo=None))
        case BinaryType():
            return bytes(value).hex()
        case ArrayType():
            return f"[{', '.join(shown(part, type_.elementType, zone) for part in value)}]"
        case MapType():
            pairs = value.items() if isinstance(value, Mapping) else value
            said = (f"{shown(k, type_.keyType, zone)}: {shown(v, type_.valueType, zone)}" for k, v in pairs)
            return f"{{{', '.join(said)}}}"
        case StructType():
            return f"{{{', '.join(f'{f.name}: {shown(value[f.name], f.dataType, zone)}' for f in type_.fields)}}}"
        case DecimalType():
            return f"{value:f}"
    return str(value)


def _short(content: object) -> str:
    if isinstance(content, str):
        return f'"{content[:60]}"'
    return "a list" if isinstance(content, tuple) else "a mapping"
