"""Changes that are computed ahead of a refresh: the refresh applies them, and loses nothing if they do not fit or are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from comparing import bag, feed
from pyspark.sql import SparkSession

import nabla
from nabla import NablaError
from nabla.lake.facade import Lake
from nabla.lake.refresh import ahead
from nabla.lake.refresh.watch import Watch

pytestmark = pytest.mark.spark

TOTALS = "SELECT region, SUM(amount) AS total, MAX(amount) AS top FROM orders o JOIN shops s ON o.shop = s.id GROUP BY region"


@pytest.fixture
def chain(lake: Lake) -> Lake:
    lake.create_table("shops", schema="id INT, region STRING", key="id", data=[(1, "n"), (2, "s"), (3, "s")])
    lake.create_table(
        "orders", schema="id INT, shop INT, amount INT", key="id", data=[(i, 1 + i % 3, i) for i in range(9)]
    )
    lake.create_view("totals", TOTALS, maintain="1 hour", propagate="ahead")
    return lake


def sell(lake: Lake, *rows: tuple[int, int, int]) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", list(rows))


def check(lake: Lake) -> None:
    lake.verify()
    inserted, deleted = feed(lake, "totals", 0)
    assert bag(lake.read("totals", version=0)) + inserted - deleted == bag(lake.read("totals"))


def test_a_refresh_applies_what_was_computed_ahead(chain: Lake) -> None:
    assert chain.propagate()["totals"].mode == "skip"
    before = bag(chain.read("totals"))
    sell(chain, (10, 1, 100))
    report = chain.propagate()["totals"]
    assert (report.mode, report.sources) == ("ahead", {"orders": 1, "shops": 0})
    assert bag(chain.read("totals")) == before
    assert chain.status()["totals"].stale
    assert chain.status()["totals"].when == "1 hour, computed ahead"
    assert chain.propagate()["totals"].mode == "skip"
    assert "computed ahead up to orders@1" in str(chain.explain("totals"))
    assert bag(chain.read("totals", fresh=True)) != before
    done = chain.refresh()["totals"]
    assert done.reason == "its change was computed ahead"
    assert (done.inserted, done.deleted) == (1, 1)
    assert not chain.status()["totals"].stale
    check(chain)
    sell(chain, (11, 2, 5))
    assert "ahead" not in chain.refresh(mode="incremental")["totals"].reason
    check(chain)


def test_later_changes_are_added_to_it(chain: Lake, spark: SparkSession) -> None:
    sell(chain, (10, 1, 100))
    chain.propagate()
    with chain.transaction() as tx:
        tx.update("shops", set={"region": "'w'"}, where="id = 2")
        tx.delete("orders", where="id = 10")
    other = nabla.open(Path(chain.path), spark=spark)
    assert "continues" in other.propagate("totals")["totals"].reason
    sell(chain, (11, 2, 7), (12, 3, 1))
    done = other.refresh(mode="incremental")["totals"]
    assert "continues" in done.reason
    assert done.sources == {"orders": 3, "shops": 1}
    check(chain)
    with chain.transaction() as tx:  # the states came along: the greatest amount is looked for again
        tx.delete("orders", where="amount = 7")
    chain.refresh(mode="incremental")
    check(chain)


def test_one_that_is_gone_or_does_not_fit_costs_no_row(chain: Lake) -> None:
    sell(chain, (10, 1, 100))
    chain.propagate()
    for folder in Path(chain.path, "tables").glob("totals_ahead-*"):
        shutil.rmtree(folder)
    assert chain.refresh()["totals"].inserted == 1
    check(chain)
    sell(chain, (11, 1, 200))
    chain.propagate()
    version = chain.version
    sell(chain, (12, 2, 1))
    chain.propagate()
    chain.refresh()
    chain.revert(version)
    check(chain)
    chain.propagate()
    chain.refresh(mode="full")
    check(chain)
    sell(chain, (13, 2, 9))
    chain.propagate()
    chain.create_view("double", "SELECT region, 2 * total AS total FROM totals", maintain="immediate")
    chain.create_constraint("small", "SELECT * FROM double WHERE total > 1000")
    chain.refresh()
    check(chain)
    sell(chain, (14, 2, 999))
    chain.propagate()
    assert [held.name for held in chain.refresh().held] == ["totals", "double"]
    with chain.transaction() as tx:
        tx.delete("orders", where="amount = 999")
    assert not chain.refresh().held
    check(chain)


def test_a_large_change_is_applied_by_spark_and_not_continued(chain: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "MOST_ROWS", 0)
    chain.create_view("large", "SELECT * FROM orders WHERE amount > 5", maintain="1 day", propagate="ahead")
    sell(chain, (10, 1, 100))
    chain.propagate("large")
    assert chain.refresh("large")["large"].reason == "its change was computed ahead"
    sell(chain, (11, 1, 200))
    chain.propagate("large")
    sell(chain, (12, 1, 300))
    assert "ahead" not in chain.refresh("large", mode="incremental")["large"].reason
    chain.verify("large")


def test_a_watch_computes_ahead_what_may_wait(chain: Lake) -> None:
    chain.create_view("sample", "SELECT * FROM orders TABLESAMPLE (100 PERCENT)", maintain="3 rows", propagate="ahead")
    told: list[tuple[str, str]] = []
    watch = Watch(chain, refreshed=lambda report: told.append((report.name, report.mode)))
    sell(chain, (10, 1, 100), (11, 1, 1))
    assert watch.turn()
    assert told == [("totals", "ahead"), ("sample", "ahead")]
    assert watch.turn()
    assert len(told) == 2
    sell(chain, (12, 1, 100))
    assert watch.turn()
    assert told[2:] == [("sample", "full"), ("totals", "ahead")]
    chain.refresh()
    check(chain)


def test_it_has_to_make_sense(chain: Lake) -> None:
    for arguments in ({"maintain": "immediate"}, {"maintain": {"orders": "1 hour"}}):
        with pytest.raises(NablaError, match="NABLA_PROPAGATE"):
            chain.create_view("bad", TOTALS, propagate="ahead", **arguments)  # type: ignore[arg-type]
    with pytest.raises(NablaError, match="NABLA_PROPAGATE"):
        chain.create_view("bad", TOTALS, propagate="behind")  # type: ignore[arg-type]
    chain.create_view("plain", TOTALS)
    with pytest.raises(NablaError, match=r"NABLA_PROPAGATE.*plain"):
        chain.propagate("plain")
