"""What a schema declares of its columns is enforced, or refused: nothing is taken and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("code", "schema"),
    [
        ("NABLA_SCHEMA", "name STRING COLLATE UTF8_LCASE"),
        ("NABLA_SCHEMA", "names ARRAY<STRING COLLATE UTF8_LCASE>"),
        ("NABLA_SCHEMA", "id INT COMMENT 'a number'"),
        ("NABLA_SCHEMA", "point STRUCT<x: INT COMMENT 'left'>"),
        ("NABLA_SCHEMA", "id INT DEFAULT 5"),
        ("NABLA_SCHEMA", "id INT PRIMARY KEY"),
        ("NABLA_SCHEMA", "INT"),
        ("NABLA_SCHEMA", ""),
        ("NABLA_SCHEMA", StructType([StructField("id", IntegerType(), True, {"CURRENT_DEFAULT": "5"})])),
        ("NABLA_ARGUMENT", 5),
        ("NABLA_ARGUMENT", IntegerType()),
    ],
)
def test_declarations_that_a_table_would_not_keep_are_refused(lake: Lake, code: str, schema: Any) -> None:
    with pytest.raises(NablaError) as caught:
        lake.create_table("t", schema)
    assert (caught.value.code, list(lake.status())) == (code, [])


@pytest.mark.parametrize("column", ["id INT NOT NULL", "id VARCHAR(3)", "parts ARRAY<STRUCT<id: CHAR(2)>>"])
def test_nested_tables_refuse_declarations(lake: Lake, column: str) -> None:
    with pytest.raises(NablaError, match="NABLA_NESTED_SCHEMA"):
        lake.create_nested("t", f"k STRING, {column}")


def test_the_first_rows_of_a_table_keep_to_its_declarations(lake: Lake, spark: SparkSession) -> None:
    schema = "id INT NOT NULL, name VARCHAR(2)"
    for data in ([(None, "a")], [{"name": "a"}], pa.table({"id": [1], "name": ["abc"]}), [(1, "abc")]):
        with pytest.raises(NablaError, match="NABLA_TYPE_MISMATCH"):
            lake.create_table("t", schema, data)
    for text in ("SELECT NULL AS id, 'a' AS name", "SELECT 1 AS id, 'abc' AS name"):
        with pytest.raises(NablaError, match="NABLA_TYPE_MISMATCH"):
            lake.create_table("t", schema, spark.sql(text))
    assert not lake.status()


def test_a_table_made_from_a_dataframe_takes_nulls(lake: Lake, spark: SparkSession) -> None:
    lake.create_table("t", data=spark.range(1))  # Spark knows that it has no NULLs; nobody has declared so
    with lake.transaction() as tx:
        tx.insert("t", [(None,)])
    assert lake.status()["t"].rows == 2


def test_declarations_hold_in_another_process(lake: Lake, spark: SparkSession) -> None:
    lake.create_table("t", "id INT NOT NULL, code CHAR(3)")
    again = nabla.open(Path(lake.path), spark=spark)
    with again.transaction() as tx:
        tx.insert("t", [(1, "a")])
        with pytest.raises(NablaError, match="row 0: it is declared NOT NULL"):
            tx.insert("t", [(None, "a")])
    assert again.read("t").first().code == "a  "  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("code", "rows"),
    [
        ("NABLA_COLUMNS", [{}]),
        ("NABLA_COLUMNS", [{"id": 1, "ID": 2}]),
        ("NABLA_COLUMNS", [{5: 1}]),
        ("NABLA_ROWS", {"id": 1}),
        ("NABLA_ROWS", 5),
        ("NABLA_WIDTH", [5]),
    ],
)
def test_rows_that_say_nothing_or_too_much_are_refused(lake: Lake, code: str, rows: Any) -> None:
    lake.create_table("t", "id INT, name STRING")
    with pytest.raises(NablaError) as caught, lake.transaction() as tx:
        tx.insert("t", rows)
    assert (caught.value.code, lake.status()["t"].version) == (code, 0)


def test_rows_come_from_whatever_hands_out_arrow(lake: Lake) -> None:
    class Frame:
        """As pandas, Polars and DuckDB do it."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table(
                {"id": pa.array([1.0, None]), "day": pa.array(["a", "b"]).dictionary_encode()}
            ).__arrow_c_stream__()

    lake.create_table("t", "id INT, day STRING", data=Frame())
    lake.create_table("u", data=Frame())
    assert [tuple(row) for row in lake.read("t").collect()] == [(1, "a"), (None, "b")]
    assert [name for name, _ in lake.read("u").dtypes] == ["id", "day"]
