"""The business of the shop: rounds of change, each one transaction."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nabla.dev.demo.shop import Shop

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


@dataclass(frozen=True)
class BusinessRound:
    title: str
    change: Callable[[Lake, Shop], None]


def new_orders(lake: Lake, shop: Shop) -> None:
    orders, lines = shop.new_orders(60, datetime.date(2026, 3, 1))
    with lake.transaction() as tx:
        tx.insert("orders", orders)
        tx.insert("order_lines", lines)


def price_rise(lake: Lake, shop: Shop) -> None:
    with lake.transaction() as tx:
        tx.update("products", set={"price": "CAST(price * 1.05 AS DECIMAL(10,2))"}, where="category = 'toys'")


def departures(lake: Lake, shop: Shop) -> None:
    leaving = "(17, 40, 78)"
    with lake.transaction() as tx:
        orders = f"SELECT id FROM orders WHERE customer IN {leaving}"
        numbers = ", ".join(str(row.id) for row in lake.sql(orders).collect())
        tx.delete("order_lines", where=f"order_id IN ({numbers})")
        tx.delete("orders", where=f"customer IN {leaving}")
        tx.delete("customers", where=f"id IN {leaving}")


def corrections(lake: Lake, shop: Shop) -> None:
    with lake.transaction() as tx:
        tx.update("order_lines", set={"quantity": "quantity + 1"}, where="order_id BETWEEN 100 AND 109")
        tx.update("orders", set={"day": "DATE'2026-02-28'"}, where="id IN (7, 11, 13)")
        tx.update("customers", set={"city": "'Kiel'", "region": "'north'"}, where="id = 42")


def nothing(lake: Lake, shop: Shop) -> None:
    """Change nothing, so that the next refresh has nothing to do."""


ROUNDS = (
    BusinessRound("60 new orders", new_orders),
    BusinessRound("toys become 5 % dearer", price_rise),
    BusinessRound("three customers leave, with their orders", departures),
    BusinessRound("corrections: quantities, days, an address", corrections),
    BusinessRound("a quiet hour", nothing),
)
