"""Spark's store assignment (ANSI): the types that a column accepts from any kind of input.

Spark changes values that a column cannot hold: 1.7 becomes 1 in an INT, a time of day its DATE, 1e300 infinity in a
FLOAT. Nabla does not: a value that the column cannot hold is refused (`fit_values` for rows at hand, `fit_frames` for
DataFrames). Rounding to the digits that a DECIMAL, FLOAT or DOUBLE has is what these types are for, and is done as in Spark.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    YearMonthIntervalType,
)

TEXTS = (StringType, VarcharType, CharType)
_TIMES = (DateType, TimestampType, TimestampNTZType)
_SHOWN = (
    *(*TEXTS, NumericType, BooleanType, BinaryType, *_TIMES),
    *(TimeType, DayTimeIntervalType, YearMonthIntervalType),
)
"""Types whose values Spark writes into a text column as text."""


def assignable(given: DataType, wanted: DataType) -> bool:
    """Whether values of a type may go into a column of another one. Fields of structs are matched by name."""
    match given, wanted:
        case NullType(), _:
            return True
        case ArrayType(), ArrayType():
            return assignable(given.elementType, wanted.elementType)
        case MapType(), MapType():
            return assignable(given.keyType, wanted.keyType) and assignable(given.valueType, wanted.valueType)
        case StructType(), StructType():
            positions = match_fields(given.names, wanted.names)
            return positions is not None and all(
                assignable(given.fields[position].dataType, field.dataType)
                for position, field in zip(positions, wanted.fields, strict=True)
            )
    for kinds, targets in (((NumericType,), NumericType), (_TIMES, _TIMES), (_SHOWN, TEXTS)):
        if isinstance(given, kinds) and isinstance(wanted, targets):
            return True
    return type(given) is type(wanted)


def match_fields(given: list[str], wanted: list[str]) -> list[int] | None:
    """The position of each wanted name among the given ones, whatever their case; None where they are not the same names."""
    positions = {name.casefold(): i for i, name in enumerate(given)}
    names = [name.casefold() for name in wanted]
    if len(positions) != len(given) or positions.keys() != set(names):
        return None
    return [positions[name] for name in names]
