"""Tables and views under names of a catalog: always whole versions, for everybody who uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

HIVE = """
import sys
from pyspark.sql import SparkSession
folder = sys.argv[1]
spark = (
    SparkSession.builder.master("local[1]").enableHiveSupport()
    .config("spark.sql.warehouse.dir", folder + "/warehouse").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder}/metastore;create=true")
    .getOrCreate()
)
"""
WRITES = """
import nabla
spark.sql("CREATE DATABASE reports")
lake = nabla.open(folder + "/lake", spark=spark)
lake.create_table("orders", "id BIGINT, region STRING, amount INT", [(1, "n", 10), (2, "s", 5)])
lake.create_view("revenue", "SELECT region, SUM(amount) AS total FROM orders GROUP BY region")
lake.publish("revenue", "reports.revenue")
with lake.transaction() as tx:
    tx.insert("orders", [(3, "s", 1)])
lake.refresh()
"""
READS = """
print(sorted(map(tuple, spark.table("reports.revenue").collect())))
print({row[0]: row[1] for row in spark.sql("SHOW TBLPROPERTIES reports.revenue").collect()}["nabla.sources"])
print(spark.table("reports.revenue").schema["total"].metadata["comment"])
"""


def tables(spark: SparkSession) -> list[str]:
    """The tables of the database, without temporary views."""
    return [row.tableName for row in spark.sql("SHOW TABLES IN reports").collect() if not row.isTemporary]


@pytest.fixture
def database(spark: SparkSession) -> str:
    spark.sql("CREATE DATABASE IF NOT EXISTS reports")
    for table in tables(spark):
        spark.sql(f"DROP TABLE reports.{table}")
    return "reports"


def sales(lake: Lake) -> None:
    lake.create_table("orders", "id BIGINT, region STRING, amount INT", [(1, "n", 10), (2, "s", 5)])
    lake.create_view("revenue", "SELECT region, SUM(amount) AS total FROM orders GROUP BY region")


def test_a_published_name_follows_every_commit(lake: Lake, spark: SparkSession, database: str) -> None:
    sales(lake)
    lake.publish("revenue", f"{database}.revenue", comments={"region": "where it's sold"})
    lake.publish("orders", f"spark_catalog.{database}.all_orders")
    held = spark.table("reports.revenue")
    comments = [field.metadata["comment"] for field in held.schema.fields]
    assert comments == ["where it's sold", "from orders.amount"]
    with lake.transaction() as tx:
        tx.insert("orders", [(3, "w", 1)])
        tx.delete("orders", where="id = 2")
    assert bag(spark.table("reports.all_orders")) == bag(lake.read("orders"))
    lake.refresh()
    assert bag(spark.table("reports.revenue")) == bag(lake.read("revenue")) == {("n", 10): 1, ("w", 1): 1}
    assert bag(held) == {("n", 10): 1, ("s", 5): 1}
    said = {row[0]: row[1] for row in spark.sql("SHOW TBLPROPERTIES reports.revenue").collect()}
    assert (said["nabla.name"], said["nabla.version"], said["nabla.sources"]) == ("revenue", "1", '{"orders": 1}')
    [where] = [r[1] for r in spark.sql("DESCRIBE TABLE EXTENDED reports.revenue").collect() if r[0] == "Location"]
    files = f"{where.removeprefix('file:')}/*.parquet"
    assert sorted(duckdb.execute(f"SELECT * FROM read_parquet('{files}')").fetchall()) == [("n", 10), ("w", 1)]
    lake.alter_table("orders", add="note STRING", rename={"region": "area"})
    assert spark.table("reports.all_orders").columns == ["id", "area", "amount", "note"]
    lake.revert(lake.version - 1)
    lake.create_view("revenue", "SELECT area, COUNT(*) AS n FROM orders GROUP BY area", rebuild=True)
    assert bag(spark.table("reports.revenue")) == {("n", 1): 1, ("w", 1): 1}
    lake.unpublish("orders")
    assert tables(spark) == ["revenue"]
    lake.drop_view("revenue")
    assert tables(spark) == []


def test_a_name_belongs_to_one_lake(lake: Lake, spark: SparkSession, database: str, tmp_path: Path) -> None:
    sales(lake)
    lake.publish("revenue", f"{database}.revenue")
    other = nabla.open(tmp_path / "other", spark=spark)
    sales(other)
    spark.sql("CREATE TABLE reports.mine (x INT) USING parquet")
    for code, refused in (
        ("NABLA_PUBLISHED", lambda: other.publish("revenue", "reports.revenue")),
        ("NABLA_PUBLISHED", lambda: lake.publish("orders", "reports.revenue")),
        ("NABLA_EXISTS", lambda: lake.publish("orders", "reports.mine")),
        ("NABLA_PUBLISH", lambda: lake.publish("orders", "nowhere.orders")),
        ("NABLA_PUBLISH", lambda: lake.publish("orders", "iceberg.reports.orders")),
        ("NABLA_PUBLISH", lambda: lake.publish("orders", "a b")),
        ("NABLA_PUBLISH", lambda: other.unpublish("revenue")),
        ("NABLA_UNKNOWN_TABLE", lambda: lake.publish("nothing", "reports.x")),
        ("NABLA_UNKNOWN_COLUMN", lambda: lake.publish("orders", "reports.x", comments={"nothing": "x"})),
    ):
        with pytest.raises(NablaError, match=f"^{code}:"):
            refused()
    assert bag(spark.table("reports.revenue")) == bag(lake.read("revenue"))


def test_a_hive_metastore_shows_a_published_view_to_another_process(tmp_path: Path) -> None:
    for program in (WRITES, READS):
        done = subprocess.run(
            [sys.executable, "-c", HIVE + program, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["[('n', 10), ('s', 6)]", '{"orders": 1}', "from orders.amount"]
