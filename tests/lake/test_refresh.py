"""Views and refreshes: modes, reasons, views over views, other processes, other writers."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from comparing import bag, feed, refreshed
from deltalake import DeltaTable, write_deltalake

from nabla.errors import Mismatch, NablaError, NotIncremental
from nabla.lake.facade import Lake
from nabla.storage.catalog import Entry, Part

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table(
        "customers", schema="id INT, region STRING", data=[(1, "north"), (2, "south"), (3, None)], key="id"
    )
    lake.create_table("orders", schema="id INT, customer INT, amount INT", key="id")
    with lake.transaction() as tx:
        tx.insert("orders", [(i, i % 4, i * 10) for i in range(12)])
    return lake


REVENUE = (
    "SELECT c.region, SUM(o.amount) AS total, MAX(o.amount) AS top "
    "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region"
)


def sell(lake: Lake, *rows: tuple[int, int, int]) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", list(rows))


def test_a_view_follows_its_tables(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    sell(shop, (100, 1, 7), (101, 3, 9))
    with shop.transaction() as tx:
        tx.update("customers", set={"region": "'east'"}, where="id = 2")
        tx.delete("orders", where="amount >= 100")
    report = refreshed(shop)["revenue"]
    assert report.mode == "incremental"
    assert report.sources == {"orders": 3, "customers": 1}
    assert bag(shop.read("revenue")) == {("north", 157, 90): 1, ("east", 80, 60): 1, (None, 109, 70): 1}
    assert refreshed(shop)["revenue"].mode == "skip"


def test_two_refreshes_equal_one(shop: Lake) -> None:
    shop.create_view("often", REVENUE)
    shop.create_view("once", REVENUE)
    for i in range(3):
        sell(shop, (200 + i, 1 + i % 2, 5))
        refreshed(shop, "often")
    refreshed(shop)
    assert bag(shop.read("often")) == bag(shop.read("once"))
    inserted, deleted = feed(shop, "often", 0)
    assert inserted - deleted == feed(shop, "once", 0)[0] - feed(shop, "once", 0)[1]


@pytest.mark.parametrize("mode", ["auto", "incremental", "strict", "full"])
def test_every_mode_gives_the_minimal_change(shop: Lake, mode: str) -> None:
    shop.create_view("revenue", REVENUE)
    sell(shop, (100, 1, 7))
    report = refreshed(shop, mode=mode)["revenue"]
    assert (report.inserted, report.deleted) == (1, 1)
    assert report.mode == ("full" if mode == "full" else report.mode)
    assert report.reason


def test_views_over_views_are_refreshed_in_order(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    shop.create_view("rich", "SELECT region FROM revenue WHERE total > 150")
    shop.create_view("how_many", "SELECT COUNT(*) AS n FROM rich")
    sell(shop, (100, 1, 1000))
    report = refreshed(shop, "how_many", mode="strict")
    assert list(report) == ["revenue", "rich", "how_many"]
    assert bag(shop.read("how_many")) == {(3,): 1}
    with pytest.raises(NablaError, match="NABLA_IN_USE"):
        shop.drop_view("revenue")
    with pytest.raises(NablaError, match="NABLA_CYCLE"):
        shop.create_view("revenue", "SELECT region, 1 AS total, 1 AS top FROM rich", rebuild=True)
    shop.drop_view("how_many")
    assert "how_many" not in shop.status()


def test_a_dataframe_view_is_named_after_its_function_and_lives_without_it(shop: Lake, tmp_path: Path) -> None:
    @shop.view
    def big_orders():  # type: ignore[no-untyped-def]
        return shop.spark.table("orders").where("amount > 50").selectExpr("id", "amount * 2 AS double")

    sell(shop, (100, 1, 70))
    script = (
        "import nabla, sys\n"
        "from nabla.dev.testing.session import quick_session\n"
        "lake = nabla.open(sys.argv[1], spark=quick_session('other', {'spark.master': 'local[1]'}))\n"
        "print(lake.refresh(mode='strict')['big_orders'].mode)\n"
        "lake.verify()\n"
    )
    done = subprocess.run([sys.executable, "-c", script, shop.path], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("incremental")
    assert (100, 140) in bag(shop.read("big_orders"))


def test_a_limit_over_a_single_row_is_no_limit(shop: Lake) -> None:
    shop.create_view("total", "SELECT COUNT(*) AS n FROM orders LIMIT 100")
    with shop.transaction() as tx:
        tx.delete("orders", where="true")
    assert refreshed(shop, "total", mode="strict")["total"].mode == "incremental"
    assert bag(shop.read("total")) == {(0,): 1}


def test_a_view_without_a_rule_is_recomputed_with_its_reason(shop: Lake) -> None:
    shop.create_view("some", "SELECT id FROM orders LIMIT 100")
    sell(shop, (100, 1, 7))
    with pytest.raises(NotIncremental, match="NABLA_LIMIT_WITHOUT_ORDER"):
        shop.refresh(mode="strict")
    assert shop.status()["some"].stale
    report = refreshed(shop)["some"]
    assert report.mode == "full"
    assert report.reason.startswith("NABLA_LIMIT_WITHOUT_ORDER")
    assert "NABLA_LIMIT_WITHOUT_ORDER" in str(shop.explain("some"))


def test_float_sums_and_distinct_counts_are_exact(shop: Lake) -> None:
    shop.create_view(
        "floats", "SELECT customer, SUM(amount / 3.0D) AS s, COUNT(DISTINCT amount) AS n FROM orders GROUP BY customer"
    )
    for i in range(3):
        sell(shop, (100 + i, 1, 7), (200 + i, 9, i))
        with shop.transaction() as tx:
            tx.delete("orders", where=f"id = {i}")
        assert refreshed(shop)["floats"].mode == "incremental"


def test_deleting_the_maximum_finds_the_next_one(shop: Lake) -> None:
    shop.create_view(
        "top", "SELECT customer, MAX(amount) AS top, MIN(amount) AS low, COUNT(*) AS n FROM orders GROUP BY customer"
    )
    shop.create_view("all_top", "SELECT MAX(amount) AS top, MIN(amount) AS low FROM orders")
    with shop.transaction() as tx:
        tx.delete("orders", where="amount IN (110, 0, 50)")
        tx.insert("orders", [(99, 3, 75)])
    report = refreshed(shop, mode="strict")
    assert bag(shop.read("all_top")) == {(100, 10): 1}
    assert report["top"].mode == "incremental"
    with shop.transaction() as tx:
        tx.delete("orders", where="true")
    refreshed(shop, mode="strict")
    assert bag(shop.read("all_top")) == {(None, None): 1}
    assert bag(shop.read("top")) == {}


def test_a_registered_table_is_read_whoever_writes_it(lake: Lake, tmp_path: Path) -> None:
    events = str(tmp_path / "events")
    write_deltalake(events, pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}), partition_by=["day"])
    lake.register("events", events)
    lake.create_view("by_day", "SELECT day, COUNT(*) AS n FROM events GROUP BY day")
    write_deltalake(events, pa.table({"id": [4, 5], "day": ["b", "c"]}), mode="append")
    DeltaTable(events).delete("id = 1")
    assert lake.status()["by_day"].stale
    assert refreshed(lake)["by_day"].mode == "incremental"
    assert bag(lake.read("by_day")) == {("a", 1): 1, ("b", 2): 1, ("c", 1): 1}
    with pytest.raises(NablaError, match="NABLA_NOT_WRITABLE"), lake.transaction() as tx:
        tx.insert("events", [(1, "a")])
    with pytest.raises(NablaError, match="NABLA_NOT_DELTA"):
        lake.register("nothing", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("code", "sql"),
    [
        ("NABLA_UNKNOWN_TABLE", "SELECT * FROM ordrs"),
        ("NABLA_UNKNOWN_COLUMN", "SELECT amout FROM orders"),
        ("NABLA_SQL_SYNTAX", "SELEC 1"),
        ("NABLA_DUPLICATE_COLUMN", "SELECT id, id FROM orders"),
        ("NABLA_NOT_A_QUERY", "DROP TABLE orders"),
        ("NABLA_RESERVED_COLUMN", "SELECT id AS _version FROM orders"),
    ],
)
def test_bad_views_are_refused(shop: Lake, code: str, sql: str) -> None:
    with pytest.raises(NablaError) as caught:
        shop.create_view("v", sql)
    assert caught.value.code == code, caught.value
    assert "v" not in shop.status()


def test_a_changed_definition_is_rebuilt_on_request(shop: Lake) -> None:
    shop.create_view("v", "SELECT id FROM orders")
    with pytest.raises(NablaError, match="NABLA_EXISTS"):
        shop.create_view("v", "SELECT id FROM orders")
    with pytest.raises(NablaError, match="NABLA_DEFINITION_CHANGED"):
        shop.create_view("v", "SELECT id, amount FROM orders")
    shop.create_view("v", "SELECT id, amount FROM orders", rebuild=True)
    assert shop.read("v").columns == ["id", "amount"]
    shop.verify()


def test_verify_finds_a_row_that_somebody_changed(shop: Lake) -> None:
    shop.create_view("v", "SELECT id, amount FROM orders WHERE id < 3")
    entry = shop.context.log.state().entries["v"]
    part = entry.parts["data"]
    table = shop.context.log.table(part)
    DeltaTable(table.folder).update(updates={"amount": "amount + 1"}, predicate="id = 2")
    moved = Entry(
        "v",
        "view",
        entry.definition,
        {**entry.parts, "data": Part(part.path, table.latest())},
        entry.facts,
    )
    shop.context.log.commit({"v": moved}, shop.context.log.state(), "tamper")
    with pytest.raises(Mismatch) as caught:
        shop.verify()
    assert len(caught.value.rows) == 2


def test_vacuum_keeps_what_stale_views_need(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    for i in range(3):
        sell(shop, (100 + i, 1, 7))
        with shop.transaction() as tx:
            tx.delete("orders", where=f"id = {i}")
    assert shop.vacuum(dry_run=True, older_than=datetime.timedelta(0)).paths
    shop.vacuum(older_than=datetime.timedelta(0))
    assert refreshed(shop)["revenue"].mode == "incremental"
    shop.vacuum(older_than=datetime.timedelta(0))
    shop.verify()


def test_everything_shows_itself(shop: Lake) -> None:
    shop.create_view("revenue", REVENUE)
    sell(shop, (100, 1, 7))
    report = shop.refresh()
    for thing in (report, shop.status(), shop.history("revenue"), shop.explain("revenue")):
        assert "revenue" in str(thing) or "refresh" in str(thing)
        assert thing._repr_html_().startswith("<")
        assert thing.to_dict()
    assert shop._repr_html_()
    assert [e.version for e in shop.history("revenue")] == [1, 0]
    assert "change table" in str(shop.explain("revenue"))


def test_a_view_over_one_that_was_built_again_is_recomputed(shop: Lake) -> None:
    shop.create_view("a", "SELECT id FROM orders WHERE amount > 5")
    shop.create_view("b", "SELECT COUNT(*) AS n FROM a")
    before = bag(shop.read("b"))
    shop.create_view("a", "SELECT id FROM orders WHERE amount > 1000000", rebuild=True)
    assert shop.status()["b"].stale
    report = refreshed(shop, "b")
    assert report["b"].mode == "full"
    assert bag(shop.read("b")) != before


def test_of_rows_that_tie_any_is_an_answer(lake: Lake) -> None:
    lake.create_table("t", schema="a INT, b INT", data=[(5, 1), (6, 2)])
    lake.create_view("first", "SELECT a, b FROM t ORDER BY b LIMIT 1")
    with lake.transaction() as tx:
        tx.insert("t", [(1, 1)])
    refreshed(lake, mode="strict")
    assert [tuple(row) for row in lake.read("first").collect()] == [(1, 1)]


def test_a_view_is_verified_whose_text_names_a_table_that_it_need_not_read(lake: Lake) -> None:
    lake.create_table("t", schema="id INT", data=[(1,), (1,), (2,)])
    lake.create_table("r", schema="id INT", data=[(1,)])
    lake.create_view("v", "SELECT DISTINCT t.id FROM t LEFT JOIN r ON t.id = r.id")
    assert lake.status()["v"].sources == {"t": 0}
    assert lake.verify()["v"].verdict == "exact"
