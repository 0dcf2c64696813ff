"""`lake.advise`: views proposed for queries, created, used, and given up again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nabla import NablaError
from nabla.lake.advise.workload import recorded, without_constants
from nabla.lake.facade import Lake
from nabla.storage.query_log import append_query, read_queries

SHOPS = "SELECT city, SUM(amount) AS total FROM sales JOIN shops ON shop = id WHERE day = {} GROUP BY city"
DAYS = "SELECT day, COUNT(*) AS n, AVG(amount) AS mean FROM sales GROUP BY day"


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT a FROM t WHERE b = 'secret' AND c > 5", "SELECT a FROM t WHERE b = '' AND c > 0"),
        ("SELECT a FROM t WHERE d >= DATE '2026-01-02'", "SELECT a FROM t WHERE d >= CAST('2000-01-01' AS DATE)"),
        ("SELECT substring(a, 2, 3) FROM t LIMIT 7", "SELECT SUBSTRING(a, 2, 3) FROM t LIMIT 7"),
        ("DROP TABLE t", None),
        ("SELEC", None),
    ],
)
def test_a_recorded_query_has_no_constants(query: str, kept: str | None) -> None:
    assert without_constants(query) == kept


@pytest.mark.spark
def test_views_are_proposed_created_used_and_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = lake.spark.range(600_000).selectExpr("id % 20 AS shop", "id % 50 AS day", "id AS amount")
    lake.create_table("sales", data=rows)
    lake.create_table(
        "shops", schema="id BIGINT, city STRING", data=[(i, f"city {i % 5}") for i in range(20)], key="id"
    )

    monkeypatch.setenv("NABLA_RECORD_QUERIES", "off")
    lake.sql(DAYS)
    assert recorded(lake.context) == []
    monkeypatch.delenv("NABLA_RECORD_QUERIES")
    for day in (1, 2, 3):
        lake.sql(SHOPS.format(day))
    assert [n for _, n in recorded(lake.context)] == [3]
    append_query(lake.path, "DROP TABLE sales")
    append_query(lake.path, "SELECT reflect('java.lang.System', 'exit', 3) AS x, COUNT(*) FROM sales GROUP BY 1")
    of_the_lake = lake.advise()
    assert len(of_the_lake) == 1
    assert len(of_the_lake.skipped) == 2

    advice = lake.advise([(SHOPS.format(7), 10), DAYS, "SELECT nothing FROM sales"], space="10 MB")
    assert advice.then < advice.seconds
    assert [one.reason.split(":")[0] for one in advice.skipped] == ["NABLA_UNKNOWN_COLUMN"]
    assert sum(one.bytes for one in advice) <= 10_000_000
    for proposal in advice:
        assert proposal.benefit > 0
        lake.create_advised(proposal)
    for query in (SHOPS.format(9), DAYS):
        answer = lake.answer(query)
        assert set(answer.views) <= {one.name for one in advice}
        assert answer.views
        assert sorted(answer.frame.collect()) == sorted(lake.sql(query, views="never").collect())

    lines = [json.loads(line) for line in (Path(lake.path) / "_nabla" / "queries.jsonl").read_text().splitlines()]
    assert any(line.get("views") and line["rows"] > 0 for line in lines)

    assert lake.advise([SHOPS.format(9), DAYS], space="10 MB").unused == ()
    unused = lake.advise([], space=0).unused
    assert {one.name for one in unused} == {one.name for one in advice}
    assert all(one.advised for one in unused)
    with pytest.raises(NablaError, match="is no size"):
        lake.advise([DAYS], space="much")


def test_a_damaged_record_of_queries_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "_nabla").mkdir()
    append_query(str(tmp_path), "SELECT 1")
    with (tmp_path / "_nabla" / "queries.jsonl").open("a") as file:
        file.write('{"query"\n[]\n\n')
    append_query(str(tmp_path), "SELECT 2")
    assert list(read_queries(str(tmp_path))) == ["SELECT 1", "SELECT 2"]
    append_query(str(tmp_path / "missing"), "SELECT 3")
