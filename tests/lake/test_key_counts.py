"""Orders that come and go with their lines are joined from the change alone, and only where that is proven."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from comparing import refreshed

from nabla.engine.driver import key_lookup
from nabla.engine.driver.row_search import RowSearch
from nabla.lake.facade import Lake
from nabla.storage import key_counts as key_count_files
from nabla.storage.key_counts import KeyCounts, countable, key_counts, make_key_counts
from nabla.storage.table import Snapshot, StoredTable

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)
    lake.create_table("orders", schema="id INT, day INT", data=[(i, i % 7) for i in range(50)], key="id")
    lines = [(i, n, i * n) for i in range(50) for n in range(i % 4)]
    schema = "order_id INT, n INT, price INT"
    foreign = {"order_id": "orders.id"}
    lake.create_table("lines", schema=schema, data=lines, key=("order_id", "n"), foreign_keys=foreign)
    lake.create_view("sales", "SELECT day, SUM(price) AS total FROM orders JOIN lines ON id = order_id GROUP BY day")
    return lake


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values each look-up in a table had."""
    asked: list[int] = []
    plain = RowSearch.rows

    def counting(
        self: RowSearch,
        snapshot: Snapshot,
        key: str,
        values: pa.Array,
        columns: Sequence[str],
        most_looked_at: float,
        *,
        own: bool,
    ) -> pa.Table | None:
        asked.append(len(values))
        return plain(self, snapshot, key, values, columns, most_looked_at, own=own)

    monkeypatch.setattr(RowSearch, "rows", counting)
    return asked


