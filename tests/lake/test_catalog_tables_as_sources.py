"""Tables and views of the session's catalogs as tables of a lake, changed by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import bag, refreshed
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    spark.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    yield spark
    spark.sql("DROP DATABASE shop CASCADE")


def test_tables_and_views_of_a_catalog_are_followed(lake: Lake, shop: SparkSession) -> None:
    shop.sql("CREATE TABLE shop.orders (id INT, kind STRING) USING parquet PARTITIONED BY (kind)")
    shop.sql("INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b')")
    shop.sql("CREATE VIEW shop.few AS SELECT id FROM shop.orders WHERE id < 3")
    lake.register("orders", table="spark_catalog.shop.orders", key="id")
    lake.register("few", table="shop.few")
    lake.create_view("kinds", "SELECT kind, COUNT(*) AS n FROM orders GROUP BY kind")
    lake.create_view("all_few", "SELECT id FROM few")
    shop.sql("INSERT INTO shop.orders VALUES (3, 'a')")
    report = refreshed(lake, mode="incremental")
    assert (report["kinds"].mode, report["all_few"].mode) == ("incremental", "skip")
    assert bag(lake.read("kinds")) == {("a", 2): 1, ("b", 1): 1}
    shop.sql("INSERT OVERWRITE shop.orders PARTITION (kind = 'a') VALUES (1)")
    refreshed(lake, mode="incremental")
    assert bag(lake.read("orders")) == {(1, "a"): 1, (2, "b"): 1}
    shop.sql("DROP TABLE shop.orders")
    assert lake.refresh()["kinds"].mode == "held"
    shop.sql("CREATE TABLE shop.orders (id INT, kind STRING) USING json")
    shop.sql("INSERT INTO shop.orders VALUES (9, 'z')")
    refreshed(lake)
    assert bag(lake.read("kinds")) == {("z", 1): 1}
    assert any("created again" in event.reason for event in lake.history("orders"))
    shop.sql("DROP TABLE shop.orders")
    shop.sql("CREATE TABLE shop.orders (id STRING, kind STRING) USING parquet")
    assert "NABLA_SCHEMA_CHANGED" in lake.refresh()["kinds"].reason


def test_what_is_no_table_of_a_catalog_is_refused(lake: Lake, shop: SparkSession) -> None:
    lake.create_table("own", "id INT", [(1,)])
    folder = lake.context.log.folder(lake.context.log.state().entries["own"].parts["data"])
    shop.sql(f"CREATE TABLE shop.published (id INT) USING parquet LOCATION '{folder}'")
    for name, code in (
        ("own", "NABLA_CYCLE"),
        ("shop.published", "NABLA_CYCLE"),
        ("shop.nothing", "NABLA_UNKNOWN_TABLE"),
        ("nowhere.shop.orders", None),
        ("SELECT 1", None),
        ("", None),
    ):
        with pytest.raises(NablaError) as error:
            lake.register("orders", table=name)
        assert code is None or error.value.code == code, (name, str(error.value))
        assert error.value.place
    assert "orders" not in lake.status()
