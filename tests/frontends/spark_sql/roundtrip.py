"""A definition is right if its algebra, printed as SQL again, gives the rows and types of the query it came from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nabla.algebra.nodes import Opaque
from nabla.algebra.sql import to_sql
from nabla.frontends.spark_sql.define import Definition, define


def plain(value: Any) -> Any:
    """Comparable and hashable, floating point to nine digits."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, dict):
        return frozenset((plain(k), plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return bytes(value) if isinstance(value, bytearray) else value


def bag(frame: DataFrame) -> Counter[Any]:
    # Python has no value for an interval of months.
    columns = [f"CAST(`{c}` AS STRING)" if "interval" in t else f"`{c}`" for c, t in quoted(frame)]
    return Counter(plain(tuple(row)) for row in frame.selectExpr(*columns).collect())


def quoted(frame: DataFrame) -> list[tuple[str, str]]:
    return [(name.replace("`", "``"), type) for name, type in zip(frame.columns, types(frame), strict=True)]


def types(frame: DataFrame) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema.fields]


def relowered(spark: SparkSession, definition: Definition) -> DataFrame:
    return spark.sql(to_sql(definition.plan, lambda scan: scan.table))


def assert_same(spark: SparkSession, query: str | DataFrame, tables: Collection[str]) -> Definition:
    definition = define(spark, query, tables, "v")
    assert not isinstance(definition.plan, Opaque), definition.plan.why
    for function in definition.functions:
        function.register(spark)
    original = spark.sql(query) if isinstance(query, str) else query
    again = relowered(spark, definition)
    assert types(again) == types(original)
    assert [c.label for c in definition.plan.columns] == list(definition.outputs) == original.columns
    assert bag(again) == bag(original)
    return definition


def fails(frame: DataFrame) -> bool:
    try:
        frame.collect()
    except (PySparkException, Py4JJavaError):
        return True
    return False
