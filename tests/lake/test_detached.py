"""Detached views: what they need of their sources is kept with them, so that these may be far away, or gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

REVENUE = (
    "SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "WHERE c.region <> 'west' GROUP BY c.region"
)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table(
        "customers", schema="id INT, region STRING, name STRING", data=[(1, "north", "a"), (2, "west", "b")]
    )
    lake.create_table("orders", schema="id INT, customer INT, amount INT", data=[(1, 1, 10), (2, 2, 20)])
    return lake


def folders(lake: Lake, *tables: str) -> list[Path]:
    state = lake.context.log.state()
    return [Path(lake.context.log.folder(state.entries[name].parts["data"])) for name in tables]


def test_a_detached_view_refreshes_after_its_sources_were_moved_away(shop: Lake, spark: SparkSession) -> None:
    shop.create_view("revenue", REVENUE, detached=True)
    shop.create_view("amounts", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer", detached=True)
    kinds = {n: s.when for n, s in shop.status().items() if s.kind == "view"}
    assert kinds == {
        "revenue_orders": "immediate",
        "revenue_customers": "immediate",
        "revenue": "deferred",
        "amounts": "immediate",
    }
    # Order 2 has no customer that counts yet, but would be needed if its customer moved.
    assert bag(shop.read("revenue_orders")) == {(1, 10): 1, (2, 20): 1}
    with shop.transaction() as tx:
        tx.insert("orders", [(3, 1, 5), (4, 3, 7), (5, 2, 100)])
        tx.insert("customers", [(3, "south", "c")])
        tx.update("customers", set={"region": "'east'"}, where="id = 2")
    for folder in folders(shop, "orders", "customers"):
        os.rename(folder, f"{folder}-away")
    other = nabla.open(shop.path, spark=spark)
    assert other.refresh("revenue", mode="strict")["revenue"].mode == "incremental"
    assert bag(other.read("revenue")) == {("north", 15): 1, ("south", 7): 1, ("east", 120): 1}
    assert bag(other.read("amounts")) == {(1, 2): 1, (2, 2): 1, (3, 1): 1}
    for folder in folders(shop, "orders", "customers"):
        os.rename(f"{folder}-away", folder)
    shop.verify()
    shop.create_view("copy", "SELECT * FROM revenue_orders")
    with pytest.raises(NablaError, match="NABLA_IN_USE"):
        shop.drop_view("revenue")
    shop.drop_view("copy")
    shop.create_view("revenue", REVENUE.replace("west", "south"), detached=True, rebuild=True)
    assert bag(shop.read("revenue")) == {("north", 15): 1, ("east", 120): 1}
    shop.verify()
    shop.drop_view("revenue")
    assert [n for n, s in shop.status().items() if s.kind == "view"] == ["amounts"]


def test_a_lake_says_which_of_its_views_need_their_sources(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    shop.create_view("anything", "SELECT DISTINCT 1 AS one FROM orders")
    shop.create_view("north", "SELECT id FROM customers WHERE region = 'north'")
    revenue, anything, north = shop.self_maintenance()
    assert (revenue.reads, anything.reads, north.reads) == (("customers", "orders"), (), ())
    assert (anything.alone, anything.maintainable, north.alone) == (False, True, True)
    assert [(a.kind, a.table) for a in revenue.auxiliaries] == [("projection", "orders"), ("projection", "customers")]
    with pytest.raises(NablaError, match="NABLA_UNKNOWN_VIEW"):
        shop.self_maintenance("orders")


def test_a_detached_self_join_has_one_auxiliary_view_and_a_relation_without_itself_none(shop: Lake) -> None:
    pairs = "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.amount < b.amount"
    shop.create_view("pairs", pairs, detached=True)
    shop.create_view("nothing", "SELECT * FROM orders EXCEPT SELECT * FROM orders", detached=True)
    assert [n for n, s in shop.status().items() if s.kind == "view"] == ["pairs_orders", "pairs", "nothing"]
    with shop.transaction() as tx:
        tx.insert("orders", [(3, 1, 50), (4, 2, 20)])
    (folder,) = folders(shop, "orders")
    os.rename(folder, f"{folder}-away")
    shop.refresh("pairs", mode="strict")
    assert bag(shop.read("pairs")) == {(1, 3): 1}
    assert bag(shop.read("nothing")) == {}
    os.rename(f"{folder}-away", folder)
    shop.verify()


def test_copies_of_sources_and_enforced_keys_count(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    shop.create_view("all_orders", "SELECT * FROM orders")
    shop.create_view("all_customers", "SELECT * FROM customers")
    revenue, *_ = shop.self_maintenance("revenue", "all_orders", "all_customers")
    assert revenue.maintainable
    assert set(revenue.served) == {"all_orders", "all_customers"}
    assert "its rows are the same for" in str(shop.self_maintenance("revenue")[0])
    for name in ("one", "two"):
        shop.create_table(name, schema=f"{name}_id INT, {name}_x INT", key=f"{name}_id", enforce=True)
    shop.create_view("both", "SELECT * FROM one FULL JOIN two ON one_id = two_id")
    shop.create_view("ids", "SELECT DISTINCT one_id FROM one")
    both, ids = shop.self_maintenance("both", "ids")
    assert both.shown.startswith("the rows of one and two can be read from its own")
    assert ids.alone
    shop.drop_constraint("one_key")
    both, ids = shop.self_maintenance("both", "ids")
    assert (both.shown, ids.alone) == ("", False)


def test_a_full_outer_join_of_keyed_tables_stores_nothing_more_and_reads_no_source(lake: Lake) -> None:
    for name in ("one", "two", "three"):
        lake.create_table(name, schema=f"{name}_id INT, {name}_x STRING", key=f"{name}_id", enforce=True)
    with lake.transaction() as tx:
        tx.insert("one", [(1, "a"), (2, "b"), (3, None)])
        tx.insert("two", [(2, "u"), (3, "v"), (4, "w")])
        tx.insert("three", [(10, "b"), (11, "b"), (12, "z")])
    both = "SELECT two_x, one_id, two_id, one_x FROM one FULL JOIN two ON one_id = two_id"
    lake.create_view("both", both, detached=True)
    lake.create_view("large", both.replace("FROM one", "FROM (SELECT * FROM one WHERE one_id > 1)"), detached=True)
    lake.create_view(
        "all3", "SELECT * FROM one FULL JOIN two ON one_id = two_id FULL JOIN three ON one_x = three_x", detached=True
    )
    assert [n for n, s in lake.status().items() if s.kind == "view"] == ["both", "large", "all3"]
    assert {s.when for s in lake.status().values() if s.kind == "view"} == {"immediate"}
    assert "stores no more" in str(lake.self_maintenance("both")[0])
    for folder in folders(lake, "one", "two", "three"):
        for file in folder.glob("*.parquet"):
            os.rename(file, f"{file}-away")
    with lake.transaction() as tx:
        tx.insert("one", [(4, "z"), (5, "b")])
        tx.insert("two", [(1, "t"), (6, "x")])
        tx.insert("three", [(13, "b")])
    for folder in folders(lake, "one", "two", "three"):
        for file in folder.glob("*-away"):
            os.rename(file, str(file).removesuffix("-away"))
    with lake.transaction() as tx:
        tx.update("one", set={"one_x": "'q'"}, where="one_id IN (1, 2, 4)")
        tx.delete("two", where="two_id IN (1, 3)")
        tx.insert("two", [(3, "again")])
        tx.delete("three", where="three_id = 10")
    lake.verify()
    with lake.transaction() as tx:
        tx.delete("one", where="true")
    lake.verify()
    with pytest.raises(NablaError, match="all3, both, large") as refused:
        lake.drop_constraint("one_key")
    assert refused.value.code == "NABLA_IN_USE"
    lake.drop_view("all3")
    lake.drop_constraint("three_key")


def test_an_immediate_view_that_is_there_already_serves_as_an_auxiliary_view(shop: Lake) -> None:
    shop.create_view("sums", "SELECT customer AS who, amount AS much FROM orders", maintain="immediate")
    shop.create_view("later", "SELECT id, region FROM customers WHERE region <> 'west'")  # not up to date at all times
    shop.create_view("revenue", REVENUE, detached=True)
    assert set(shop.status()["revenue"].sources) == {"sums", "revenue_customers"}
    with shop.transaction() as tx:
        tx.insert("orders", [(3, 1, 5)])
        tx.update("customers", set={"region": "'east'"}, where="id = 2")
    shop.refresh("revenue", mode="strict")
    assert bag(shop.read("revenue")) == {("north", 15): 1, ("east", 20): 1}
    with pytest.raises(NablaError) as refused:
        shop.drop_view("sums")
    assert refused.value.code == "NABLA_IN_USE"
