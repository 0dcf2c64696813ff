"""When views follow: with their sources, at a refresh, by name, in time; what would be, and how to undo what was."""

from __future__ import annotations

import time

import pytest
from comparing import bag, feed
from pyspark.sql import SparkSession

import nabla
from nabla import NablaError, Violated
from nabla.lake.facade import Lake
from nabla.lake.refresh.watch import Watch

pytestmark = pytest.mark.spark

STOCK = "SELECT item, SUM(n) AS n FROM moves GROUP BY item"


@pytest.fixture
def store(lake: Lake) -> Lake:
    lake.create_table("items", schema="item STRING, shelf INT", data=[("cup", 1), ("pot", 2)])
    lake.create_table("moves", schema="item STRING, n INT", data=[("cup", 5), ("pot", 3)])
    return lake


def move(lake: Lake, *rows: tuple[str, int]) -> None:
    with lake.transaction() as tx:
        tx.insert("moves", list(rows))


def test_immediate_views_become_visible_with_their_tables(store: Lake, spark: SparkSession) -> None:
    store.create_view("stock", STOCK, maintain="immediate")
    shelves = "SELECT shelf, s.n FROM stock s JOIN items i ON s.item = i.item"
    store.create_view("shelves", shelves, maintain="immediate")
    store.create_view("later", "SELECT COUNT(*) AS n FROM shelves")
    version, heard = store.version, []
    store.on_change("shelves", lambda change: heard.append((len(change.inserted), len(change.deleted))))
    with store.transaction() as tx:
        tx.insert("moves", [("cup", 1), ("pan", 2)])
        tx.insert("items", [("pan", 1)])
        tx.delete("items", where="item = 'pot'")
    assert store.version == version + 1
    assert heard == [(2, 2)]
    seen = nabla.open(store.path, spark=spark).status()
    assert {n: s.stale for n, s in seen.items()} == {
        "items": False,
        "moves": False,
        "stock": False,
        "shelves": False,
        "later": True,
    }
    assert bag(store.read("shelves")) == {(1, 6): 1, (1, 2): 1}
    assert feed(store, "shelves", 0) == ({(1, 6): 1, (1, 2): 1}, {(1, 5): 1, (2, 3): 1})
    assert {n: r.mode for n, r in store.refresh().items()}["shelves"] == "skip"
    store.verify()
    assert store.status()["stock"].when == "immediate"


def test_an_immediate_view_follows_a_deferred_one_that_is_refreshed_or_rebuilt(store: Lake) -> None:
    store.create_view("stock", STOCK)
    store.create_view("empty", "SELECT item FROM stock WHERE n = 0", maintain="immediate")
    move(store, ("cup", -5))
    assert bag(store.read("empty")) == {}
    store.refresh("stock")
    assert bag(store.read("empty")) == {("cup",): 1}
    move(store, ("pot", -3))
    store.create_view("stock", "SELECT item, SUM(n) + 1 AS n FROM moves GROUP BY item", rebuild=True)
    assert bag(store.read("empty")) == {}
    store.verify()


def test_manual_views_move_when_they_are_named(store: Lake) -> None:
    store.create_view("stock", STOCK, maintain="manual")
    store.create_view("number", "SELECT COUNT(*) AS n FROM stock")
    move(store, ("pan", 1))
    assert list(store.refresh()) == ["number"]
    assert bag(store.read("number")) == {(2,): 1}
    assert bag(store.read("stock", fresh=True)) == {("cup", 5): 1, ("pot", 3): 1, ("pan", 1): 1}
    assert list(store.refresh("number", "stock")) == ["stock", "number"]
    assert bag(store.read("number")) == {(3,): 1}


def test_a_watch_refreshes_when_a_view_may_wait_no_longer(store: Lake) -> None:
    store.create_view("often", STOCK, maintain="1 second")
    store.create_view("seldom", STOCK, maintain="5 minutes")
    store.create_view("never", STOCK, maintain="manual")
    store.create_view("now", STOCK)
    time.sleep(1)
    move(store, ("pan", 1))
    refreshed: list[str] = []
    assert Watch(store, refreshed=lambda report: refreshed.append(report.name)).turn()
    assert refreshed == ["often", "now"]


