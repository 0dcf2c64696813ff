"""CREATE, DROP, REFRESH, SHOW and DESCRIBE in `lake.sql`: tables with generated values and checks, and views."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from comparing import bag
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

TABLE = """
    CREATE TABLE items (
        id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 10),
        code STRING NOT NULL,
        n INT DEFAULT 1 + 1,
        CONSTRAINT few CHECK (n < 100),
        PRIMARY KEY (code)
    )
    """


def items(lake: Lake) -> dict[str, tuple[Any, ...]]:
    return {row.code: (row.id, row.n) for row in lake.read("items").collect()}


def test_columns_get_defaults_and_numbers_however_rows_come(lake: Lake, spark: SparkSession) -> None:
    lake.sql(TABLE)
    lake.sql("INSERT INTO items (code) VALUES ('a'), ('b')")
    lake.sql("INSERT INTO items (code, n) SELECT code || 'x', n + 1 FROM items WHERE code = 'a'")
    assert items(lake) == {"a": (10, 2), "b": (20, 2), "ax": (30, 3)}
    with lake.transaction() as tx:
        tx.insert("items", [{"code": "c"}, {"code": "d", "n": 7}])
        tx.insert("items", pa.table({"code": ["e"]}))
        tx.insert("items", spark.createDataFrame([("f",)], "code STRING"))
        tx.upsert("items", [{"code": "g"}, {"code": "a", "n": 9}])
        tx.sql("UPDATE items SET n = DEFAULT WHERE code = 'd'")
        tx.sql(
            "MERGE INTO items t USING (SELECT 'h' AS code) AS s ON t.code = s.code "
            "WHEN NOT MATCHED THEN INSERT (code) VALUES (s.code)"
        )
    found = items(lake)
    assert {code: n for code, (_, n) in found.items()} == {**dict.fromkeys("bcdefgh", 2), "a": 9, "ax": 3}
    assert sorted(id for id, _ in found.values()) == list(range(10, 100, 10))
    assert found["a"][0] == 10


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NABLA_VIOLATED", "INSERT INTO items (code, n) VALUES ('z', 100)"),
        ("NABLA_TYPE_MISMATCH", "INSERT INTO items (n) VALUES (1)"),
        ("NABLA_IDENTITY", "INSERT INTO items VALUES (1, 'z', 1)"),
        ("NABLA_IDENTITY", "INSERT INTO items SELECT 1L, 'z', 1"),
        ("NABLA_SQL_SYNTAX", "CREATE TABLE bad (id STRING GENERATED ALWAYS AS IDENTITY)"),
        ("NABLA_EXISTS", "CREATE TABLE items (x INT)"),
        ("NABLA_STATEMENT", "CREATE TABLE bad (a INT, b INT GENERATED ALWAYS AS (a + 1))"),
        ("NABLA_STATEMENT", "CREATE TABLE bad (a INT) USING csv"),
        ("NABLA_STATEMENT", "CREATE TABLE bad (a INT) PARTITIONED BY (a)"),
        ("NABLA_TYPE_MISMATCH", "CREATE TABLE bad (a INT DEFAULT 'x')"),
        ("NABLA_NOT_WRITABLE", "CREATE VIEW v AS SELECT 1 AS x"),
        ("NABLA_NOT_WRITABLE", "CREATE DATABASE d"),
        ("NABLA_UNKNOWN_TABLE", "DROP TABLE nothing"),
    ],
)
def test_what_a_lake_does_not_do_is_refused_with_what_to_use(lake: Lake, code: str, text: str) -> None:
    lake.sql(TABLE)
    version = lake.version
    with pytest.raises(NablaError) as refused:
        lake.sql(text)
    assert (refused.value.code, lake.version) == (code, version)
    assert refused.value.remedy


def test_views_are_made_refreshed_shown_and_dropped(lake: Lake) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS t CLUSTER BY (a) AS SELECT 1 AS a, 'x' AS b")
    lake.sql("CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS a")
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    lake.sql("INSERT INTO t VALUES (1, 'y')")
    assert bag(lake.sql("REFRESH MATERIALIZED VIEW v").select("view", "inserted", "deleted")) == {("v", 1, 1): 1}
    assert bag(lake.read("v")) == {(1, 2): 1}
    lake.sql("-- another one\nCREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert bag(lake.sql("SELECT * FROM v")) == {(1,): 2}
    assert bag(lake.sql("SHOW TABLES")) == {("", "t", False): 1}
    assert bag(lake.sql("SHOW VIEWS LIKE 'V*'")) == {("", "v", False): 1}
    assert [row.inserted for row in lake.sql("DESCRIBE HISTORY t").collect()] == [1, 1]
    assert [row.col_name for row in lake.sql("DESCRIBE t").collect()] == ["a", "b"]
    lake.sql("CREATE OR REPLACE TABLE t AS SELECT 5 AS a, 'z' AS b")
    assert bag(lake.sql("SELECT * FROM t")) == {(5, "z"): 1}
    with pytest.raises(NablaError, match="NABLA_IN_USE"):
        lake.sql("DROP TABLE t")
    lake.sql("DROP MATERIALIZED VIEW v")
    lake.sql("DROP TABLE t")
    assert bag(lake.sql("DROP TABLE IF EXISTS t")) == {("t", "absent"): 1}
    lake.sql("SET spark.sql.ansi.enabled = true")
