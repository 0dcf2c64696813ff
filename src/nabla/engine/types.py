"""Types in their three spellings: Spark's objects, Delta's JSON and Arrow's schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
    _parse_datatype_string,
)

from nabla.algebra.types import between_commas, decimal_of
from nabla.errors import NablaError

_STORABLE = frozenset(
    (
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary"),
        *("date", "timestamp", "timestamp_ntz", "array", "map", "struct", "void", "varchar", "char"),
    )
)
_PLAIN: dict[str, DataType] = {
    type_.simpleString(): type_
    for type_ in (
        *(BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType()),
        *(StringType(), BinaryType(), DateType(), TimestampType(), TimestampNTZType(), NullType()),
        *(DayTimeIntervalType(), YearMonthIntervalType(), VariantType()),
    )
}
_STRUCTURED = re.compile(r"(array|map|struct)\s*<(.+)>", re.IGNORECASE)
_FIELD = re.compile(r"(\w+)\s*:\s*((?!.*\b(?:not null|comment)\b)[^`]+)", re.IGNORECASE)


def parse(ddl: str) -> StructType:
    """A schema as users write it: `id BIGINT, name STRING`."""
    try:
        schema = StructType.fromDDL(ddl)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise NablaError(
            "NABLA_SCHEMA",
            f"cannot read the schema {ddl!r}: {first}",
            place="schema=",
            remedy='Write it as "id BIGINT, name STRING".',
        ) from None
    if not isinstance(schema, StructType):
        raise NablaError(
            "NABLA_SCHEMA",
            f"{ddl!r} is a type and names no column",
            place="schema=",
            remedy='Write it as "id BIGINT, name STRING".',
        )
    return schema


@lru_cache(maxsize=4096)
def type_of(ddl: str) -> DataType:
    """The type that a text names. Spark parses unusual ones, and must be running for it."""
    kind = ddl.strip().lower()
    if kind in _PLAIN:
        return _PLAIN[kind]
    if decimal := decimal_of(kind):
        return DecimalType(*decimal)
    if structured := _STRUCTURED.fullmatch(ddl.strip()):
        parts = between_commas(structured[2])
        fields = [_FIELD.fullmatch(part) for part in parts]
        if structured[1].lower() == "array" and len(parts) == 1:
            return ArrayType(type_of(parts[0]))
        if structured[1].lower() == "map" and len(parts) == 2:
            return MapType(type_of(parts[0]), type_of(parts[1]))
        if structured[1].lower() == "struct" and all(fields):
            return StructType([StructField(field[1], type_of(field[2])) for field in fields if field])
    return _parse_datatype_string(ddl)


def to_stored(schema: StructType, names: Sequence[str]) -> StructType:
    """The schema as Delta keeps it: names it can store, everything nullable, types that Parquet has."""
    return StructType(
        [StructField(n, _to_stored_type(f.dataType), True) for n, f in zip(names, schema.fields, strict=True)]
    )


def has_declarations(type_: DataType) -> bool:
    """Whether a type says more of its values than the stored one: their length, or that there are no NULLs inside of them."""
    match type_:
        case CharType() | VarcharType():
            return True
        case ArrayType():
            return not type_.containsNull or has_declarations(type_.elementType)
        case MapType():
            return not type_.valueContainsNull or any(map(has_declarations, (type_.keyType, type_.valueType)))
        case StructType():
            return any(not field.nullable or has_declarations(field.dataType) for field in type_.fields)
    return False


def check_declared(schema: StructType, what: str) -> None:
    """Refuse parts of a schema that a table does not keep: columns that are not there, collations and comments."""
    if not schema.fields:
        raise _not_kept(f"{what} has no columns", what, 'Write the schema as "id BIGINT, name STRING".')
    for field in schema.fields:
        place = f'column "{field.name}" of {what}'
        if field.metadata:
            raise _not_kept(f"the table would not keep {', '.join(map(str, field.metadata))}", place, "Leave it out.")
        for type_ in _all_parts(field.dataType):
            if isinstance(type_, StringType) and not type_.isUTF8BinaryCollation():
                raise _not_kept(
                    f"Delta tables store no collation ({type_.simpleString()})",
                    place,
                    "Declare it as STRING, and compare with COLLATE in queries.",
                )
            if isinstance(type_, StructType):
                check_declared(type_, place)


def _all_parts(type_: DataType) -> list[DataType]:
    return [type_, *(inner for part in _parts(type_) for inner in _all_parts(part))]


def _not_kept(message: str, place: str, remedy: str) -> NablaError:
    return NablaError("NABLA_SCHEMA", message, place=place, remedy=remedy)


def _to_stored_type(type_: DataType) -> DataType:
    match type_:
        case NullType() | CharType() | VarcharType():
            return StringType()
        case StringType():
            return StringType()  # a collation orders and compares, it does not change what is stored
        case ArrayType():
            return ArrayType(_to_stored_type(type_.elementType), True)
        case MapType():
            return MapType(_to_stored_type(type_.keyType), _to_stored_type(type_.valueType), True)
        case StructType():
            return StructType([StructField(f.name, _to_stored_type(f.dataType), True) for f in type_.fields])
    return type_


def check_storable(schema: StructType, what: str) -> None:
    for field in schema.fields:
        _check_type(field.dataType, f'column "{field.name}" of {what}')


def _check_type(type_: DataType, place: str) -> None:
    for inner in _parts(type_):
        _check_type(inner, place)
    name = type_.simpleString().split("(")[0].split("<")[0].split(" ")[0]
    if name not in _STORABLE:
        raise NablaError(
            "NABLA_TYPE",
            f"Delta tables cannot store values of type {type_.simpleString()}",
            place=place,
            remedy="Cast the column to a type that Delta has, for instance to STRING.",
        )


def _parts(type_: DataType) -> list[DataType]:
    match type_:
        case ArrayType():
            return [type_.elementType]
        case MapType():
            return [type_.keyType, type_.valueType]
        case StructType():
            return [f.dataType for f in type_.fields]
    return []


@lru_cache(maxsize=1024)
def with_weight(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField("_n", LongType(), True)])


def rename(schema: StructType, names: Sequence[str]) -> StructType:
    return StructType([StructField(n, f.dataType, True) for n, f in zip(names, schema.fields, strict=True)])


def nullable(schema: StructType) -> StructType:
    """The same columns, each of which may be NULL."""
    return rename(schema, schema.names)


def field_like(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, True)


_KEPT_METADATA = frozenset(("comment", "__CHAR_VARCHAR_TYPE_STRING"))
"""The metadata that is kept of a field; Spark would evaluate the text under EXISTS_DEFAULT for a column that a file lacks."""


@lru_cache(maxsize=1024)
def from_json(text: str) -> StructType:
    """A schema as a lake or a Delta table stores it, whoever wrote it: nothing in it is run.

    PySpark imports or unpickles the class of a user-defined type, so there are none.
    """
    return StructType.fromJson(_harmless(json.loads(text)))


def _harmless(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_harmless(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "udt":
        raise NablaError(
            "NABLA_TYPE",
            "a stored schema has a user-defined type, whose class would have to be loaded from it",
            remedy="Cast the column to a type that Delta has, for instance to STRING.",
        )
    metadata = {key: value for key, value in (schema.get("metadata") or {}).items() if key in _KEPT_METADATA}
    kept = {key: _harmless(value) for key, value in schema.items() if key != "metadata"}
    return kept | ({"metadata": metadata} if "metadata" in schema else {})


@lru_cache(maxsize=1024)
def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a stored table; timestamps are instants in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def has_nested(schema: StructType) -> bool:
    return any(map(pa.types.is_nested, arrow_schema(schema).types))


def conform(table: pa.Table, schema: StructType) -> pa.Table:
    """The same rows under the stored names and types; columns are matched by position."""
    target = arrow_schema(schema)
    columns = [
        column if column.type == field.type else _cast(column, field)
        for column, field in zip(table.columns, target, strict=True)
    ]
    return pa.table(columns, schema=target) if columns else table


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), field.type)])
    return column.cast(field.type)
