"""The shop of the demo: its tables, filled with the same data every time, and its views."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nabla.lake.facade import Lake

CUSTOMERS, PRODUCTS, ORDERS = 3_000, 400, 20_000
SMALL = 20
"""A small shop has one of so many customers, products and orders."""
REGIONS = {
    "north": ("Hamburg", "Kiel"),
    "east": ("Leipzig", "Dresden"),
    "south": ("Munich", "Ulm"),
    "west": ("Cologne",),
}
CATEGORIES = ("books", "garden", "kitchen", "music", "toys")
FIRST_DAY = datetime.date(2026, 1, 1)

CUSTOMER = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("region", pa.string())])
PRODUCT = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("category", pa.string()), ("price", pa.decimal128(10, 2))]
)
ORDER = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("day", pa.date32())])
LINE = pa.schema(
    [("order_id", pa.int64()), ("product", pa.int64()), ("quantity", pa.int32()), ("price", pa.decimal128(10, 2))]
)

SQL_VIEWS = {
    "order_totals": """
        SELECT o.id, o.customer, o.day, SUM(l.quantity * l.price) AS amount, COUNT(*) AS lines
        FROM orders o JOIN order_lines l ON l.order_id = o.id
        GROUP BY o.id, o.customer, o.day""",
    "revenue_by_region": """
        SELECT c.region, SUM(t.amount) AS revenue, COUNT(*) AS orders, AVG(t.lines) AS lines_per_order
        FROM order_totals t JOIN customers c ON c.id = t.customer
        GROUP BY c.region""",
    "daily_sales": """
        SELECT o.day, SUM(l.quantity) AS items, COUNT(*) FILTER (WHERE l.quantity >= 4) AS bulk_lines
        FROM orders o JOIN order_lines l ON l.order_id = o.id
        GROUP BY o.day""",
    "best_sellers": """
        SELECT p.category, p.name, SUM(l.quantity) AS sold
        FROM order_lines l JOIN products p ON p.id = l.product
        GROUP BY p.category, p.name HAVING SUM(l.quantity) > 420""",
    "price_range": """
        SELECT category, MIN(price) AS cheapest, MAX(price) AS dearest, COUNT(*) AS products
        FROM products GROUP BY category""",
    "cities_by_category": """
        SELECT DISTINCT p.category, c.city
        FROM customers c JOIN orders o ON o.customer = c.id
        JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product""",
}
VIEWS = (*SQL_VIEWS, "big_spenders")


def big_spenders(lake: Lake) -> DataFrame:
    """The DataFrame view of the shop: orders of more than 1,000, with their customers."""
    customers = lake.spark.table("customers").selectExpr("id AS customer", "name", "city")
    return lake.spark.table("order_totals").where("amount > 1000").join(customers, "customer")


@dataclass
class Shop:
    """Makes the shop's data. It remembers the ids that it has used, so that none repeats."""

    small: bool = False
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    orders: int = 0

    def size(self, full: int) -> int:
        return full // SMALL if self.small else full

    def customers(self) -> pa.Table:
        places = [(city, region) for region, cities in REGIONS.items() for city in cities]
        rows = [(i, f"Customer {i}", *self.chance.choice(places)) for i in range(1, self.size(CUSTOMERS) + 1)]
        return _table(CUSTOMER, rows)

    def products(self) -> pa.Table:
        numbers = range(1, self.size(PRODUCTS) + 1)
        rows = [(i, f"Product {i}", self.chance.choice(CATEGORIES), self._price()) for i in numbers]
        return _table(PRODUCT, rows)

    def new_orders(self, count: int, day: datetime.date | None = None) -> tuple[pa.Table, pa.Table]:
        """Orders with one to five lines each: on the day given, or spread over two months."""
        orders, lines = [], []
        for number in range(self.orders + 1, self.orders + count + 1):
            when = day or FIRST_DAY + datetime.timedelta(days=self.chance.randrange(59))
            orders.append((number, self.chance.randint(1, self.size(CUSTOMERS)), when))
            lines += [
                (number, self.chance.randint(1, self.size(PRODUCTS)), self.chance.randint(1, 5), self._price())
                for _ in range(self.chance.randint(1, 5))
            ]
        self.orders += count
        return _table(ORDER, orders), _table(LINE, lines)

    def _price(self) -> Decimal:
        return Decimal(self.chance.randint(100, 20_000)) / 100


def build(lake: Lake, shop: Shop, tell: Callable[[str], None]) -> None:
    """Create the shop's tables and views in an empty lake."""
    orders, lines = shop.new_orders(shop.size(ORDERS))
    tables = {"customers": shop.customers(), "products": shop.products(), "orders": orders, "order_lines": lines}
    for name, data in tables.items():
        tell(f"Loading {name}")
        lake.create_table(name, data=data, key=None if name == "order_lines" else "id")
    for name, query in SQL_VIEWS.items():
        tell(f"Building {name}")
        lake.create_view(name, query)
    tell("Building big_spenders")
    lake.create_view("big_spenders", big_spenders(lake))


def _table(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
