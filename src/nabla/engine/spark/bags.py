"""Bags of rows as DataFrames: the weight `_n` of a row is the number of its copies, negative where they are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla.algebra.expressions import quote
from nabla.storage.bags import N


def weigh(frame: DataFrame, weight: int) -> DataFrame:
    """Every row with the same weight."""
    return frame.selectExpr("*", f"CAST({weight} AS BIGINT) AS {N}")


def consolidate(signed: DataFrame, names: Sequence[str]) -> DataFrame:
    """The different rows of some columns, with the sums of their weights, where these are not 0."""
    return signed.groupBy(*map(quote, names)).agg({N: "sum"}).toDF(*names, N).where(f"{N} <> 0")


def repeat(signed: DataFrame, *columns: str) -> DataFrame:
    """SQL expressions over each row, as many times as its weight says, whatever the sign of the weight."""
    copies = signed.withColumn("_copy", F.explode(F.expr(f"array_repeat(true, CAST(abs({N}) AS INT))")))
    return copies.selectExpr(*columns)
