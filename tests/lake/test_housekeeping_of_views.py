"""Housekeeping of real views: none becomes stale or is recomputed by it, feeds replay, undo works, old lakes can be kept."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.lake.housekeeping.compaction import Effort, compact_or_give_way
from nabla.storage.catalog import FEED_FROM

pytestmark = pytest.mark.spark

NOW = timedelta(0)
VIEWS = {
    "cheap": "SELECT id, amount FROM orders WHERE amount < 50",
    "totals": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    "named": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
    "top": "SELECT customer, total FROM totals WHERE total > 100",
}


def order(i: int) -> tuple[int, int, int | None]:
    return i, i % 7, None if i % 11 == 0 else i * 13 % 90


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = nabla.open(tmp_path_factory.mktemp("kept") / "lake", spark=spark)
    lake.create_table("customers", schema="id INT, name STRING", data=[(i, f"c{i}") for i in range(7)], key="id")
    lake.create_table("orders", schema="id INT, customer INT, amount INT", data=list(map(order, range(60))), key="id")
    lake.create_views(VIEWS)
    return lake


def move(lake: Lake, rng: Random, number: int) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", [order(1000 + 10 * number + k) for k in range(3)])
        tx.delete("orders", where=f"id % 17 = {rng.randrange(17)}")


def compact(lake: Lake) -> object:
    return compact_or_give_way(lake.context, list(lake.status()), Effort(), 1)


def replayed(lake: Lake, name: str, first: Counter[object], since: int) -> Counter[object]:
    """The rows of a version, and what all changes since add up to."""
    found = Counter(first)
    for *row, kind, _, _ in lake.changes(name, since=since).collect():
        found[tuple(row)] += 1 if kind == "insert" else -1
    return +found


def rows(lake: Lake, name: str) -> Counter[object]:
    return Counter(map(tuple, lake.read(name).collect()))


def test_views_go_on_from_changes_across_compactions(lake: Lake) -> None:
    rng = Random(5)
    first = {name: (rows(lake, name), lake.status()[name].version) for name in ("orders", "top")}
    heard: list[object] = []
    compacted = 0
    subscription = lake.on_change("totals", heard.append)
    for number in range(4):
        move(lake, rng, number)
        if number % 2:
            compacted += bool(compact(lake))
        report = lake.refresh(mode="incremental")
        assert {r.mode for r in report.values()} <= {"incremental", "skip"}, str(report)
        compacted += bool(compact(lake))
        assert not any(status.stale for status in lake.status().values())
        calls = len(heard)
        assert {r.mode for r in lake.refresh(mode="incremental").values()} == {"skip"}
        assert len(heard) == calls
    subscription.cancel()
    assert compacted > 2
    lake.verify()
    for name, (before, since) in first.items():
        assert replayed(lake, name, before, since) == rows(lake, name)


def test_undo_reaches_behind_a_compaction(lake: Lake) -> None:
    lake.refresh()
    version, before = lake.version, {name: rows(lake, name) for name in ("orders", *VIEWS)}
    compact(lake)
    assert dict(lake.revert(version)) == {}
    move(lake, Random(1), 50)
    lake.refresh()
    compact(lake)
    lake.revert(version)
    assert {name: rows(lake, name) for name in before} == before
    assert not any(status.stale for status in lake.status().values())
    lake.verify()


def test_a_feed_that_was_shortened_says_so(lake: Lake, tmp_path: Path) -> None:
    lake.refresh()
    path = tmp_path / "copy"
    shutil.copytree(lake.path, path)
    copy = nabla.open(path, spark=lake.spark)
    copy.housekeeping(feeds=NOW)
    assert copy.optimize()["totals"].feed_rows > 0
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        copy.changes("totals")
    entry = copy.context.log.state().entries["totals"]
    assert copy.changes("totals", since=entry.facts[FEED_FROM]).count() == 0
    move(copy, Random(2), 70)
    assert {r.mode for r in copy.refresh(mode="incremental").values()} <= {"incremental", "skip"}
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        copy.changes("totals")
    assert copy.changes("totals", since=entry.facts[FEED_FROM]).count() > 0
    copy.verify()


@pytest.mark.parametrize("name", ["lake-0.1", "lake-format-2", "lake-format-3", "lake-format-4"])
def test_lakes_of_earlier_formats_can_be_kept(name: str, spark: SparkSession, tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "data" / f"{name}.tar.xz") as kept:
        kept.extractall(tmp_path, filter="data")
    (folder,) = (path.parent for path in tmp_path.rglob("_nabla"))
    lake = nabla.open(folder, spark=spark, trust=True)
    views = [view for view, status in lake.status().items() if status.kind == "view"]
    before = {view: rows(lake, view) for view in views[:2]}
    lake.housekeeping(history=NOW)
    lake.optimize()
    lake.vacuum(older_than=NOW)
    assert {view: rows(lake, view) for view in before} == before
    assert lake.fsck().sound