@pytest.mark.parametrize("largest", [key_lookup.LARGEST, 0])
def test_orders_with_their_lines_are_not_looked_up(
    shop: Lake, looked_up: list[int], largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the tables are."""
    monkeypatch.setattr(key_lookup, "LARGEST", largest)
    for i in (60, 70):
        with shop.transaction() as tx:
            tx.insert("orders", [(i, 3), (i + 1, 4)])
            tx.insert("lines", [(i, 0, 10), (i, 1, 11), (i + 1, 0, 12)])
            tx.delete("orders", where=f"id = {i - 57}")
            tx.delete("lines", where=f"order_id = {i - 57}")
        report = refreshed(shop)["sales"]
        assert (report.mode, report.looked_at) == ("incremental", 0)
    assert looked_up
    assert sum(looked_up) == 0


def test_what_the_change_does_not_show_is_looked_up(shop: Lake, looked_up: list[int]) -> None:
    with shop.transaction() as tx:
        tx.insert("lines", [(5, 7, 100)])  # of an order that was there
        tx.update("orders", set={"day": "6"}, where="id = 7")  # whose lines stay
        tx.insert("orders", [(80, 1)])
        tx.insert("lines", [(80, 0, 5)])
    refreshed(shop)
    assert sum(looked_up) == 2


@pytest.mark.parametrize(
    "of_id",
    [
        "CAST(id AS INT)",
        "CAST(id AS BIGINT)",
        "date_add(DATE '2020-01-01', CAST(id AS INT))",
        "timestamp_micros(CAST(id AS BIGINT))",
    ],
)
def test_whether_there_are_rows_with_a_key_is_told_by_the_counts(
    lake: Lake, of_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)
    known = lake.spark.range(40).selectExpr(f"{of_id} AS k", "CAST(id AS INT) AS v")
    lake.create_table("known", data=known, key="k")
    used = lake.spark.range(60).selectExpr("id % 15 AS id", "id AS n").selectExpr(f"{of_id} AS k", "n")
    lake.create_table("used", data=used, foreign_keys={"k": "known.k"})
    lake.create_view("unused", "SELECT * FROM known WHERE NOT EXISTS (SELECT 1 FROM used WHERE used.k = known.k)")
    lake.create_view("times", "SELECT known.v FROM known JOIN used ON used.k = known.k")
    new = lake.spark.range(3).selectExpr("20 + id AS id").selectExpr(f"{of_id} AS k", "id AS n").toArrow()
    with lake.transaction() as tx:
        tx.delete("used", where="n % 15 = 4 OR n = 5")  # the last row of one key, not the last of another
        tx.insert("used", new)
    report = refreshed(lake)
    assert (report["unused"].inserted, report["unused"].deleted) == (1, 3)
    assert report["unused"].looked_at <= 2 * 40, "only `known` is read"
    assert (report["times"].inserted, report["times"].deleted) == (3, 5)


def test_broken_declarations_are_not_relied_on(shop: Lake) -> None:
    with shop.transaction() as tx:
        tx.delete("orders", where="id = 7")  # its lines stay behind
        tx.insert("orders", [(11, 5)])  # a second order 11
        tx.insert("lines", [(999, 0, 1)])  # of no order
    refreshed(shop)
    with shop.transaction() as tx:
        tx.insert("orders", [(7, 2), (999, 2)])  # and now they have one
        tx.delete("orders", rows=[(11, 5)])
    refreshed(shop)
    with shop.transaction() as tx:
        tx.delete("lines", where="order_id = 11 AND n = 1")
        tx.insert("orders", [(11, 1)])
        tx.insert("lines", [(11, 1, 33)])
    refreshed(shop)


def test_keys_that_are_texts_are_not_counted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)
    for name, keys in (("texts", ("a", "b", "c")), ("numbers", (1, 2, 3))):
        kind = "STRING" if name == "texts" else "INT"
        lake.create_table(name, schema=f"id {kind}, day INT", data=[(keys[0], 1), (keys[1], 2)], key="id")
        lake.create_view(f"pairs_of_{name}", f"SELECT o.id, p.day FROM {name} o JOIN {name} p ON o.id = p.id")
        with lake.transaction() as tx:
            tx.insert(name, [(keys[2], 3)])
    report = refreshed(lake)
    assert {one.mode for one in report.values()} == {"incremental"}
    texts, numbers = (
        lake.context.log.table(lake.context.log.state().entries[n].parts["data"]) for n in ("texts", "numbers")
    )
    assert key_counts(texts, "id", texts.latest()) is None
    assert key_counts(numbers, "id", numbers.latest()) is not None


def _counted(counts: KeyCounts, version: int) -> list[int]:
    """The counts of some keys, looked up one by one, and with many others at once."""
    few = _of(counts, version, 3, 6, 7, 8, 300)
    assert _of(counts, version, 3, 6, 7, 8, *range(300, 2000))[:5] == few
    return few


def _of(counts: KeyCounts, version: int, *keys: int) -> list[int]:
    found = counts.of(version, pa.array(keys))
    assert found is not None
    return [*found.to_pylist()]


def test_counts_follow_the_changes(shop: Lake) -> None:
    table = shop.context.log.table(shop.context.log.state().entries["lines"].parts["data"])
    first = table.latest()
    for i in range(3):
        with shop.transaction() as tx:
            tx.insert("lines", [(3, 10 + i, 1), (300, i, 1)])
            tx.delete("lines", where=f"order_id = {6 + i} AND n = 0")
    make_key_counts(table, "order_id", table.snapshot(first))
    counts = key_counts(table, "order_id", table.latest())
    assert counts is not None
    assert _counted(counts, first) == [3, 2, 3, 0, 0]
    assert _counted(counts, table.latest()) == [6, 1, 2, 0, 3]
    assert _counted(counts, first + 1) == [4, 1, 3, 0, 1]
    make_key_counts(table, "order_id", table.snapshot())
    again = key_counts(table, "order_id", table.latest())
    assert again is not None
    assert again.version == table.latest()
    assert _counted(again, table.latest()) == [6, 1, 2, 0, 3]


def test_a_large_change_is_counted_when_it_is_made(shop: Lake) -> None:
    table = shop.context.log.table(shop.context.log.state().entries["lines"].parts["data"])
    with shop.transaction() as tx:
        tx.insert("lines", [(3, 10, 1)])
    counts = key_counts(table, "order_id", table.latest())
    assert counts is not None
    assert counts.version < table.latest(), "a small change is added up"
    with shop.transaction() as tx:
        tx.insert("lines", [(3, 20 + i, 1) for i in range(30)])
    counts = key_counts(table, "order_id", table.latest())
    assert counts is not None
    assert counts.version == table.latest()
    assert _of(counts, table.latest(), 3) == [34]
    refreshed(shop)


def test_only_whole_numbers_are_counted() -> None:
    assert all(map(countable, (pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC"))))
    assert not any(map(countable, (pa.string(), pa.float64(), pa.decimal128(10, 2), pa.bool_())))


def test_a_table_that_grows_little_by_little_is_counted_once_it_is_large(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 50)
    lake.create_table("orders", schema="id INT", key="id")
    for start in range(0, 60, 20):
        (source,) = [lake.context.log.table(lake.context.log.state().entries["orders"].parts["data"])]
        assert key_counts(source, "id", source.latest()) is None
        with lake.transaction() as tx:
            tx.insert("orders", [(i,) for i in range(start, start + 20)])
    counts = key_counts(source, "id", source.latest())
    assert counts is not None
    assert _of(counts, source.latest(), 0, 59, 60) == [1, 1, 0]


def test_small_changes_are_added_up_however_few_keys_there_are(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)
    lake.create_table("lines", schema="shop INT, n INT", data=[(i % 3, i) for i in range(1000)], key=("shop", "n"))
    table = lake.context.log.table(lake.context.log.state().entries["lines"].parts["data"])
    for turn, outdated in ((0, False), (1, True)):
        with lake.transaction() as tx:
            tx.insert("lines", [(i % 3, 1000 + 30 * turn + i) for i in range(30)])
        counts = key_counts(table, "shop", table.latest())
        assert counts is not None
        assert _of(counts, table.latest(), 0, 1, 2) == [344 + 10 * turn, 343 + 10 * turn, 343 + 10 * turn]
        assert counts.outdated == outdated


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The columns that were counted, and in which version."""
    noted: list[tuple[str, int]] = []
    plain = key_count_files._make

    def noting(table: StoredTable, column: str, snapshot: Snapshot) -> None:
        noted.append((column, snapshot.version))
        plain(table, column, snapshot)

    monkeypatch.setattr(key_count_files, "_make", noting)
    return noted


def test_many_small_changes_are_counted_anew_once_for_all_views(shop: Lake, made: list[tuple[str, int]]) -> None:
    made.clear()
    shop.create_view("counts", "SELECT day, COUNT(*) AS n FROM orders JOIN lines ON id = order_id GROUP BY day")
    for i in range(60, 66):
        with shop.transaction() as tx:
            tx.insert("orders", [(i, 3)])
            tx.insert("lines", [(i, 0, 10)])
        refreshed(shop)
    assert made
    assert len(made) == len(set(made))


def test_counts_that_are_made_side_by_side_are_made_once(shop: Lake, made: list[tuple[str, int]]) -> None:
    table = shop.context.log.table(shop.context.log.state().entries["lines"].parts["data"])
    with shop.transaction() as tx:
        tx.insert("lines", [(3, 10, 1)])
    made.clear()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: make_key_counts(table, "order_id", table.snapshot()), range(8)))
    counts = key_counts(table, "order_id", table.latest())
    assert counts is not None
    assert (len(made), counts.version, _of(counts, table.latest(), 3)) == (1, table.latest(), [4])
