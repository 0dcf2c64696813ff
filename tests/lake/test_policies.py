"""Deferral policies: a view waits for a number of changed rows, or follows each source in its own time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from comparing import bag, feed
from pyspark.sql import SparkSession

import nabla
from nabla import NablaError
from nabla.lake.facade import Lake
from nabla.lake.refresh.watch import Watch

pytestmark = pytest.mark.spark

BILLS = "SELECT o.id, o.amount * r.rate AS bill FROM orders o JOIN rates r ON o.currency = r.currency"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table("orders", schema="id INT, currency STRING, amount INT", key="id", data=[(1, "a", 10)])
    lake.create_table("rates", schema="currency STRING, rate INT", key="currency", data=[("a", 2), ("b", 3)])
    return lake


def order(lake: Lake, *rows: tuple[int, str, int]) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", list(rows))


def set_rate(lake: Lake, currency: str, rate: int) -> None:
    with lake.transaction() as tx:
        tx.update("rates", set={"rate": rate}, where=f"currency = '{currency}'")


def turn(lake: Lake) -> list[str]:
    """The views that one look of a watch refreshes."""
    refreshed: list[str] = []
    assert Watch(lake, refreshed=lambda report: refreshed.append(report.name)).turn()
    return refreshed


def test_a_view_waits_for_a_number_of_changed_rows(shop: Lake) -> None:
    shop.create_view("number", "SELECT COUNT(*) AS n FROM orders", maintain="3 rows")
    shop.create_view("bills", BILLS, maintain="4 rows")
    order(shop, (2, "a", 1), (3, "b", 1))
    assert turn(shop) == []
    assert bag(shop.read("number")) == {(1,): 1}
    order(shop, (4, "b", 1))
    assert turn(shop) == ["number"]
    set_rate(shop, "b", 4)  # the deleted row and the inserted one both count, and so do the orders
    assert turn(shop) == ["bills"]
    order(shop, (5, "b", 1))
    assert shop.status()["number"].when == "3 rows"
    shop.refresh()  # as any deferred view
    assert bag(shop.read("number")) == {(5,): 1}
    shop.verify()


def test_each_source_is_followed_in_its_own_time(shop: Lake, spark: SparkSession) -> None:
    shop.create_view("bills", BILLS, maintain={"Orders": "immediate", "rates": "1 hour"})
    assert shop.status()["bills"].when == "orders: immediate, rates: 1 hour"
    order(shop, (2, "b", 5))
    assert bag(shop.read("bills")) == {(1, 20): 1, (2, 15): 1}
    set_rate(shop, "b", 4)
    order(shop, (3, "b", 1))
    assert bag(shop.read("bills")) == {(1, 20): 1, (2, 15): 1, (3, 3): 1}  # by the rates that it has
    status = nabla.open(Path(shop.path), spark=spark).status()["bills"]
    assert status.stale
    assert status.sources == {"orders": 2, "rates": 0}
    shop.verify()
    assert turn(shop) == []
    assert shop.refresh()["bills"].sources == {"orders": 2, "rates": 1}
    assert feed(shop, "bills", 2) == ({(2, 20): 1, (3, 4): 1}, {(2, 15): 1, (3, 3): 1})
    shop.verify()


def test_a_watch_takes_the_changes_that_are_due_and_leaves_the_others(shop: Lake) -> None:
    shop.create_view("bills", BILLS, maintain={"orders": "2 rows", "rates": "1 second"})
    order(shop, (2, "b", 5))
    assert turn(shop) == []
    set_rate(shop, "a", 5)
    time.sleep(1.1)
    assert turn(shop) == ["bills"]
    assert shop.status()["bills"].sources == {"orders": 0, "rates": 1}
    assert bag(shop.read("bills")) == {(1, 50): 1}
    shop.verify()
    order(shop, (3, "a", 1))
    assert turn(shop) == ["bills"]
    assert shop.status()["bills"].sources == {"orders": 2, "rates": 1}
    shop.verify()


def test_writers_of_a_source_that_waits_do_not_meet_those_of_an_immediate_one(shop: Lake, spark: SparkSession) -> None:
    shop.create_view("bills", BILLS, maintain={"orders": "immediate"})
    other = nabla.open(Path(shop.path), spark=spark)
    with shop.transaction() as tx:
        tx.insert("orders", [(2, "b", 5)])
        set_rate(other, "b", 9)
        order(other, (3, "b", 1))
    assert bag(shop.read("bills")) == {(1, 20): 1, (2, 15): 1, (3, 3): 1}
    shop.verify()


def test_a_source_that_is_built_again_is_taken_with_the_next_commit(shop: Lake) -> None:
    shop.create_view("double", "SELECT currency, 2 * rate AS rate FROM rates")
    shop.create_view("bills", BILLS.replace("rates", "double"), maintain={"orders": "immediate", "double": "1 day"})
    shop.create_view("double", "SELECT currency, 3 * rate AS rate FROM rates", rebuild=True)
    order(shop, (2, "b", 1))
    assert bag(shop.read("bills")) == {(1, 60): 1, (2, 9): 1}
    shop.verify()
    version = shop.version
    set_rate(shop, "a", 1)
    order(shop, (3, "a", 1))
    shop.refresh()
    shop.revert(version)
    order(shop, (4, "a", 1))
    shop.verify()
    assert bag(shop.read("bills")) == {(1, 60): 1, (2, 9): 1, (4, 6): 1}


def test_a_preview_and_a_fresh_read_show_what_a_refresh_would_take(shop: Lake) -> None:
    shop.create_view("bills", BILLS, maintain={"orders": "immediate", "rates": "1 hour"})
    with shop.transaction() as tx:
        tx.update("rates", set={"rate": 7}, where="currency = 'a'")
        found = shop.preview(tx)
    assert [tuple(row) for row in found["bills"].inserted] == [(1, 70)]
    assert bag(shop.read("bills")) == {(1, 20): 1}
    assert bag(shop.read("bills", fresh=True)) == {(1, 70): 1}


def test_bad_policies_are_refused(shop: Lake) -> None:
    for maintain, said in [
        ("0 rows", "'0 rows'"),
        ("many rows", "'many rows'"),
        ({}, "no schedule"),
        ({"nowhere": "immediate"}, "nowhere"),
        ({"orders": "manual"}, "'manual'"),
        ({"orders": "often"}, "'often'"),
    ]:
        with pytest.raises(NablaError, match=f"NABLA_MAINTAIN.*{said}"):
            shop.create_view("bad", BILLS, maintain=maintain)  # type: ignore[arg-type]
    with pytest.raises(NablaError, match=r"NABLA_MAINTAIN.*detached"):
        shop.create_view("bad", BILLS, maintain={"orders": "immediate"}, detached=True)
    assert "bad" not in shop.status()
