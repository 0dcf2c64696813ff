"""Bags of rows as DataFrames: the weight `_n` of a row is the number of its copies, negative where they are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from nabla.algebra.expressions import quote
from nabla.algebra.map_keys import Array, Leaf, Map, Shape, Struct, group_key
from nabla.storage.bags import N


def weigh(frame: DataFrame, weight: int) -> DataFrame:
    """Every row with the same weight."""
    return frame.selectExpr("*", f"CAST({weight} AS BIGINT) AS {N}")


def consolidate(signed: DataFrame, names: Sequence[str]) -> DataFrame:
    """The different rows of some columns, with the sums of their weights, where these are not 0."""
    keys = {quote(name): group_key(quote(name), _shape(signed.schema[name].dataType)) for name in names}
    plain = [name for name, key in keys.items() if key == name]
    grouped = signed.groupBy(*plain, *(F.expr(key).alias(f"_key {name}") for name, key in keys.items() if key != name))
    rows = grouped.agg(F.sum(N).alias(N), *(F.first(name).alias(f"_row {name}") for name in keys if name not in plain))
    ordered = [F.col(name) if name in plain else F.col(quote(f"_row {name}")) for name in keys]
    return rows.select(*ordered, F.col(N)).toDF(*names, N).where(f"{N} <> 0")


def equality_keys(frame: DataFrame, names: Sequence[str]) -> list[str]:
    """For each column an expression of SQL that Spark can compare: equal exactly where the values are."""
    return [group_key(quote(name), _shape(frame.schema[name].dataType)) for name in names]


def _shape(type_: DataType) -> Shape:
    match type_:
        case MapType():
            return Map(_shape(type_.valueType))
        case ArrayType():
            return Array(_shape(type_.elementType))
        case StructType():
            return Struct(tuple((field.name, _shape(field.dataType)) for field in type_.fields))
    return Leaf()


def repeat(signed: DataFrame, *columns: str) -> DataFrame:
    """SQL expressions over each row, as many times as its weight says, whatever the sign of the weight."""
    copies = signed.withColumn("_copy", F.explode(F.expr(f"array_repeat(true, CAST(abs({N}) AS INT))")))
    return copies.selectExpr(*columns)
