"""Rows that Spark wrote are brought to the driver where they are few and plain."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nabla.engine import relations as results
from nabla.engine.relations import ComputedRows

pytestmark = pytest.mark.spark

PLAIN = """
    SELECT id AS a, CAST(id AS DECIMAL(12,2)) AS b, timestamp_micros(id) AS c, DATE '2020-01-01' AS d,
        IF(id = 3, NULL, concat('v', id)) AS e, unhex('ff00') AS f, id / 7 AS g,
        CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS h
    FROM range(10)"""


def written(spark: SparkSession, sql: str, folder: Path) -> ComputedRows:
    frame = spark.sql(sql)
    frame.write.parquet(str(folder / "rows"))
    return ComputedRows(frame.schema, folder=str(folder / "rows"))


def test_few_plain_rows_are_fetched(spark: SparkSession, tmp_path: Path) -> None:
    fetched = written(spark, PLAIN, tmp_path).fetch(10)
    assert fetched.table is not None
    assert fetched.table.schema.types == spark.sql(PLAIN).toArrow().schema.types
    assert sorted(map(str, fetched.table.to_pylist())) == sorted(map(str, spark.sql(PLAIN).toArrow().to_pylist()))


def test_no_rows_are_fetched_too(spark: SparkSession, tmp_path: Path) -> None:
    fetched = written(spark, "SELECT id AS a FROM range(10) WHERE id > 10", tmp_path).fetch(10)
    assert fetched.table is not None
    assert fetched.table.num_rows == 0


@pytest.mark.parametrize(
    "sql",
    ["SELECT id AS a FROM range(11)", "SELECT array(id) AS a FROM range(3)", "SELECT struct(id) AS a FROM range(3)"],
)
def test_many_rows_and_nested_ones_stay_where_they_are(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    rows = written(spark, sql, tmp_path)
    assert rows.fetch(10) is rows


def test_large_rows_stay_where_they_are(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_BYTES", 1000)
    rows = written(spark, "SELECT repeat(uuid(), 100) AS a FROM range(3)", tmp_path)
    assert rows.fetch(10) is rows
