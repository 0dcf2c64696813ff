"""Queries answered from views on Spark: the plain query's rows and schema, and nothing read but the views."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import nabla
from nabla.engine.spark.metrics import Work, work_of
from nabla.errors import NablaError
from nabla.lake.answer import run_sql
from nabla.lake.answer.answer import Answer
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

BY_CITY = (
    "SELECT city, day, SUM(price) AS total, COUNT(*) AS n, COUNT(price) AS c, MAX(price) AS top FROM sales GROUP BY ALL"
)
QUERIES = (
    "SELECT city, SUM(price) AS total, COUNT(*) FROM sales GROUP BY city ORDER BY city DESC",
    "SELECT AVG(price) AS mean, MAX(price), COUNT(DISTINCT city) FROM sales WHERE day > 3",
    "SELECT nation, SUM(price) AS total FROM sales JOIN cities ON city = name GROUP BY nation HAVING COUNT(*) > 1",
    "SELECT city, SUM(price) AS x FROM sales GROUP BY city ORDER BY x DESC, city LIMIT 1",
    "SELECT DISTINCT day AS d FROM sales WHERE city IN ('a', 'b')",
    BY_CITY,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    lake = nabla.open(tmp_path_factory.mktemp("answers") / "lake", spark=spark)
    lake.create_table("cities", "name STRING, nation STRING", [("a", "x"), ("b", "x"), ("c", None)], key="name")
    rows = [("abc"[i % 3], i % 7, Decimal(i) / 4 if i % 5 else None) for i in range(60)]
    lake.create_table("sales", "city STRING, day INT, price DECIMAL(10,2)", [*rows, (None, None, None)])
    lake.create_view("by_city", BY_CITY)
    return lake


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(str(row) for row in frame.collect())


def work(frame: DataFrame) -> Work:
    """The jobs of Spark for a query, and what they read."""
    group = f"counted {id(frame)}"
    spark = frame.sparkSession
    spark.sparkContext.setJobGroup(group, group)
    try:
        frame.collect()
        return work_of(spark, group)
    finally:
        spark.sparkContext._jsc.clearJobGroup()


def described(frame: DataFrame) -> list[tuple[object, ...]]:
    return [(f.name, f.dataType, f.nullable) for f in frame.schema.fields]


def agrees(lake: Lake, query: str, answer: Answer | None = None) -> None:
    answered = answer or lake.answer(query, views="only")
    plain = lake.sql(query, views="never")
    assert described(answered.frame) == described(plain)
    if "ORDER BY" in query:
        assert answered.frame.collect() == plain.collect()
    else:
        assert bag(answered.frame) == bag(plain)


def test_answers_have_the_rows_and_the_schema_of_the_plain_query(shop: Lake) -> None:
    for query in QUERIES:
        agrees(shop, query)


def test_an_identical_query_reads_the_view_and_nothing_else(shop: Lake) -> None:
    answer = shop.answer(BY_CITY)
    assert answer.views == ("by_city",)
    files = answer.frame.inputFiles()
    assert files
    assert all("by_city" in file for file in files)
    plan = str(answer.frame._jdf.queryExecution().optimizedPlan())
    assert "Aggregate" not in plan
    assert "Join" not in plan
    counted, plain = work(answer.frame), work(shop.sql(BY_CITY, views="never"))
    view = shop.read("by_city")
    assert counted.jobs == 1 < plain.jobs
    assert counted.rows_read == view.count() < plain.rows_read == shop.read("sales").count()
    assert 0 < counted.bytes_read == work(view).bytes_read


def test_small_tables_are_read_as_they_are_and_large_ones_through_views(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any("sales" in file for file in shop.sql(QUERIES[0]).inputFiles())
    monkeypatch.setattr(run_sql, "LARGE", 1)
    assert all("by_city" in file for file in shop.sql(QUERIES[0]).inputFiles())
    assert any("sales" in file for file in shop.sql(QUERIES[0], views="never").inputFiles())


def test_queries_without_one_result_are_run_as_they_are(shop: Lake) -> None:
    for query in (
        "SELECT city FROM sales LIMIT 1",
        "SELECT city, rand() FROM sales",
        "SELECT current_date() FROM sales",
    ):
        answer = shop.answer(query)
        assert answer.views == ()
        assert answer.note


def test_reasons_have_a_code_and_the_nearest_one_is_in_the_error(shop: Lake) -> None:
    (reason,) = shop.answer("SELECT city, MIN(price) FROM sales GROUP BY city").reasons
    assert str(reason) == "by_city: NABLA_ANSWER_AGGREGATE: it does not have min(price)"
    with pytest.raises(NablaError, match="NABLA_NOT_ANSWERED: no view can answer the query; the nearest is by_city"):
        shop.sql("SELECT city, MIN(price) FROM sales GROUP BY city", views="only")


def test_every_view_of_the_same_tables_has_a_reason(lake: Lake) -> None:
    lake.create_table("edges", "a INT, b INT, at TIMESTAMP", [(1, 2, None), (2, 3, None)])
    lake.create_table("other", "a INT", [(1,)])
    lake.create_rules("paths", "path(X, Y) :- edges(X, Y, T). path(X, Z) :- path(X, Y), edges(Y, Z, T).")
    lake.create_views(
        {
            "recent": "SELECT a FROM edges WHERE at > current_timestamp() - INTERVAL 1 DAY",
            "ranked": "SELECT a, row_number() OVER (ORDER BY a) AS r FROM edges",
            "degrees": "SELECT a, COUNT(*) AS n FROM edges GROUP BY a",
            "counts": "SELECT n, COUNT(*) AS m FROM degrees GROUP BY n",
            "elsewhere": "SELECT a, COUNT(*) AS n FROM other GROUP BY a",
        }
    )
    nearby = {"path", "recent", "ranked", "degrees", "counts"}
    for query in (
        "SELECT b, MIN(a) FROM edges GROUP BY b",
        "SELECT a, COUNT(*) AS n FROM edges GROUP BY a",
        "SELECT a, rand() FROM edges",
        "SELECT a FROM edges LIMIT 1",
    ):
        answer = lake.answer(query)
        reasons = {reason.view: reason.code for reason in answer.reasons}
        assert set(reasons) == nearby - set(answer.views), query
        assert len(reasons) == len(answer.reasons)
        readable = answer.note in ("", "no view answers it")
        assert (reasons["path"], reasons["recent"]) == (
            ("NABLA_ANSWER_VIEW",) if readable else ("NABLA_ANSWER_QUERY",)
        ) * 2
    with pytest.raises(NablaError, match=r"NABLA_NOT_ANSWERED.*the nearest is \w+: NABLA_ANSWER_QUERY"):
        lake.answer("SELECT a, rand() FROM edges", views="only")


def test_a_view_that_is_behind_is_read_with_its_pending_change(tmp_path: Path, spark: SparkSession) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table(
        "sales", "city STRING, day INT, price DECIMAL(10,2)", [("a", 1, Decimal(5)), ("b", 2, Decimal(7))]
    )
    lake.create_view("by_city", BY_CITY)
    with lake.transaction() as tx:
        tx.insert("sales", [("a", 1, Decimal(9)), (None, None, None)])
        tx.delete("sales", "city = 'b'")
    answer = lake.answer(QUERIES[0], views="only")
    assert answer.pending == ("by_city",)
    agrees(lake, QUERIES[0], answer)
    assert lake.status()["by_city"].stale
    old = lake.answer(QUERIES[0], fresh_within="1 hour")
    assert old.versions == {"sales": 0}
    assert {row.city for row in old.frame.collect()} == {"a", "b"}
    assert lake.answer(QUERIES[0], fresh_within="0 seconds").views == ()
    lake.refresh()
    answer = lake.answer(QUERIES[0])
    assert answer.pending == ()
    lake.drop_view("by_city")
    assert answer.frame.count() == 2  # the reader keeps its version


def test_wrong_declarations_prove_nothing_and_enforced_ones_do(tmp_path: Path, spark: SparkSession) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    for suffix, enforce in (("1", False), ("2", True)):
        lake.create_table(f"c{suffix}", "id INT, name STRING", [(1, "a"), (2, "b")], key="id", enforce=enforce)
        lake.create_table(
            f"f{suffix}",
            "c INT, v INT",
            [(1, 1), (1, 2), (2, 3)],
            foreign_keys={"c": f"c{suffix}.id"},
            enforce=enforce,
        )
        lake.create_view(
            f"j{suffix}", f"SELECT c, name, SUM(v) AS s FROM f{suffix} JOIN c{suffix} ON c = id GROUP BY c, name"
        )
    with lake.transaction() as tx:
        tx.insert("c1", [(1, "again")])
    lake.refresh()
    (reason,) = lake.answer("SELECT c, SUM(v) AS s FROM f1 GROUP BY c").reasons
    assert reason.code == "NABLA_ANSWER_KEY"
    answer = lake.answer("SELECT c, SUM(v) AS s FROM f2 GROUP BY c", views="only")
    assert "lossless join" in answer.rules
    agrees(lake, "SELECT c, SUM(v) AS s FROM f2 GROUP BY c", answer)


def test_a_transaction_is_asked_about_the_state_that_it_would_make(lake: Lake) -> None:
    lake.create_table("sales", "city STRING, price INT", [("a", 1), ("b", 2)])
    lake.create_view("totals", "SELECT city, SUM(price) AS total FROM sales GROUP BY city")
    with pytest.raises(NablaError, match="NABLA_NOT_A_QUERY"), lake.transaction() as tx:
        tx.sql("DROP TABLE sales")
    with lake.transaction() as tx:
        tx.insert("sales", [("a", 10), ("c", 3)])
        query = "SELECT s.city, total FROM sales s JOIN totals t ON s.city = t.city WHERE price > 2"
        assert {tuple(row) for row in tx.sql(query).collect()} == {("a", 11), ("c", 3)}
        tx.delete("sales", "city = 'c'")
        assert tx.sql("SELECT MAX(total) FROM totals").collect()[0][0] == 11
        assert lake.sql("SELECT COUNT(*) FROM sales").collect()[0][0] == 2
    with pytest.raises(NablaError, match="NABLA_TRANSACTION_CLOSED"):
        tx.sql(query)


def test_a_view_is_made_and_maintained_from_another_one(lake: Lake) -> None:
    rows = [("abc"[i % 3], i % 4, i) for i in range(200)]
    lake.create_table("sales", "city STRING, day INT, price INT", rows)
    lake.create_view("daily", "SELECT city, day, SUM(price) AS total, COUNT(price) AS c FROM sales GROUP BY city, day")
    text = "SELECT city, SUM(price) AS total, AVG(price) AS mean FROM sales GROUP BY city"
    report = lake.create_view("yearly", text, over="views")
    assert "reads daily in the place of tables" in report.reason
    lake.create_view("alone", text)
    with lake.transaction() as tx:
        tx.insert("sales", [("a", 9, 1000), ("d", None, None)])
        tx.delete("sales", "city = 'b'")
    lake.refresh()
    assert bag(lake.read("yearly")) == bag(lake.read("alone"))
    lake.verify()
    with pytest.raises(NablaError, match="NABLA_IN_USE"):
        lake.drop_view("daily")
    assert "daily" not in lake.create_view("other", "SELECT MIN(price) AS low FROM sales", over="views").reason
