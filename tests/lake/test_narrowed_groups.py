"""Subqueries with groups keep those of the keys that the query asks for, and stay exact, even where no key is one."""

from __future__ import annotations

import pytest
from comparing import Bag, refreshed

from nabla.dev.testing.fuzz.bags import rows_of
from nabla.lake.facade import Lake
from nabla.storage.reading import read

pytestmark = pytest.mark.spark

BELOW_AVERAGE = """
    SELECT p.id, l.price FROM lines l JOIN parts p ON p.id = l.part
    WHERE p.brand = 'A' AND l.price < (SELECT AVG(price) FROM lines m WHERE m.part = p.id)
"""
WITHOUT_A_FILTER = BELOW_AVERAGE.replace("p.brand = 'A' AND", "")


@pytest.fixture
def shop(lake: Lake) -> Lake:
    parts = [(i, "ABC"[i % 3]) for i in range(9)]
    lake.create_table("parts", schema="id INT, brand STRING", data=parts, key="id")
    lines = [(i % 9, i * i % 17) for i in range(60)]
    lake.create_table("lines", schema="part INT, price INT", data=lines)
    return lake


def kept_groups(lake: Lake, view: str) -> Bag:
    """The rows of the first state of a view: the sum of the signed rows that are stored, whose last column counts."""
    part = lake.context.log.state().entries[view].parts["@0"]
    kept = Bag()
    for *row, n in rows_of(read(lake.context.log.snapshot(part))):
        kept[tuple(row)] += n
    return Bag({row: n for row, n in kept.items() if n})


def test_only_groups_that_are_asked_for_are_kept(shop: Lake) -> None:
    shop.create_view("some", BELOW_AVERAGE)
    shop.create_view("all_of_them", WITHOUT_A_FILTER)
    assert (len(kept_groups(shop, "some")), len(kept_groups(shop, "all_of_them"))) == (3, 9)
    assert "groups by part are kept for rows of parts that its filter leaves" in str(shop.explain("some"))


def test_views_follow_parts_that_come_to_be_asked_for_and_that_no_longer_are(shop: Lake) -> None:
    shop.create_view("some", BELOW_AVERAGE)
    for change in (
        {"set": {"brand": "'A'"}, "where": "id = 1"},
        {"set": {"brand": "'B'"}, "where": "id IN (0, 3)"},
        {"set": {"brand": "'A'"}, "where": "id = 3"},
    ):
        with shop.transaction() as tx:
            tx.update("parts", **change)
            tx.insert("lines", [(1, 2), (3, 1), (6, 40), (None, 5)])
            tx.delete("lines", where="price = 16")
        assert refreshed(shop, mode="incremental")["some"].mode == "incremental"


def test_a_key_that_is_none_costs_nothing_but_time(shop: Lake) -> None:
    """The view stays exact and incremental, and keeps the groups that it would keep if it were built now."""
    shop.create_view("some", BELOW_AVERAGE)
    with shop.transaction() as tx:
        tx.insert("parts", [(0, "A"), (1, "A"), (None, "A")])  # 0 and 1 are there
        tx.insert("lines", [(None, 3), (1, 1)])
    assert refreshed(shop, mode="incremental")["some"].mode == "incremental"
    shop.create_view("built_now", BELOW_AVERAGE)
    assert kept_groups(shop, "some") == kept_groups(shop, "built_now")
    with shop.transaction() as tx:
        tx.delete("parts", where="id = 0")
    assert refreshed(shop, "some", mode="incremental")["some"].mode == "incremental"
    shop.create_view("built_now", BELOW_AVERAGE, rebuild=True)
    assert kept_groups(shop, "some") == kept_groups(shop, "built_now")
