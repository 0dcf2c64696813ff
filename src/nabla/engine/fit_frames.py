"""Columns of DataFrames as a table stores them: Spark SQL that gives the stored value, or fails with the reason.

`fit_values` says the same of Python's values; a test compares the two with each other and with Spark's own INSERT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
    VarcharType,
)

from nabla.algebra.expressions import quote, string_literal
from nabla.engine.store_assignment import TEXTS, match_fields

_MARK = re.compile(r"NABLA_UNFIT<(\{.*?\})>NABLA_UNFIT", re.DOTALL)
_DIGITS: Mapping[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""The digits of the largest value of each integral type."""


class Refused(NamedTuple):
    """A value that Spark met while it wrote rows, and that its column cannot take."""

    column: str
    value: str
    why: str


def fitted_sql(sql: str, given: DataType, field: StructField, column: str) -> str:
    """SQL for the values of an expression of type `given`, which is assignable, as the column of a table stores them."""
    return _Fitting(column).fit(sql, given, field.dataType, field.nullable)


def refused_value(error: Exception) -> Refused | None:
    """The value that SQL made here has refused, if an error of Spark is about one."""
    found = _MARK.search(str(error))
    try:
        return Refused(**json.loads(found[1])) if found else None
    except (ValueError, TypeError):  # the value itself has the mark in it
        return Refused("?", "a value", "it does not fit")


class _Fitting:
    """The SQL for one column. Lambda functions need names that differ."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._names = (f"part{i}" for i in count())

    def fit(self, sql: str, given: DataType, wanted: DataType, nullable: bool) -> str:
        fitting = sql if isinstance(given, NullType) else self._fit(sql, given, wanted)
        if nullable:
            return fitting
        return f"CASE WHEN {sql} IS NULL THEN {self._refuse(sql, 'it is declared NOT NULL')} ELSE {fitting} END"

    def _fit(self, sql: str, given: DataType, wanted: DataType) -> str:
        match given, wanted:
            case ArrayType(), ArrayType():
                name = next(self._names)
                part = self.fit(name, given.elementType, wanted.elementType, wanted.containsNull)
                return sql if part == name else f"transform({sql}, {name} -> {part})"
            case MapType(), MapType():
                return self._fit_map(sql, given, wanted)
            case StructType(), StructType():
                return self._fit_struct(sql, given, wanted)
            case _, VarcharType() | CharType():
                return self._fit_text(sql, wanted.length, isinstance(wanted, CharType))
        if given == wanted:
            return sql
        cast = f"CAST({sql} AS {wanted.simpleString()})"
        return self._fit_number(sql, given, wanted) or self._fit_other(sql, given, wanted) or cast

    def _fit_number(self, sql: str, given: DataType, wanted: DataType) -> str | None:
        """Numbers that the type cannot hold are refused; rounding to its digits is what a DECIMAL or a FLOAT is for."""
        tried = f"try_cast({sql} AS {wanted.simpleString()})"
        if isinstance(wanted, IntegralType):
            if isinstance(given, IntegralType) and _DIGITS[type(given)] <= _DIGITS[type(wanted)]:
                return None
            whole = f"try_cast({tried} AS {given.simpleString()}) = {sql}"
            if isinstance(given, FloatType | DoubleType):
                whole += (
                    f" AND {sql} < 9223372036854775808D"  # Spark takes it for the largest BIGINT, which is one less
                )
            return self._guard(sql, wanted, whole, "it has a fraction or is out of range")
        if isinstance(wanted, DecimalType):
            digits, scale = _DIGITS.get(type(given), 400), 0
            if isinstance(given, DecimalType):
                digits, scale = given.precision - given.scale, given.scale
            if digits + (scale > wanted.scale) <= wanted.precision - wanted.scale:
                return None
            return self._guard(sql, wanted, f"{tried} IS NOT NULL", "it is out of range or no number")
        if isinstance(given, DoubleType) and isinstance(wanted, FloatType):
            finite = f"abs(CAST({sql} AS FLOAT)) <> float('infinity') OR abs({sql}) = double('infinity')"
            return self._guard(sql, wanted, finite, "it is out of range")
        return None

    def _fit_other(self, sql: str, given: DataType, wanted: DataType) -> str | None:
        if isinstance(wanted, DateType):
            midnight = f"CAST(CAST({sql} AS DATE) AS {given.simpleString()}) = {sql}"
            return self._guard(sql, wanted, midnight, "it has a time of day")
        if isinstance(given, BinaryType) and isinstance(wanted, TEXTS):
            return self._guard(sql, wanted, f"is_valid_utf8(CAST({sql} AS STRING))", "it is no text in UTF-8")
        return None

    def _fit_text(self, sql: str, length: int, pad: bool) -> str:
        """As in Spark, spaces beyond the length are cut off, and a CHAR is filled up with spaces."""
        text = f"CAST({sql} AS STRING)"
        cut = f"concat(substring({text}, 1, {length}), rtrim(substring({text}, {length + 1})))"
        stored = f"rpad({cut}, {length}, ' ')" if pad else cut
        refusal = self._refuse(sql, f"it has more than {length} characters")
        return f"CASE WHEN char_length({cut}) <= {length} OR {sql} IS NULL THEN {stored} ELSE {refusal} END"

    def _fit_map(self, sql: str, given: MapType, wanted: MapType) -> str:
        key, value = next(self._names), next(self._names)
        keys = self.fit(key, given.keyType, wanted.keyType, False) if given.keyType != wanted.keyType else key
        values = self.fit(value, given.valueType, wanted.valueType, wanted.valueContainsNull)
        if values != value:
            sql = f"transform_values({sql}, ({key}, {value}) -> {values})"
        return sql if keys == key else f"transform_keys({sql}, ({key}, {value}) -> {keys})"

    def _fit_struct(self, sql: str, given: StructType, wanted: StructType) -> str:
        positions = match_fields(given.names, wanted.names) or []
        parts, same = [], given.names == wanted.names
        for position, field in zip(positions, wanted.fields, strict=True):
            inner = given.fields[position]
            path = f"{sql}.{quote(inner.name)}"
            part = self.fit(path, inner.dataType, field.dataType, field.nullable)
            same = same and part == path
            parts.append(f"{string_literal(field.name)}, {part}")
        return sql if same else f"IF({sql} IS NULL, NULL, named_struct({', '.join(parts)}))"

    def _guard(self, sql: str, wanted: DataType, fits: str, why: str) -> str:
        cast = f"try_cast({sql} AS {wanted.simpleString()})"
        return f"CASE WHEN {sql} IS NULL OR ({fits}) THEN {cast} ELSE {self._refuse(sql, why)} END"

    def _refuse(self, sql: str, why: str) -> str:
        """An expression without a type of its own that fails and names the value."""
        value = f"coalesce(CAST({sql} AS STRING), 'NULL')"
        told = f"'column', {string_literal(self._column)}, 'value', {value}, 'why', {string_literal(why)}"
        return f"raise_error(concat('NABLA_UNFIT<', to_json(named_struct({told})), '>NABLA_UNFIT'))"
