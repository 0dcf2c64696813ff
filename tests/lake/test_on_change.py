"""Condition monitoring: callbacks hear exactly the minimal change of a view, after it was committed, and harm nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.lake.refresh.subscriptions import ViewChange
from nabla.lake.refresh.watch import Watch
from nabla.lake.reports import ViewReport

pytestmark = pytest.mark.spark


class Heard(list[ViewChange]):
    """What a callback was called with, and how it reads for a test."""

    def __call__(self, change: ViewChange) -> None:
        self.append(change)

    @property
    def rows(self) -> list[tuple[list[tuple[object, ...]], list[tuple[object, ...]]]]:
        return [(sorted(map(tuple, c.inserted)), sorted(map(tuple, c.deleted))) for c in self]


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table("orders", schema="id BIGINT, region STRING, amount BIGINT", data=[(1, "n", 5), (2, "s", 7)])
    lake.create_view("revenue", "SELECT region, SUM(amount) AS total FROM orders GROUP BY region")
    lake.create_view("rich", "SELECT region FROM revenue WHERE total > 10")
    return lake


def _insert(lake: Lake, *rows: tuple[int, str, int]) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", list(rows))


def test_a_callback_hears_the_minimal_change_of_its_view_alone(shop: Lake) -> None:
    revenue, rich = Heard(), Heard()
    shop.on_change("revenue", revenue)
    shop.on_change("RICH", rich)
    _insert(shop, (3, "n", 1))
    shop.refresh()
    assert revenue.rows == [([("n", 6)], [("n", 5)])]
    assert rich == []
    assert revenue[0].inserted[0].total == 6
    _insert(shop, (4, "n", 10))
    shop.refresh()
    assert rich.rows == [([("n",)], [])]
    shop.refresh()
    assert len(revenue) == 2


def test_a_callback_sees_the_committed_lake_and_may_refresh_it(shop: Lake) -> None:
    seen: list[int] = []

    def look(change: ViewChange) -> None:
        rows = shop.read("revenue").where("region = 'n'").collect()
        assert rows[0].total == change.inserted[0].total
        seen.append(rows[0].total)
        if len(seen) < 3:
            _insert(shop, (10 + len(seen), "n", 1))
            shop.refresh()

    shop.on_change("revenue", look)
    _insert(shop, (3, "n", 1))
    shop.refresh()
    assert seen == [6, 7, 8]


def test_a_failing_callback_harms_no_refresh_and_hears_it_again(shop: Lake) -> None:
    heard, broken = Heard(), [True]

    def fragile(change: ViewChange) -> None:
        if broken[0]:
            raise ValueError("no")
        heard(change)

    subscription = shop.on_change("revenue", fragile)
    _insert(shop, (3, "n", 1))
    assert shop.refresh()["revenue"].mode != "skip"
    assert isinstance(subscription.error, ValueError)
    broken[0] = False
    _insert(shop, (4, "n", 1), (5, "x", 2))
    shop.refresh()
    assert heard.rows == [([("n", 7), ("x", 2)], [("n", 5)])]
    assert subscription.error is None
    assert subscription.version == shop.status()["revenue"].version


def test_changes_that_cancel_are_not_told(shop: Lake, spark: SparkSession) -> None:
    """Another process refreshes twice; what remains between the two versions is nothing, or less than both."""
    heard = Heard()
    shop.on_change("revenue", heard)
    other = nabla.open(Path(shop.path), spark=spark)
    _insert(other, (3, "n", 1), (4, "x", 1))
    other.refresh()
    with other.transaction() as tx:
        tx.delete("orders", where="id = 3")
    other.refresh()
    assert heard == []
    Watch(shop).turn()
    assert heard.rows == [([("x", 1)], [])]
    assert (heard[0].since, heard[0].version) == (0, 2)


def test_a_subscription_may_begin_at_an_older_version_and_end(shop: Lake) -> None:
    _insert(shop, (3, "n", 1))
    shop.refresh()
    heard = Heard()
    subscription = shop.on_change("revenue", heard, since=0)
    shop.refresh()
    assert heard.rows == [([("n", 6)], [("n", 5)])]
    subscription.cancel()
    _insert(shop, (4, "n", 1))
    shop.refresh()
    assert len(heard) == 1


def test_a_view_that_is_built_again_starts_anew(shop: Lake) -> None:
    heard = Heard()
    shop.on_change("revenue", heard)
    _insert(shop, (3, "n", 1))
    shop.refresh()
    shop.create_view("rich", "SELECT region FROM orders WHERE amount > 10", rebuild=True)
    shop.create_view("revenue", "SELECT region, MAX(amount) AS total FROM orders GROUP BY region", rebuild=True)
    _insert(shop, (4, "n", 9))
    shop.refresh()
    assert heard.rows[1:] == [([("n", 9)], [("n", 5)])]


def test_a_callback_hears_the_minimal_change_of_a_table(shop: Lake, spark: SparkSession) -> None:
    heard = Heard()
    shop.on_change("Orders", heard)
    _insert(shop, (3, "n", 1), (3, "n", 1))
    with shop.transaction() as tx:
        tx.update("orders", set={"amount": "6"}, where="id = 1")
        tx.insert("orders", [(4, "s", 1)])
        tx.delete("orders", where="id = 4")
    assert heard.rows == [([(3, "n", 1), (3, "n", 1)], []), ([(1, "n", 6)], [(1, "n", 5)])]
    assert heard[1].view == "orders"
    _insert(nabla.open(Path(shop.path), spark=spark), (5, "x", 1))
    assert len(heard) == 2
    shop.refresh()  # commits of other processes are told with the next one of this process
    assert heard.rows[2:] == [([(5, "x", 1)], [])]
    with pytest.raises(NablaError, match="nowhere"):
        shop.on_change("nowhere", print)


def test_a_callback_hears_what_others_write_to_a_registered_table(lake: Lake, tmp_path: Path) -> None:
    path = str(tmp_path / "elsewhere")
    write_deltalake(path, pa.table({"id": [1]}))
    lake.register("others", path)
    heard = Heard()
    lake.on_change("others", heard)
    write_deltalake(path, pa.table({"id": [2, 3]}), mode="append")
    Watch(lake).turn()
    assert heard.rows == [([(2,), (3,)], [])]


def test_rows_are_those_that_spark_collects(lake: Lake) -> None:
    moment = datetime.datetime(2026, 3, 1, 12, 30)
    row = (moment, {"a": 1}, [1, None], None)
    lake.create_table("things", schema="t TIMESTAMP, m MAP<STRING, INT>, l ARRAY<INT>, `a b` STRING", data=[])
    lake.create_view("copies", "SELECT * FROM things")
    heard = Heard()
    lake.on_change("copies", heard)
    with lake.transaction() as tx:
        tx.insert("things", [row, row])
    lake.refresh()
    assert heard[0].inserted == lake.read("copies").collect()
    assert heard[0].inserted[1].asDict().keys() == {"t", "m", "l", "a b"}


def _turns(n: int) -> Iterator[bool]:
    yield from [False] * n
    while True:
        yield True


def test_a_watch_refreshes_what_others_changed_and_goes_on_where_one_view_fails(
    shop: Lake, spark: SparkSession
) -> None:
    shop.create_view("share", "SELECT id, 100 DIV (amount - 5) AS part FROM orders WHERE id > 1")
    other = nabla.open(Path(shop.path), spark=spark)
    reports: list[ViewReport] = []
    errors: list[NablaError] = []
    watch = Watch(shop, mode="incremental", refreshed=reports.append, failed=errors.append)
    turns = _turns(2)
    work = iter([(8, "n", 5), (9, "s", 1)])

    def wait(seconds: float) -> bool:
        if row := next(work, None):
            _insert(other, row)
        return next(turns)

    watch.run(wait)
    assert [r.name for r in reports if r.name == "revenue"] == ["revenue", "revenue"]
    assert errors
    assert all("share" in str(e) for e in errors)
    assert not shop.status()["revenue"].stale
    assert shop.status()["share"].stale
    with other.transaction() as tx:
        tx.delete("orders", where="amount = 5")
    watch.mode = "full"
    assert watch.turn()
    assert not shop.status()["share"].stale


def test_a_watch_of_one_view_leaves_the_others_stale(shop: Lake) -> None:
    shop.create_view("count", "SELECT COUNT(*) AS n FROM orders")
    _insert(shop, (3, "n", 1))
    assert Watch(shop, ["RICH"]).turn()
    assert {n for n, s in shop.status().items() if s.stale} == {"count"}
