"""Feeds that tell the update of a row from a deletion and an insertion."""

from __future__ import annotations

import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    lake = nabla.open(tmp_path_factory.mktemp("pairs") / "lake", spark=spark)
    lake.create_table("customers", schema="id INT, region STRING", key="id", data=[(1, "n"), (2, "s")])
    lake.create_table(
        "orders", schema="id INT, customer INT, amount INT", key="id", data=[(1, 1, 5), (2, 1, 7), (3, 2, 9)]
    )
    lake.create_view("totals", "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    lake.create_view("named", "SELECT o.id, region, amount FROM orders o JOIN customers c ON o.customer = c.id")
    lake.create_view("largest", "SELECT id, amount, total FROM orders o JOIN totals t ON o.customer = t.customer")
    lake.create_view("everything", "SELECT SUM(amount) AS total FROM orders")
    lake.create_view("amounts", "SELECT amount FROM orders")
    with lake.transaction() as tx:
        tx.update("orders", set={"amount": "6"}, where="id = 1")
        tx.delete("orders", where="id = 3")
        tx.insert("orders", [(4, 1, 10)])
        tx.update("customers", set={"region": "'w'"}, where="id = 1")
    lake.refresh(mode="incremental")
    return lake


def paired(lake: Lake, name: str) -> dict[tuple[object, ...], int]:
    return dict(bag(lake.changes(name, pairs=True).drop("_version", "_timestamp")))


def test_a_table_is_paired_by_its_key(shop: Lake) -> None:
    assert paired(shop, "orders") == {
        (1, 1, 5, "update_before"): 1,
        (1, 1, 6, "update_after"): 1,
        (3, 2, 9, "delete"): 1,
        (4, 1, 10, "insert"): 1,
    }
    assert bag(shop.changes("orders").select("_change_type")) == {("insert",): 2, ("delete",): 2}


def test_a_view_is_paired_by_its_groups_or_the_keys_of_its_tables(shop: Lake) -> None:
    assert paired(shop, "totals") == {
        (1, 12, "update_before"): 1,
        (1, 23, "update_after"): 1,
        (2, 9, "delete"): 1,
    }
    assert paired(shop, "named") == {
        (1, "n", 5, "update_before"): 1,
        (1, "w", 6, "update_after"): 1,
        (2, "n", 7, "update_before"): 1,
        (2, "w", 7, "update_after"): 1,
        (3, "s", 9, "delete"): 1,
        (4, "w", 10, "insert"): 1,
    }
    assert paired(shop, "largest")[(2, 7, 12, "update_before")] == 1
    assert paired(shop, "everything") == {(21, "update_before"): 1, (23, "update_after"): 1}


def test_rows_that_nothing_identifies_cannot_be_paired(shop: Lake) -> None:
    with pytest.raises(NablaError, match=r"NABLA_NO_KEY.*amounts"):
        shop.changes("amounts", pairs=True)


def test_a_key_that_does_not_hold_pairs_only_rows_that_are_alone(lake: Lake) -> None:
    lake.create_table("t", schema="k INT, v INT", key="k", data=[(1, 1), (1, 2), (2, 1), (None, 1)])
    with lake.transaction() as tx:
        tx.update("t", set={"v": "v + 5"})
    kinds = bag(lake.changes("t", pairs=True).select("k", "_change_type"))
    assert kinds == {
        (1, "delete"): 2,
        (1, "insert"): 2,
        (2, "update_before"): 1,
        (2, "update_after"): 1,
        (None, "update_before"): 1,
        (None, "update_after"): 1,
    }
