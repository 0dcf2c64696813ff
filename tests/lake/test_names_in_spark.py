"""The tables and views of a lake by name in a Spark session: always as new as the lake, and never to be written to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

WRITING = [
    "INSERT OVERWRITE {} SELECT 7, 'x'",
    "INSERT INTO {} VALUES (7, 'x')",
    "INSERT INTO {} TABLE orders",
    "INSERT OVERWRITE IDENTIFIER('{}') SELECT 7, 'x'",
    "INSERT OVERWRITE session.{} SELECT 7, 'x'",
    "WITH q AS (SELECT 7, 'x') INSERT INTO {} SELECT * FROM q",
    "FROM orders INSERT INTO {} SELECT * INSERT OVERWRITE {} SELECT *",
    "EXECUTE IMMEDIATE 'INSERT INTO {} VALUES (7, \"x\")'",
    "BEGIN INSERT INTO {} VALUES (7, 'x'); END",
    "TRUNCATE TABLE {}",
    "DELETE FROM {}",
    "UPDATE {} SET id = 7",
    "MERGE INTO {} t USING orders s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "LOAD DATA INPATH '/nowhere' INTO TABLE {}",
    "DROP TABLE {}",
    "DROP VIEW IF EXISTS {}",
    "ALTER VIEW {} AS SELECT 1",
    "ALTER TABLE {} ADD COLUMNS (more INT)",
    "ALTER VIEW {} RENAME TO other",
    "CREATE OR REPLACE TEMP VIEW {} AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW {} USING parquet OPTIONS (path '/nowhere')",
    "CREATE VIEW {} AS SELECT 1 AS one",
    "CREATE TABLE {} (id INT) USING parquet",
    "CREATE TABLE {} USING parquet AS SELECT 1 AS one",
]
WRITERS: list[Callable[[DataFrame, str], object]] = [
    lambda rows, name: rows.write.insertInto(name, overwrite=True),
    lambda rows, name: rows.write.insertInto(name),
    lambda rows, name: rows.write.saveAsTable(name),
    lambda rows, name: rows.write.mode("overwrite").saveAsTable(name),
    lambda rows, name: rows.writeTo(name).append(),
    lambda rows, name: rows.writeTo(name).overwritePartitions(),
    lambda rows, name: rows.writeTo(name).createOrReplace(),
    lambda rows, name: rows.createOrReplaceTempView(name),
]


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table("orders", schema="id INT, item STRING", data=[(1, "a"), (2, "b")])
    lake.create_view("items", "SELECT id, item FROM orders")
    return lake


def _count(session: SparkSession, table: str) -> int:
    return session.table(table).count()


def test_no_statement_of_a_session_changes_a_table_or_a_view(shop: Lake) -> None:
    spark, files = shop.spark, _files(shop)
    on_others = [(statement, name) for statement in WRITING[:2] for name in ("items", "ORDERS")]
    for statement, name in [(statement, "orders") for statement in WRITING] + on_others:
        with pytest.raises(AnalysisException, match="NABLA_NOT_WRITABLE"):
            spark.sql(statement.replace("{}", name)).collect()
    rows = spark.createDataFrame([(7, "x")], "id INT, item STRING")
    for write in WRITERS:
        with pytest.raises(AnalysisException, match="NABLA_NOT_WRITABLE"):
            write(rows, "orders")
    assert _files(shop) == files
    shop.verify()


def test_a_statement_that_is_refused_points_to_transactions(shop: Lake) -> None:
    with pytest.raises(NablaError) as refused:
        shop.sql("ALTER TABLE orders SET TBLPROPERTIES ('a' = 'b')")
    assert refused.value.code == "NABLA_NOT_WRITABLE"
    with pytest.raises(AnalysisException, match=r"NABLA_NOT_WRITABLE.*lake.transaction\(\)"):
        shop.spark.sql("INSERT OVERWRITE orders SELECT 7, 'x'")


def test_a_name_that_a_user_gives_to_a_table_of_the_lake_cannot_be_written_to_either(shop: Lake) -> None:
    files = _files(shop)
    shop.read("orders").createOrReplaceTempView("mine")
    with pytest.raises(AnalysisException):
        shop.spark.sql("INSERT OVERWRITE mine SELECT 7, 'x'")
    assert _files(shop) == files


def test_statements_that_only_read_a_table_go_on_working(shop: Lake, tmp_path: Path) -> None:
    spark = shop.spark
    assert [row.col_name for row in spark.sql("DESCRIBE orders").collect()] == ["id", "item"]
    spark.sql("CREATE TEMP VIEW few AS SELECT * FROM orders WHERE id < 2")
    spark.sql(f"CREATE TABLE copied USING parquet LOCATION '{tmp_path}/copied' AS SELECT * FROM orders")
    spark.sql("INSERT INTO copied TABLE orders")
    assert (_count(spark, "few"), _count(spark, "copied")) == (1, 4)
    spark.sql("DROP TABLE copied")


def test_a_session_in_a_variable_finds_the_newest_rows(shop: Lake) -> None:
    spark = shop.spark
    spark.sql("CREATE TEMP VIEW all_orders AS SELECT * FROM orders")
    assert _count(spark, "orders") == 2
    with shop.transaction() as tx:
        tx.insert("orders", [(3, "c")])
    assert _count(spark, "orders") == 3
    assert _count(spark, "all_orders") == 3
    assert spark.sql("SELECT 1 WHERE EXISTS (SELECT * FROM orders WHERE id = 3)").count() == 1
    shop.refresh()
    assert _count(SparkSession.active(), "items") == 3
    shop.create_table("later", data=spark.table("orders"))
    assert _count(spark, "later") == 3


def test_a_session_in_a_variable_finds_what_another_process_committed(shop: Lake) -> None:
    spark = shop.spark
    assert _count(spark, "orders") == 2
    other = "import sys, nabla\nwith nabla.open(sys.argv[1]).transaction() as tx: tx.insert('orders', [(3, 'c')])"
    subprocess.run([sys.executable, "-c", other, shop.path], check=True)
    assert _count(spark, "orders") == 3


def test_a_name_that_was_dropped_in_the_session_comes_back(shop: Lake) -> None:
    shop.spark.catalog.dropTempView("orders")
    assert _count(shop.spark, "orders") == 2
    shop.spark.catalog.dropTempView("orders")
    assert shop.sql("SELECT * FROM orders").count() == 2


def test_two_lakes_in_one_session_do_not_read_each_other(shop: Lake, tmp_path: Path, spark: SparkSession) -> None:
    other = nabla.open(tmp_path / "other", spark=spark)
    other.create_table("orders", data=spark.range(5))
    other.create_table("others", data=spark.range(6))
    assert other.sql("SELECT * FROM orders").count() == 5
    assert shop.sql("SELECT * FROM orders").count() == 2
    assert other.sql("SELECT * FROM orders").count() == 5
    assert spark.table("items").count() == 2


def test_two_sessions_know_two_lakes(shop: Lake, tmp_path: Path, spark: SparkSession) -> None:
    other = nabla.open(tmp_path / "other", spark=spark.newSession())
    other.create_table("orders", data=spark.range(5))
    assert (_count(other.spark, "orders"), _count(shop.spark, "orders")) == (5, 2)
    with pytest.raises(AnalysisException, match="NABLA_NOT_WRITABLE"):
        other.spark.sql("TRUNCATE TABLE orders")


def test_a_dropped_table_is_gone_from_the_session(shop: Lake) -> None:
    spark = shop.spark
    shop.drop_view("items")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("items")


def _files(lake: Lake) -> dict[str, int]:
    tables = Path(lake.path) / "tables"
    return {str(path): path.stat().st_size for path in tables.rglob("*") if path.is_file()}


def test_lakes_in_several_sessions_of_one_spark(tmp_path: Path, spark: SparkSession) -> None:
    for number in range(2):
        lake = nabla.open(tmp_path / f"lake{number}", spark=spark.newSession())
        lake.create_table("numbers", schema="a INT", data=[(number,)])
        assert [row.a for row in lake.sql("SELECT a FROM numbers").collect()] == [number]
