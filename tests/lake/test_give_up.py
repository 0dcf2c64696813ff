"""A refresh that takes longer than recomputing gives up, recomputes, says so, and the planner remembers it."""

from __future__ import annotations

import pytest
from comparing import refreshed

from nabla.engine import budget
from nabla.engine.driver import driver_query
from nabla.frontends.spark_sql.failures import wants_memory
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("on_spark", [False, True])
def test_a_refresh_without_time_recomputes_and_is_not_tried_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, on_spark: bool
) -> None:
    if on_spark:
        monkeypatch.setattr(driver_query, "MOST_BYTES", -1)
    lake.create_table("t", schema="id BIGINT, k INT, x BIGINT", data=[(i, i % 7, i) for i in range(100)])
    lake.create_view("v", "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM t GROUP BY k")

    def change(first: int) -> None:
        with lake.transaction() as tx:
            tx.insert("t", [(i, i % 7, i) for i in range(first, first + 5)])

    change(1000)
    refreshed(lake, mode="full")  # so that the time of recomputing is known
    monkeypatch.setattr(budget, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(budget, "PATIENCE", 0.0)
    monkeypatch.setattr(budget, "PATIENCE_WITH_MODELS", 0.0)
    change(2000)
    report = refreshed(lake, mode="auto")["v"]
    assert report.mode == "full"
    assert report.reason.startswith("NABLA_OVER_BUDGET: given up after ")
    change(3000)
    assert refreshed(lake, mode="incremental")["v"].mode == "incremental"  # as asked: no budget


def test_the_planner_learns_from_what_was_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", schema="id BIGINT, x BIGINT", data=[(i, i) for i in range(10)])
    lake.create_view("v", "SELECT SUM(x) AS total FROM t")
    monkeypatch.setattr(budget, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(budget, "PATIENCE", 0.0)
    monkeypatch.setattr(budget, "PATIENCE_WITH_MODELS", 0.0)
    modes = []
    for first in (100, 200):
        with lake.transaction() as tx:
            tx.insert("t", [(first, first)])
        modes.append(refreshed(lake, mode="auto")["v"].mode)
    assert modes == ["full", "full"]
    past = lake.context.log.state().entries["v"].facts["past"]
    assert {p["mode"] for p in past if p.get("gave_up")} == {"incremental"}


def test_spark_says_in_many_ways_that_it_lacks_memory() -> None:
    class Failed(Exception):
        pass

    for text in (
        "org.apache.spark.SparkException: Not enough memory to build and broadcast the table to all worker nodes.",
        "Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space",
        "Total size of serialized results of 9 tasks (1.1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
    ):
        assert wants_memory(Failed(text))  # type: ignore[arg-type]
    assert not wants_memory(Failed("[DIVIDE_BY_ZERO] Division by zero."))  # type: ignore[arg-type]
