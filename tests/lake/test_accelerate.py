"""`lake.accelerate`: Spark's own queries over a lake's names read views, with the plain query's rows and schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

DAILY = "SELECT city, day, SUM(price) AS total, COUNT(*) AS n FROM sales GROUP BY city, day"
QUERIES = (
    DAILY,
    "SELECT city, SUM(price) AS total FROM sales GROUP BY city ORDER BY city DESC",
    "SELECT nation, SUM(price) FROM sales JOIN cities ON city = name WHERE day > 2 GROUP BY nation",
    "WITH t AS (SELECT city, SUM(price) AS s FROM sales GROUP BY city) SELECT a.city FROM t a JOIN t b ON a.s <= b.s",
    "SELECT c.name, (SELECT SUM(price) FROM sales WHERE city = c.name) AS s FROM cities c",
)


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("cities", "name STRING, nation STRING", [("a", "x"), ("b", "x"), ("c", None)])
    rows = [("abc"[i % 3], i % 7, i if i % 5 else None) for i in range(200)]
    lake.create_table("sales", "city STRING, day INT, price INT", [*rows, (None, None, None)])
    lake.create_view("daily", DAILY)
    lake.accelerate()
    yield lake
    lake.accelerate(on=False)


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(str(row) for row in frame.collect())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString()) + str(frame._jdf.queryExecution().executedPlan())


def uses_view(frame: DataFrame) -> bool:
    """Whether a query reads the view as EXPLAIN shows it, and as the files say."""
    explained = "FileScan parquet daily" in plan_of(frame)
    assert explained == any("/daily" in file for file in frame.inputFiles())
    return explained


def test_sql_and_dataframes_read_the_view_whoever_asks(shop: Lake, spark: SparkSession) -> None:
    for query in QUERIES:
        fast, plain = spark.sql(query), shop.sql(query, views="never")
        assert uses_view(fast), query
        assert not uses_view(plain), query
        assert not uses_view(plain.where("true").select("*")), query
        assert fast.schema == plain.schema
        assert bag(fast) == bag(plain), query
    sums = spark.table("sales").groupBy("city").agg(F.sum("price").alias("s"))
    assert uses_view(sums)
    assert uses_view(sums.where("s > 5").select("city"))
    explained = spark.sql(f"EXPLAIN {QUERIES[1]}").collect()[0][0]
    assert "FileScan parquet daily" in explained
    assert "sales" not in explained
    shop.accelerate(on=False)
    assert not uses_view(spark.sql(QUERIES[1]))


def test_the_part_of_a_query_that_reads_the_lake_is_answered(shop: Lake, spark: SparkSession) -> None:
    here = spark.createDataFrame([("a", 1), ("z", 2)], "city STRING, more INT")
    sums = spark.table("sales").groupBy("city").agg(F.sum("price").alias("s"))
    joined = here.join(sums, "city", "left")
    assert uses_view(joined)
    total = sum(i for i in range(0, 200, 3) if i % 5)
    assert {tuple(row) for row in joined.collect()} == {("a", 1, total), ("z", 2, None)}
    limited = spark.sql(QUERIES[1]).limit(2)
    assert uses_view(limited)
    assert len(limited.collect()) == 2
    mixed = spark.sql(f"SELECT *, rand() AS r FROM ({QUERIES[1]})")
    assert uses_view(mixed)
    assert len(mixed.collect()) == 4


def test_a_frame_keeps_its_rows_and_a_view_that_is_behind_is_not_read(shop: Lake, spark: SparkSession) -> None:
    query = "SELECT COUNT(*) AS n FROM sales"
    old = spark.sql(query)
    with shop.transaction() as tx:
        tx.insert("sales", [("d", 1, 1)])
    assert old.collect()[0].n == 201
    assert shop.answer(old).frame.collect()[0].n == 201
    with pytest.raises(NablaError, match="as it was when the DataFrame was made"):
        shop.answer(old, views="only")
    now = spark.sql(query)
    assert not uses_view(now)
    assert now.collect()[0].n == 202
    shop.refresh()
    later = spark.sql(query)
    assert uses_view(later)
    assert [frame.collect()[0].n for frame in (now, later)] == [202, 202]


def test_definitions_commands_and_cached_frames_are_left_alone(shop: Lake, spark: SparkSession) -> None:
    shop.create_view("weekly", spark.sql(QUERIES[1]).where("city <> 'a'"))
    assert "sales.price" in str(shop.lineage("weekly.total"))
    with shop.transaction() as tx:
        tx.insert("sales", [("b", 1, 1000)])
    shop.refresh()
    shop.verify()
    sales = spark.table("sales").cache()
    try:
        sums = sales.groupBy("city").agg(F.sum("price").alias("s"))
        assert "InMemoryRelation" in plan_of(sums)
        assert not uses_view(sums)
    finally:
        sales.unpersist(blocking=True)


def test_another_session_is_accelerated_with_its_own_settings(shop: Lake, spark: SparkSession) -> None:
    other = spark.newSession()
    shop.accelerate(other)
    query = QUERIES[1]
    assert uses_view(other.sql(query))
    assert bag(other.sql(query)) == bag(shop.sql(query, views="never"))
    other.conf.set("spark.sql.ansi.enabled", "false")
    assert not uses_view(other.sql(query))
    shop.accelerate(other, on=False)


def test_only_a_session_can_be_accelerated(shop: Lake) -> None:
    wrong: Callable[..., None] = shop.accelerate
    with pytest.raises(NablaError, match="NABLA_"):
        wrong("spark")
