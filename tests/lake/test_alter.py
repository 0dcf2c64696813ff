"""Tables that get other columns, and views that get other queries: whoever reads them goes on."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from comparing import bag, feed, refreshed
from deltalake import DeltaTable, QueryBuilder

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

OWN_ROWS = ("SELECT id, amount FROM orders WHERE amount > 7",)
"""Queries whose rows the view has already."""


def orders(lake: Lake) -> None:
    lake.create_table(
        "orders",
        "id BIGINT, region STRING, amount INT",
        [(1, "n", 10), (2, "s", 5), (3, "n", 7)],
        key="id",
        enforce=True,
    )
    lake.create_view("revenue", "SELECT region, SUM(amount) AS total FROM orders GROUP BY region")
    lake.create_view("every", "SELECT * FROM orders")


def read_by_others(lake: Lake, name: str) -> list[dict[str, Any]]:
    """A table as deltalake reads it."""
    part = lake.context.log.state().entries[name].parts["data"]
    query = QueryBuilder().register("t", DeltaTable(lake.context.log.folder(part)))
    return pa.table(query.execute("SELECT * FROM t ORDER BY 1").read_all()).to_pylist()


def refusal(lake: Lake, change: dict[str, Any]) -> str:
    """The code with which an alteration is refused, if it is."""
    try:
        lake.alter_table("orders", **change)
    except NablaError as error:
        return error.code
    return ""


def test_views_go_on_when_columns_are_added_renamed_widened_and_dropped(lake: Lake) -> None:
    orders(lake)
    lake.create_view("grown", "SELECT * FROM orders", follow=True)
    lake.create_view("big", "SELECT id, region FROM orders WHERE amount > 6", maintain="immediate")
    lake.create_view("by_hand", "SELECT region FROM orders", maintain="manual")
    with lake.transaction() as tx:
        tx.insert("orders", [(4, "w", 9)])  # views lag
    added = lake.alter_table("orders", add="note STRING, channel STRING", default={"channel": "shop"})
    assert {name: done.outcome for name, done in added.items()} == {
        "orders": "altered",
        "revenue": "kept",
        "every": "kept",
        "grown": "difference",
        "big": "kept",
        "by_hand": "kept",
        "orders_key": "kept",
    }
    assert lake.read("every").columns == ["id", "region", "amount"]
    assert "NABLA_COLUMNS_KEPT" in str(lake.explain("every"))
    assert lake.read("grown").columns == ["id", "region", "amount", "note", "channel"]
    renamed = lake.alter_table("orders", rename={"region": "area", "id": "number"})
    assert all(done.outcome == "kept" for name, done in renamed.items() if name not in ("orders", "grown"))
    with lake.transaction() as tx:
        tx.insert("orders", [(5, "w", 1, "x", "web")])
        tx.delete("orders", where="area = 's'")
    assert {report.mode for report in refreshed(lake, "revenue", "every", "big", "grown").values()} <= {
        "incremental",
        "skip",
    }
    lake.alter_table("orders", widen={"amount": "BIGINT"}, drop="note")
    with lake.transaction() as tx:
        tx.insert("orders", [(6, "w", 2**40, "web")])
    refreshed(lake, "revenue", "every", "big", "grown", "by_hand")
    lake.verify()
    assert bag(lake.read("revenue")) == {("n", 17): 1, ("w", 10 + 2**40): 1}
    assert read_by_others(lake, "orders")[-1] == {"number": 6, "area": "w", "amount": 2**40, "channel": "web"}
    assert lake.read("orders", version=0).columns == ["id", "region", "amount"]
    now, then = (
        bag(lake.read("orders")),
        Counter({(1, "n", 10, "shop"): 1, (2, "s", 5, "shop"): 1, (3, "n", 7, "shop"): 1}),
    )
    assert feed(lake, "orders", 0) == (now - then, then - now)
    with pytest.raises(NablaError, match="NABLA_VIOLATED"), lake.transaction() as tx:
        tx.insert("orders", [(6, "w", 1, "web")])  # the key is enforced under its new name
    lake.optimize()
    assert lake.fsck().sound


def test_a_dropped_column_never_comes_back_with_its_old_values(lake: Lake) -> None:
    orders(lake)
    lake.alter_table("orders", add="note STRING")
    with lake.transaction() as tx:
        tx.update("orders", {"note": "'secret'"})
    lake.alter_table("orders", drop="note")
    lake.alter_table("orders", add="note STRING")
    assert [row.note for row in lake.read("orders").collect()] == [None] * 3
    assert [row["note"] for row in read_by_others(lake, "orders")] == [None] * 3


def test_what_cannot_be_altered_is_refused_and_changes_nothing(lake: Lake) -> None:
    orders(lake)
    before = lake.version
    for code, change in (
        ("NABLA_COLUMN_IN_USE", {"drop": "region"}),
        ("NABLA_COLUMN_IN_USE", {"drop": "id"}),
        ("NABLA_ALTER", {"widen": {"amount": "SMALLINT"}}),
        ("NABLA_ALTER", {"widen": {"amount": "STRING"}}),
        ("NABLA_ALTER", {"drop": ["id", "region", "amount"]}),
        ("NABLA_ALTER", {}),
        ("NABLA_ALTER", {"drop": "amount", "rename": {"amount": "x"}}),
        ("NABLA_ALTER", {"add": "x INT NOT NULL"}),
        ("NABLA_ALTER", {"add": "x INT", "default": {"y": 1}}),
        ("NABLA_DUPLICATE_COLUMN", {"add": "AMOUNT INT"}),
        ("NABLA_DUPLICATE_COLUMN", {"rename": {"amount": "region"}}),
        ("NABLA_UNKNOWN_COLUMN", {"drop": "nothing"}),
        ("NABLA_RESERVED_COLUMN", {"add": "_version INT"}),
        ("NABLA_SCHEMA", {"add": "x NONSENSE"}),
    ):
        with pytest.raises(NablaError, match=code):
            lake.alter_table("orders", **change)  # type: ignore[arg-type]
    with pytest.raises(NablaError, match="NABLA_NOT_WRITABLE"):
        lake.alter_table("revenue", add="x INT")
    assert lake.version == before
    late = lake.transaction()
    late.insert("orders", [(9, "w", 1)])
    lake.alter_table("orders", drop=[], add="x INT")
    with pytest.raises(NablaError, match="NABLA_CONFLICT"):
        late.commit()
    with lake.transaction() as tx:
        tx.insert("orders", [(9, "w", 1, 1)])
    with pytest.raises(NablaError, match="NABLA_SCHEMA_CHANGED"):
        lake.revert(before)


def test_a_view_gets_another_query_and_its_feed_tells_the_difference(lake: Lake) -> None:
    orders(lake)
    lake.create_view("totals", "SELECT SUM(total) AS total FROM revenue")
    lake.create_view("amounts", "SELECT id, amount FROM orders WHERE amount > 5")
    for query, inserted, deleted in (
        ("SELECT id, amount FROM orders WHERE amount > 7", 0, 1),
        ("SELECT id, amount FROM orders WHERE amount > 4", 2, 0),
        ("SELECT id, amount, region FROM orders WHERE amount > 4", 3, 3),
        ("SELECT id, region FROM orders WHERE amount > 4", 0, 0),
        ("SELECT id, region FROM orders WHERE 4 < amount", 0, 0),
    ):
        version, before = lake.status()["amounts"].version, bag(lake.read("amounts"))
        done = lake.alter_view("amounts", query)["amounts"]
        assert "from its own rows" in done.reason or query not in OWN_ROWS, query
        assert (done.inserted, done.deleted) == (inserted, deleted), query
        lake.verify("amounts")
        if lake.read("amounts").columns == ["id", "amount"]:
            assert feed(lake, "amounts", version) == (
                bag(lake.read("amounts")) - before,
                before - bag(lake.read("amounts")),
            )
    version = lake.status()["revenue"].version
    report = lake.alter_view(
        "revenue", "SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY region"
    )
    assert (report["revenue"].outcome, report["totals"].outcome) == ("difference", "kept")
    inserted, deleted = feed(lake, "revenue", version)
    assert (inserted, deleted) == (bag(lake.read("revenue")), {("n", 17, None): 1, ("s", 5, None): 1})
    with lake.transaction() as tx:
        tx.insert("orders", [(4, "w", 9)])
    refreshed(lake)
    with pytest.raises(NablaError, match='NABLA_COLUMN_IN_USE: column "total" of "revenue" is read by view "totals"'):
        lake.alter_view("revenue", "SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    report = lake.alter_view(
        "revenue", "SELECT region, CAST(SUM(amount) AS DOUBLE) AS total FROM orders GROUP BY region"
    )
    assert (report["revenue"].outcome, report["totals"].outcome) == ("rebuilt", "rebuilt")
    refreshed(lake)
    lake.verify()


@pytest.mark.parametrize("seed", range(2))
def test_random_alterations_between_transactions_and_refreshes(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    orders(lake)
    lake.create_view("joined", "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.region = b.region")
    lake.create_view("counted", "SELECT COUNT(*) AS n FROM every")
    for step in range(14):
        columns = lake.read("orders").columns
        own = [name for name in columns if name.startswith("c")]
        kinds = dict(lake.read("orders").dtypes)
        change: dict[str, Any] = chance.choice(
            [
                {"add": f"c{step} INT"},
                {"add": f"c{step} INT", "default": {f"c{step}": step}},
                {"rename": {chance.choice(columns): f"r{step}"}},
                {"drop": chance.choice(own)} if own else {"add": "cc DOUBLE"},
                {
                    "widen": {name: "BIGINT" for name in columns if kinds[name] == "int"}
                    or {columns[0]: "DECIMAL(38, 0)"}
                },
            ]
        )
        assert refusal(lake, change) in ("", "NABLA_ALTER", "NABLA_COLUMN_IN_USE", "NABLA_DUPLICATE_COLUMN")
        kinds = dict(lake.read("orders").dtypes)
        with lake.transaction() as tx:
            row = [chance.randint(0, 3) if kind != "string" else chance.choice("nsw") for kind in kinds.values()]
            tx.insert("orders", [(100 + step, *row[1:])])
            if chance.random() < 0.5:
                tx.delete("orders", where=f"`{[*kinds][2]}` = {chance.randint(0, 3)}")
        if chance.random() < 0.6:
            lake.refresh()
            lake.verify()
    lake.refresh()
    lake.verify()
    assert sorted(map(str, read_by_others(lake, "orders"))) == sorted(
        str(row.asDict()) for row in lake.read("orders").collect()
    )
    assert lake.fsck().sound
    assert nabla.open(lake.path, spark=lake.spark).read("orders").columns == lake.read("orders").columns
