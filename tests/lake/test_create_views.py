"""Creating views: several in one commit, and small ones without Spark."""

from __future__ import annotations

from typing import Any

import pytest
from comparing import bag, refreshed

from nabla.engine.driver import driver_query
from nabla.engine.queries import Queries
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

TOTALS = "SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY region"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    rows = [(1, "north", 10), (2, "south", 20), (3, "north", 30), (4, None, 40)]
    lake.create_table("orders", schema="id INT, region STRING, amount INT", data=rows)
    return lake


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes of the plans that asked Spark a query."""
    modes: list[str] = []
    by_spark = Queries.by_spark

    def note(queries: Queries, *arguments: Any) -> Any:
        modes.append(queries.plan.mode)
        return by_spark(queries, *arguments)

    monkeypatch.setattr(Queries, "by_spark", note)
    return modes


def test_views_are_created_in_one_commit_and_read_those_before_them(shop: Lake) -> None:
    before = shop.version
    large = {"totals": TOTALS, "large": "SELECT region FROM Totals WHERE total >= 40", "ids": "SELECT id FROM orders"}
    reports = shop.create_views(large, maintain="manual")
    assert list(reports) == ["totals", "large", "ids"]
    assert shop.version == before + 1
    assert bag(shop.read("large")) == {("north",): 1, (None,): 1}
    assert bag(shop.sql("SELECT COUNT(*) FROM large JOIN totals USING (region)")) == {(1,): 1}
    with shop.transaction() as tx:
        tx.insert("orders", [(5, "south", 25)])
    assert refreshed(shop, "totals", "large")["large"].inserted == 1
    assert shop.status()["ids"].stale


def test_either_all_views_are_created_or_none(shop: Lake) -> None:
    before = shop.version
    for wrong in ("SELECT nope FROM totals", "SELECT 1 AS a, 2 AS a", "SELECT * FROM nowhere"):
        with pytest.raises(NablaError):
            shop.create_views({"totals": TOTALS, "wrong": wrong})
    with pytest.raises(NablaError, match="there is a table"):
        shop.create_views({"totals": TOTALS, "Orders": TOTALS})
    with pytest.raises(NablaError, match="there is a view"):
        shop.create_views({"totals": TOTALS, "TOTALS": TOTALS})
    assert shop.version == before
    assert [name for name, _ in shop.status().items()] == ["orders"]
    assert not shop.create_views({})
    assert shop.version == before
    shop.create_views({"totals": TOTALS})


def test_a_view_over_small_tables_is_built_and_recomputed_without_spark(shop: Lake, asked: list[str]) -> None:
    shop.create_view("totals", TOTALS)
    shop.create_view("pairs", "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.region = b.region")
    assert asked == []
    assert bag(shop.read("totals")) == {("north", 40, 2): 1, ("south", 20, 1): 1, (None, 40, 1): 1}
    shop.verify()
    refreshed(shop, "totals", mode="full")
    assert asked == []


def test_the_time_of_a_tiny_build_is_not_taken_for_that_of_recomputing(shop: Lake) -> None:
    """Tables have few rows when views are made, and many later."""
    shop.create_view("totals", TOTALS)
    shop.create_view("halves", "SELECT id, upper(region) AS region FROM orders")
    past = {name: shop.context.log.state().entries[name].facts["past"] for name in ("totals", "halves")}
    assert past["totals"] == []
    assert [one["mode"] for one in past["halves"]] == ["full"]


@pytest.mark.parametrize(("most_bytes", "modes"), [(driver_query.MOST_SCANNED, set()), (0, {"full"})])
def test_a_table_that_is_too_large_for_one_machine_is_left_to_spark(
    shop: Lake, asked: list[str], monkeypatch: pytest.MonkeyPatch, most_bytes: int, modes: set[str]
) -> None:
    monkeypatch.setattr(driver_query, "MOST_SCANNED", most_bytes)
    shop.create_table("many", schema="id INT", data=[(i,) for i in range(2000)])
    shop.create_view("found", "SELECT many.id FROM many JOIN orders ON many.id = orders.id")
    assert set(asked) == modes
    assert bag(shop.read("found")) == {(i,): 1 for i in range(1, 5)}


def test_an_error_of_the_query_is_that_of_spark(shop: Lake) -> None:
    with pytest.raises(NablaError, match=r"[Dd]ivision by zero"):
        shop.create_view("none", "SELECT id, amount / (id - 1) AS share FROM orders")
