"""Rows as users hand them over (tuples, dicts, Arrow tables, DataFrames), checked against a table's schema."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    AtomicType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    Row,
    StructField,
    StructType,
)

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.fit_frames import fitted_sql, refused_value
from nabla.engine.fit_values import Unfit, fitter, shortest_float
from nabla.engine.store_assignment import TEXTS, assignable
from nabla.errors import NablaError

Data = Any
"""A DataFrame, an Arrow table (of pyarrow, pandas, Polars, or whatever else hands out Arrow streams), or a list of tuples
or dicts."""

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60


def schema_of(data: Data, what: str) -> StructType:
    """The schema that the data brings along, without claims on rows to come: all of it may be NULL."""
    if isinstance(data, DataFrame):
        return types.to_stored(data.schema, data.schema.names)
    table = arrow_table(data, what)
    if table is not None:
        return StructType([StructField(field.name, _spark_type(field, what)) for field in table.schema])
    raise NablaError(
        "NABLA_NO_SCHEMA", f"rows of {what} bring no types along", place="schema=", remedy="Pass schema= as well."
    )


def arrow_table(data: Data, what: str) -> pa.Table | None:
    """The data as an Arrow table, if it is one or hands one out; None for rows."""
    if isinstance(data, pa.Table):
        return data
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        data = _from_pandas(data, what)
    if not hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatch):
        return None
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NablaError(
            "NABLA_ROWS",
            f"a {type(data).__name__} gives no Arrow table: {error}",
            place=what,
            remedy="Pass a DataFrame, a pyarrow Table, or a list of tuples or dicts.",
        ) from None


def _from_pandas(frame: Any, what: str) -> pa.Table:
    """The columns of a frame of pandas. Its index is no column."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NablaError(
            "NABLA_ROWS",
            f"Arrow cannot take the values of a frame: {error}",
            place=what,
            remedy="Give each column one type, as with astype.",
        ) from None


def arrow_rows(data: Data, schema: StructType, table: str) -> pa.Table:
    """The rows in Arrow, with the visible names; a DataFrame is collected."""
    if isinstance(data, DataFrame):
        return types.conform(fit_frame(data, schema, table).toArrow(), types.to_stored(schema, schema.names))
    arrow = arrow_table(data, f'table "{table}"')
    if arrow is not None:
        return _from_arrow(arrow, schema, table)
    if isinstance(data, Mapping | str | bytes) or not isinstance(data, Iterable):
        raise NablaError(
            "NABLA_ROWS",
            f"cannot take rows of {table} from a {type(data).__name__}",
            place=f'table "{table}"',
            remedy="Pass a DataFrame, a pyarrow Table, or a list of tuples or dicts.",
        )
    return _from_rows(list(data), schema, table)


