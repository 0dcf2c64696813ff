"""A lake at the URL of a folder of this machine: everything that a lake does. Object stores have tests of their own."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from comparing import bag, refreshed
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import nabla
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    return nabla.open((tmp_path / "lake").as_uri(), spark=spark)


def test_a_lake_at_a_url_does_what_others_do(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    assert lake.path == str(tmp_path / "lake")
    write_deltalake(tmp_path / "rates", pa.table({"item": ["pen", "cup"], "rate": [2, 3]}))
    lake.register("rates", (tmp_path / "rates").as_uri())
    lake.create_table("sales", "id BIGINT, item STRING, n INT", [(1, "pen", 5), (2, "cup", 1)], key="id")
    lake.create_view("totals", "SELECT item, SUM(n * rate) AS total FROM sales JOIN rates USING (item) GROUP BY item")
    lake.create_view("ranked", "SELECT id, item, RANK() OVER (PARTITION BY item ORDER BY n) AS place FROM sales")
    lake.create_view("now", "SELECT COUNT(*) AS sales FROM sales", maintain="immediate")
    first = lake.status()["sales"].version
    with lake.transaction() as tx:
        tx.insert("sales", [(3, "pen", 7), (4, "ink", 1)])
        tx.delete("sales", where="id = 2")
    assert bag(lake.read("now")) == {(3,): 1}
    assert bag(lake.read("totals", fresh=True)) == {("pen", 24): 1}
    refreshed(lake, "totals", "ranked")
    large = spark.range(100, 5_000).selectExpr("id", "'cup' AS item", "CAST(id % 7 AS INT) AS n")
    with lake.transaction() as tx:
        tx.insert("sales", large)
    assert lake.preview(lake.transaction()) is not None
    refreshed(lake, "totals", "ranked")
    lake.refresh(mode="full")
    lake.vacuum(older_than=datetime.timedelta(0))
    lake.verify()
    assert bag(lake.sql("SELECT total FROM totals WHERE item = 'pen'")) == {(24,): 1}
    assert first < lake.status()["sales"].version
    again = nabla.open(lake.path, spark=spark)
    assert again.status()["totals"].rows == 2


def test_a_table_at_a_url_is_reverted_and_dropped(lake: Lake) -> None:
    lake.create_table("t", "id BIGINT", [(1,), (2,)])
    lake.create_view("v", "SELECT id + 1 AS next FROM t")
    before = lake.history(limit=1)[0].version
    with lake.transaction() as tx:
        tx.insert("t", [(3,)])
    lake.refresh()
    lake.revert(before)
    assert bag(lake.read("v")) == {(2,): 1, (3,): 1}
    lake.drop_view("v")
    lake.drop_table("t")
    assert lake.vacuum(older_than=datetime.timedelta(0)).paths
    assert not lake.status()
