"""Registered tables whose writers vacuum what views still refer to: the post-update form."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from comparing import bag, refreshed
from deltalake import DeltaTable, write_deltalake

from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

VIEWS = {
    "joined": "SELECT l.id, l.item, o.customer FROM lines l JOIN orders o ON l.id = o.id",
    "lonely": "SELECT * FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.id = o.id)",
    "totals": "SELECT o.customer, SUM(l.amount) AS total, MAX(l.item) AS last FROM lines l LEFT JOIN orders o "
    "ON l.id = o.id GROUP BY o.customer",
    "pairs": "SELECT a.item, COUNT(*) AS n FROM lines a JOIN lines b ON a.id = b.id AND a.item < b.item GROUP BY a.item",
}
KEEP_FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def tables(lake: Lake, tmp_path: Path) -> tuple[str, str]:
    """Tables of others with a change data feed, registered, and views that read old states when they change."""
    orders, lines = str(tmp_path / "orders"), str(tmp_path / "lines")
    write_deltalake(orders, _orders(range(20)), configuration=KEEP_FEED)
    write_deltalake(lines, _lines(range(15)), configuration=KEEP_FEED)
    lake.register("orders", orders)
    lake.register("lines", lines)
    for name, sql in VIEWS.items():
        lake.create_view(name, sql)
    return orders, lines


def _orders(ids: range) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "customer": [f"c{i % 4}" if i % 7 else None for i in ids]})


def _lines(ids: range) -> pa.Table:
    """Two or three lines an order, one of them twice."""
    rows = [(i, f"item {n % 2}", i * 10 + n) for i in ids for n in range(2 + i % 2)]
    rows += [rows[0], (3, None, 7)]
    return pa.table(dict(zip(("id", "item", "amount"), map(list, zip(*rows, strict=True)), strict=True)))


def _vacuum(folder: str) -> None:
    DeltaTable(folder).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_views_are_maintained_when_the_old_files_are_gone(lake: Lake, tables: tuple[str, str]) -> None:
    orders, lines = tables
    for turn in range(3):
        for folder in tables:
            DeltaTable(folder).optimize.compact()
        write_deltalake(orders, _orders(range(20 + turn, 22 + turn)), mode="append")
        DeltaTable(orders).delete(f"id = {turn + 2}")
        DeltaTable(lines).update(updates={"item": "'moved'"}, predicate=f"id = {turn + 4}")
        DeltaTable(lines).delete(f"id = {turn + 9} OR id = 0 AND item = 'item 1'")
        for folder in tables:
            _vacuum(folder)
        report = refreshed(lake)
        for name in VIEWS:
            assert report[name].mode == "incremental", report[name].reason
            assert "the old state of" in report[name].reason
            assert "was vacuumed and is taken as the new one less its change" in report[name].reason


def test_a_fresh_read_and_explain_need_no_old_files_either(lake: Lake, tables: tuple[str, str]) -> None:
    _, lines = tables
    DeltaTable(lines).delete("id = 5")
    _vacuum(lines)
    fresh = bag(lake.read("totals", fresh=True))
    assert "was vacuumed" in str(lake.explain("totals"))
    refreshed(lake)
    assert fresh == bag(lake.read("totals"))


def test_without_a_feed_the_view_is_recomputed_and_says_why(lake: Lake, tmp_path: Path) -> None:
    events = str(tmp_path / "events")
    write_deltalake(events, _lines(range(5)))
    lake.register("events", events)
    lake.create_view("n", "SELECT COUNT(*) AS n FROM events")
    DeltaTable(events).delete("id = 2")
    _vacuum(events)
    report = refreshed(lake, mode="auto")["n"]
    assert report.mode == "full"
    assert "NABLA_VERSION_GONE" in report.reason
