"""Whatever Spark reads as a table of a lake: nobody tells what changed, so that it is compared."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from comparing import bag, refreshed
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def hold(spark: SparkSession, rows: list[tuple[object, ...]], schema: str = "id INT, kind STRING") -> None:
    """What another system has now."""
    spark.createDataFrame(rows, schema).createOrReplaceTempView("elsewhere")


def test_a_query_is_compared_and_only_the_difference_goes_on(lake: Lake, spark: SparkSession) -> None:
    hold(spark, [(1, "a"), (2, "a"), (2, "a"), (3, None)])
    lake.register("crm", query="SELECT * FROM elsewhere", key="id")
    lake.create_view("kinds", "SELECT kind, COUNT(*) AS n FROM crm GROUP BY kind")
    version = lake.context.log.state().version
    assert refreshed(lake)["kinds"].mode == "skip"
    assert lake.context.log.state().version == version
    chance = random.Random(3)
    for _ in range(3):
        rows = [(chance.randint(0, 4), chance.choice(["a", "b", None])) for _ in range(chance.randint(0, 8))]
        hold(spark, rows)
        before, since = bag(lake.read("crm")), lake.status()["crm"].version
        refreshed(lake, mode="incremental")
        assert bag(lake.read("crm")) == Counter(rows)
        changes = bag(lake.changes("crm", since=since).select("id", "kind", "_change_type"))
        told = Counter({row[:2]: n for row, n in changes.items() if row[2] == "insert"})
        assert told == Counter(rows) - before
    assert "compared" in lake.status()["crm"].last
    assert "compared" in str(lake.explain("kinds"))
    assert lake.status()["crm"].kind == "registered"


def test_a_query_that_fails_or_has_other_columns_holds_what_reads_it(lake: Lake, spark: SparkSession) -> None:
    hold(spark, [(1, "a")])
    lake.register("crm", query="SELECT * FROM elsewhere")
    lake.create_view("kinds", "SELECT kind, COUNT(*) AS n FROM crm GROUP BY kind")
    lake.create_constraint("few", "SELECT id FROM crm WHERE id > 100")
    hold(spark, [(1, "a", 5)], "id INT, kind STRING, more INT")
    assert refreshed(lake)["kinds"].mode == "skip"
    assert lake.read("crm").columns == ["id", "kind"]
    hold(spark, [("x",)], "id STRING")
    assert "NABLA_SCHEMA_CHANGED" in lake.refresh()["kinds"].reason
    spark.catalog.dropTempView("elsewhere")
    assert lake.refresh()["kinds"].mode == "held"
    hold(spark, [(1, "a"), (101, "b")])
    held = lake.refresh()["kinds"]
    assert (held.mode, bag(lake.read("kinds"))) == ("held", {("a", 1): 1})
    hold(spark, [(1, "a"), (99, "b")])
    refreshed(lake)
    assert bag(lake.read("kinds")) == {("a", 1): 1, ("b", 1): 1}


def test_a_lake_is_no_source_of_itself(lake: Lake, spark: SparkSession) -> None:
    lake.create_table("own", "id INT", [(1,), (2,)])
    lake.create_view("big", "SELECT id FROM own WHERE id > 1")
    lake.read("big").createOrReplaceTempView("disguised")
    assert lake.spark.sql("SELECT * FROM own").count() == 2
    for query in ("SELECT * FROM big", "SELECT o.id FROM OWN o", "SELECT * FROM disguised"):
        with pytest.raises(NablaError) as error:
            lake.register("again", query=query)
        assert error.value.code == "NABLA_CYCLE"
    for query, code in (
        ("SELECT * FROM nowhere.at_all", "NABLA_UNKNOWN_TABLE"),
        ("SELEC 1", "NABLA_SQL_SYNTAX"),
        ("SELECT 1 AS a, 2 AS A", "NABLA_DUPLICATE_COLUMN"),
        ("SELECT INTERVAL 1 DAY AS long", "NABLA_TYPE"),
    ):
        with pytest.raises(NablaError) as error:
            lake.register("again", query=query)
        assert error.value.code == code, query
    assert "again" not in lake.status()
    assert lake.spark.sql("SELECT * FROM own").count() == 2
