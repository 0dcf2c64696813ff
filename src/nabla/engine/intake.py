"""Rows as users hand them over (tuples, dicts, Arrow tables, DataFrames), checked against a table's schema."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    Row,
    StructField,
    StructType,
    TimestampType,
)

from nabla.engine import types
from nabla.errors import NablaError

Data = Any
"""A DataFrame, a pyarrow Table or RecordBatch, or a list of tuples or dicts."""


def schema_of(data: Data, what: str) -> StructType:
    """The schema that the data brings along."""
    if isinstance(data, DataFrame):
        return data.schema
    if isinstance(data, pa.Table | pa.RecordBatch):
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(data.schema, prefer_timestamp_ntz=True)
    raise NablaError(
        "NABLA_NO_SCHEMA", f"rows of {what} bring no types along", place="schema=", remedy="Pass schema= as well."
    )


def arrow_rows(data: Data, schema: StructType, table: str) -> pa.Table:
    """The rows in Arrow, with the visible names; a DataFrame is collected."""
    if isinstance(data, DataFrame):
        return types.conform(fit_frame(data, schema, table).toArrow(), types.to_stored(schema, schema.names))
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _from_arrow(data, schema, table)
    if isinstance(data, Mapping | str | bytes) or not isinstance(data, Iterable):
        raise NablaError(
            "NABLA_ROWS",
            f"cannot take rows of {table} from a {type(data).__name__}",
            place=f'table "{table}"',
            remedy="Pass a DataFrame, a pyarrow Table, or a list of tuples or dicts.",
        )
    return _from_rows(list(data), schema, table)


def fit_frame(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """The DataFrame's columns in the table's order and with its types, if they fit."""
    by_name = _match(frame.columns, schema, table)
    columns = []
    for position, field in zip(by_name, schema.fields, strict=True):
        given = frame.schema.fields[position].dataType
        if not _widens(given, field.dataType):
            raise _type_error(table, field.name, field.dataType, f"a column of type {given.simpleString()}")
        columns.append(frame[frame.columns[position]].cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _match(names: Sequence[str], schema: StructType, table: str) -> list[int]:
    """The position of each of the table's columns among the given names."""
    given = {name.casefold(): i for i, name in enumerate(names)}
    wanted = [f.name.casefold() for f in schema.fields]
    if len(given) != len(names) or set(given) != set(wanted):
        missing = [f.name for f in schema.fields if f.name.casefold() not in given]
        unknown = [n for n in names if n.casefold() not in wanted]
        raise NablaError(
            "NABLA_COLUMNS",
            f"the columns do not match: missing {missing or 'none'}, unknown {unknown or 'none'}",
            place=f'table "{table}"',
            remedy=f"It has the columns {', '.join(schema.names)}.",
        )
    return [given[name] for name in wanted]


def _widens(given: DataType, wanted: DataType) -> bool:
    if types.to_stored(StructType().add("x", given), ["x"]) == types.to_stored(StructType().add("x", wanted), ["x"]):
        return True
    if given.typeName() == "void":
        return True
    if isinstance(given, NumericType) and isinstance(wanted, NumericType):
        return not isinstance(given, DoubleType | FloatType) or isinstance(wanted, DoubleType | FloatType)
    return given.typeName() == "date" and wanted.typeName().startswith("timestamp")


def _from_arrow(data: pa.Table, schema: StructType, table: str) -> pa.Table:
    positions = _match(data.column_names, schema, table)
    target = types.arrow_schema(types.to_stored(schema, schema.names))
    columns = []
    for position, field in zip(positions, target, strict=True):
        column = data.column(position)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise _type_error(table, field.name, schema[field.name].dataType, str(error)) from None
        except pa.ArrowNotImplementedError:
            raise _type_error(
                table, field.name, schema[field.name].dataType, f"a column of type {column.type}"
            ) from None
    return pa.table(columns, schema=target)


def _from_rows(rows: list[Any], schema: StructType, table: str) -> pa.Table:
    target = types.arrow_schema(types.to_stored(schema, schema.names))
    tuples = [_as_tuple(row, i, schema, table) for i, row in enumerate(rows)]
    columns = []
    for position, field in enumerate(schema.fields):
        values = [_checked(row[position], field, i, table) for i, row in enumerate(tuples)]
        try:
            columns.append(pa.array(values, target.field(position).type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
            raise _bad_value(table, field.name, field.dataType, values, target.field(position).type, error) from None
    return pa.table(columns, schema=target)


def _as_tuple(row: Any, number: int, schema: StructType, table: str) -> Sequence[Any]:
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        row = row.asDict(recursive=False)
    if isinstance(row, Mapping):
        by_name = {f.name.casefold(): i for i, f in enumerate(schema.fields)}
        values: list[Any] = [None] * len(schema.fields)
        for name, value in row.items():
            if str(name).casefold() not in by_name:
                raise NablaError(
                    "NABLA_COLUMNS",
                    f'row {number} has a column "{name}" that the table lacks',
                    place=f'table "{table}"',
                    remedy=f"It has the columns {', '.join(schema.names)}.",
                )
            values[by_name[str(name).casefold()]] = value
        return values
    if not isinstance(row, tuple | list) or len(row) != len(schema.fields):
        found = f"{len(row)} values" if isinstance(row, tuple | list) else f"a {type(row).__name__}"
        raise NablaError(
            "NABLA_WIDTH",
            f"row {number} has {found} for {len(schema.fields)} columns",
            place=f'table "{table}"',
            remedy=f"Give a value for each of {', '.join(schema.names)}.",
        )
    return row


def _checked(value: Any, field: StructField, number: int, table: str) -> Any:
    try:
        return _plain(value, field.dataType)
    except ValueError as error:
        raise _type_error(table, field.name, field.dataType, f"{value!r} in row {number}: {error}") from None


def _plain(value: Any, type_: DataType) -> Any:
    """A value as Arrow takes it: structs as dicts, instants with a zone."""
    if value is None:
        return None
    match type_:
        case TimestampType() if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return value.astimezone()  # as in Spark, a time without a zone is local time
        case ArrayType() if isinstance(value, list | tuple):
            return [_plain(v, type_.elementType) for v in value]
        case MapType() if isinstance(value, Mapping):
            return [(_plain(k, type_.keyType), _plain(v, type_.valueType)) for k, v in value.items()]
        case StructType():
            if isinstance(value, Row):
                value = value.asDict(recursive=False) if hasattr(value, "__fields__") else tuple(value)
            if isinstance(value, tuple | list):
                value = dict(zip(type_.names, value, strict=True))
            return {f.name: _plain(value.get(f.name), f.dataType) for f in type_.fields}
        case DecimalType() if isinstance(value, float):
            raise ValueError("a float is not exact; pass a Decimal")
    if isinstance(value, bool) and type_.typeName() != "boolean":
        raise ValueError("a boolean")
    return value


def _bad_value(
    table: str, column: str, type_: DataType, values: list[Any], arrow: pa.DataType, error: Exception
) -> NablaError:
    for number, value in enumerate(values):
        try:
            pa.array([value], arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            return _type_error(table, column, type_, f"{value!r} in row {number}")
    return _type_error(table, column, type_, str(error))


def _type_error(table: str, column: str, type_: DataType, found: str) -> NablaError:
    return NablaError(
        "NABLA_TYPE_MISMATCH",
        f'column "{column}" of type {type_.simpleString()} cannot take {found}',
        place=f'table "{table}"',
        remedy=f"Pass values of type {type_.simpleString()}.",
    )