def test_a_view_read_fresh_is_what_a_refresh_would_make_it(store: Lake) -> None:
    store.create_view("stock", STOCK)
    store.create_view("items_left", "SELECT item FROM stock WHERE n > 0")
    move(store, ("cup", -5), ("pan", 1))
    version = store.version
    fresh = store.read("items_left", fresh=True)
    assert bag(fresh) == {("pot",): 1, ("pan",): 1}
    assert bag(store.read("items_left")) == {("cup",): 1, ("pot",): 1}
    assert store.version == version
    store.refresh()
    assert bag(fresh) == bag(store.read("items_left")) == bag(store.read("items_left", fresh=True))


def test_a_preview_tells_every_change_and_makes_none(store: Lake, spark: SparkSession) -> None:
    store.create_view("stock", STOCK)
    store.create_view("number", "SELECT COUNT(*) AS n FROM stock", maintain="immediate")
    store.create_view("shelves", "SELECT DISTINCT shelf FROM items")
    store.create_constraint("no_debts", "SELECT item FROM stock WHERE n < 0")
    version = store.version
    with store.transaction() as tx:
        tx.insert("moves", spark.createDataFrame([("cup", -9), ("pan", 4)], "item STRING, n INT"))
        found = store.preview(tx)
        assert set(found.changes) == {"moves", "stock", "number", "no_debts"}
        assert [tuple(r) for r in found["stock"].deleted] == [("cup", 5)]
        assert sorted(tuple(r) for r in found["stock"].inserted) == [("cup", -4), ("pan", 4)]
        assert [tuple(r) for r in found["number"].inserted] == [(3,)]
        assert [v.listed for v in found.violations] == [[("cup",)]]
        assert store.version == version
        tx.insert("moves", [("cup", 9)])
        assert store.preview(tx).violations == ()
    assert store.version == version + 1
    assert not store.refresh().held
    assert bag(store.read("stock")) == {("cup", 5): 1, ("pot", 3): 1, ("pan", 4): 1}
    with store.transaction() as tx:
        assert str(store.preview(tx)) == "nothing would change"


def test_a_revert_undoes_tables_and_views_and_can_be_undone(store: Lake) -> None:
    store.create_view("stock", STOCK)
    store.create_view("top", "SELECT MAX(n) AS n FROM stock")
    store.create_view("now", "SELECT COUNT(*) AS n FROM moves", maintain="immediate")
    store.create_constraint("no_debts", "SELECT item FROM stock WHERE n < -10")
    move(store, ("cup", 1))
    store.refresh("stock")
    then = store.version  # top lags behind
    before = {n: bag(store.read(n)) for n in ("moves", "stock", "top", "now")}
    with store.transaction() as tx:
        tx.delete("moves", where="item = 'pot'")
        tx.insert("moves", [("pan", 7)])
    store.refresh()
    store.create_view("made_since", "SELECT DISTINCT item FROM moves")
    store.create_view("with_it", "SELECT DISTINCT item FROM moves", maintain="immediate")
    after = {n: bag(store.read(n)) for n in before}
    last, versions = store.version, {n: store.status()[n].version for n in before}
    report = store.revert(then)
    assert {n: bag(store.read(n)) for n in before} == before
    assert (report["moves"].inserted, report["moves"].deleted) == (1, 1)
    for name in ("stock", "now"):
        inserted, deleted = feed(store, name, versions[name])
        assert (inserted, deleted) == (before[name] - after[name], after[name] - before[name])
    stale = {n for n, s in store.status().items() if s.stale}
    assert stale == {"top", "made_since"}
    store.verify()
    assert bag(store.read("with_it")) == {("cup",): 1, ("pot",): 1}
    store.refresh(mode="incremental")
    store.verify()
    store.revert(last)
    assert {n: bag(store.read(n)) for n in before} == after
    move(store, ("cup", 3))  # the state of aggregates came along
    store.refresh(mode="incremental")
    store.verify()
    store.revert(then)
    store.create_constraint("no_pans", "SELECT * FROM moves WHERE item = 'pan'")
    with pytest.raises(Violated):
        store.revert(last)
    with pytest.raises(NablaError, match="NABLA_NO_VERSION"):
        store.revert(10_000)