def fit_frame(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """The DataFrame's columns in the table's order and with its types, if they fit. Values that do not make the query fail
    when it is run (see `refusal`)."""
    positions = _match(frame.columns, schema, table)
    given = [frame.schema.fields[position] for position in positions]
    return frame.select(
        *[fit_column(quote(g.name), g.dataType, f, table) for g, f in zip(given, schema.fields, strict=True)]
    )


def fit_column(sql: str, given: DataType, field: StructField, table: str) -> Column:
    """A column of Spark, under the name and with the type that a table stores it by."""
    if not assignable(given, field.dataType):
        raise _type_error(table, field, f"a column of type {given.simpleString()}")
    stored = types.to_stored(StructType([field]), [field.name]).fields[0].dataType
    return F.expr(fitted_sql(sql, given, field, field.name)).cast(stored).alias(field.name)


def fit_arrow(column: pa.ChunkedArray, given: DataType, field: StructField, table: str) -> pa.ChunkedArray:
    """A column of Arrow with the type that a table stores it by; `given` is its type in Spark."""
    if not assignable(given, field.dataType):
        raise _type_error(table, field, f"a column of type {given.simpleString()}")
    stored = types.arrow_schema(types.to_stored(StructType([field]), [field.name])).field(0).type
    return _fit_arrow(column, given, field, stored, table)


def refusal(error: PySparkException, place: str) -> NablaError | None:
    """The error for the user, if Spark failed because a column cannot take a value."""
    refused = refused_value(error)
    if refused is None:
        return None
    return NablaError(
        "NABLA_TYPE_MISMATCH",
        f'column "{refused.column}" cannot take {_SHOWN.repr(refused.value)}: {refused.why}',
        place=place,
        remedy="Give it values that it can hold, or convert them yourself.",
    )


def _match(names: Sequence[str], schema: StructType, table: str) -> list[int]:
    """The position of each of the table's columns among the given names."""
    given = {name.casefold(): i for i, name in enumerate(names)}
    wanted = [f.name.casefold() for f in schema.fields]
    if len(given) != len(names) or set(given) != set(wanted):
        missing = [f.name for f in schema.fields if f.name.casefold() not in given]
        unknown = [n for n in names if n.casefold() not in wanted]
        what = f"the columns do not match: missing {missing or 'none'}, unknown {unknown or 'none'}"
        raise _wrong_columns(what, schema, table)
    return [given[name] for name in wanted]


def _spark_type(field: pa.Field, what: str) -> DataType:
    try:
        return from_arrow_type(_plain_arrow(field.type), prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise NablaError(
            "NABLA_TYPE",
            f'column "{field.name}" is of a type that Spark has not: {error.getMessage()}',
            place=what,
            remedy="Cast it to another type.",
        ) from None


def _plain_arrow(kind: pa.DataType) -> pa.DataType:
    """An Arrow type without its encoding, and with a unit that Spark has."""
    if pa.types.is_dictionary(kind):
        return _plain_arrow(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[kind.bit_width]
    return {pa.float16(): pa.float32(), pa.date64(): pa.date32(), pa.string_view(): pa.string()}.get(kind, kind)


def _from_arrow(data: pa.Table, schema: StructType, table: str) -> pa.Table:
    positions = _match(data.column_names, schema, table)
    target = types.arrow_schema(types.to_stored(schema, schema.names))
    columns = []
    for position, field, stored in zip(positions, schema.fields, target, strict=True):
        given = _spark_type(data.schema.field(position), f'table "{table}"')
        if not assignable(given, field.dataType):
            raise _type_error(table, field, f"a column of type {data.schema.field(position).type}")
        columns.append(_fit_arrow(data.column(position), given, field, stored.type, table))
    return pa.table(columns, schema=target)


def _fit_arrow(
    column: pa.ChunkedArray, given: DataType, field: StructField, stored: pa.DataType, table: str
) -> pa.ChunkedArray:
    """A column in its stored type: by Arrow where it does exactly what `fit_values` does, else value by value."""
    declared = types.has_declarations(field.dataType) or (not field.nullable and column.null_count > 0)
    if not declared:
        if column.type == stored:
            return column
        if _casts_exactly(given, field.dataType):
            try:
                return column.cast(stored)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass  # a value does not fit, or has to be rounded
    values = column.to_pylist()
    if isinstance(given, FloatType) and isinstance(field.dataType, TEXTS):
        values = [None if value is None else shortest_float(value) for value in values]
    return pa.chunked_array([_fit_values(values, field, stored, table)], stored)


def _casts_exactly(given: DataType, wanted: DataType) -> bool:
    """Whether a cast of Arrow that succeeds has changed no value."""
    if isinstance(given, FloatType | DoubleType):
        return isinstance(wanted, IntegralType | DoubleType)
    if isinstance(given, NumericType):
        return isinstance(wanted, NumericType)
    return type(given) is type(wanted) and isinstance(given, AtomicType)


def _from_rows(rows: list[Any], schema: StructType, table: str) -> pa.Table:
    target = types.arrow_schema(types.to_stored(schema, schema.names))
    tuples = [_as_tuple(row, i, schema, table) for i, row in enumerate(rows)]
    columns = [
        _fit_values([row[position] for row in tuples], field, target.field(position).type, table)
        for position, field in enumerate(schema.fields)
    ]
    return pa.table(columns, schema=target)


def _fit_values(values: list[Any], field: StructField, stored: pa.DataType, table: str) -> pa.Array:
    """Values of Python in Arrow. A value that its column cannot take is refused; the error names its row."""
    fit = fitter(field.dataType, field.nullable)
    fitting = []
    for number, value in enumerate(values):
        try:
            fitting.append(fit(value))
        except Unfit as error:
            raise _type_error(table, field, f"{_SHOWN.repr(value)} in row {number}: {error}") from None
    try:
        return pa.array(fitting, stored)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        number, value = next(
            ((i, v) for i, v in enumerate(fitting) if not _is_storable(v, stored)), (0, "one of the values")
        )
        raise _type_error(table, field, f"{_SHOWN.repr(value)} in row {number}: {error}") from None


def _is_storable(value: Any, stored: pa.DataType) -> bool:
    try:
        pa.array([value], stored)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return False
    return True


def _as_tuple(row: Any, number: int, schema: StructType, table: str) -> Sequence[Any]:
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        row = row.asDict(recursive=False)
    if isinstance(row, Mapping):
        return _by_name(row, number, schema, table)
    if not isinstance(row, tuple | list) or len(row) != len(schema.fields):
        found = f"{len(row)} values" if isinstance(row, tuple | list) else f"a {type(row).__name__}"
        raise NablaError(
            "NABLA_WIDTH",
            f"row {number} has {found} for {len(schema.fields)} columns",
            place=f'table "{table}"',
            remedy=f"Give a value for each of {', '.join(schema.names)}.",
        )
    return row


def _by_name(row: Mapping[Any, Any], number: int, schema: StructType, table: str) -> Sequence[Any]:
    """The values of a dict in the table's order. Columns that it does not name are NULL, but it has to name one."""
    by_name = {f.name.casefold(): i for i, f in enumerate(schema.fields)}
    values: list[Any] = [None] * len(schema.fields)
    named: set[str] = set()
    for name, value in row.items():
        known = name.casefold() if isinstance(name, str) else ""
        if known not in by_name or known in named:
            what = f'has a column "{name}" that the table lacks' if known not in by_name else f'names "{name}" twice'
            raise _wrong_columns(f"row {number} {what}", schema, table)
        named.add(known)
        values[by_name[known]] = value
    if not named:
        raise _wrong_columns(f"row {number} is a dict without columns", schema, table)
    return values


def _wrong_columns(what: str, schema: StructType, table: str) -> NablaError:
    remedy = f"It has the columns {', '.join(schema.names)}."
    return NablaError("NABLA_COLUMNS", what, place=f'table "{table}"', remedy=remedy)


def _type_error(table: str, field: StructField, found: str) -> NablaError:
    return NablaError(
        "NABLA_TYPE_MISMATCH",
        f'column "{field.name}" of type {field.dataType.simpleString()} cannot take {found}',
        place=f'table "{table}"',
        remedy=f"Pass values of type {field.dataType.simpleString()}.",
    )
