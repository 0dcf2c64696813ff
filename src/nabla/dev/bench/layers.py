"""Many small views in layers, bronze to gold: the fixed cost of a view that has hardly anything to compute."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import nabla
from nabla.dev.bench.smallest import write_ten_rows
from nabla.lake.facade import Lake

ROUNDS = 8
EVENTS, CUSTOMERS, PRODUCTS = 20_000, 1_000, 200
KINDS = ("view", "cart", "order", "return", "rating")


@dataclass(frozen=True)
class Layers:
    """`seconds` is the median of a refresh of all views."""

    views: int
    seconds: float
    write_seconds: float
    modes: dict[str, int]

    @property
    def times(self) -> float:
        return self.seconds / self.views / self.write_seconds

    def __str__(self) -> str:
        return (
            f"{self.views} layered views in {self.seconds:.2f} s, {self.seconds / self.views:.3f} s a view, "
            f"a Spark write of ten rows {self.write_seconds:.3f} s: {self.times:.2f} times a view"
        )


def views() -> Iterator[tuple[str, str]]:
    """Name and query, layer by layer."""
    yield "events_clean", "SELECT id, customer, product, lower(kind) AS kind, amount, day FROM events WHERE amount >= 0"
    yield "customers_clean", "SELECT id, upper(country) AS country, segment FROM customers"
    yield "products_clean", "SELECT id, category, price FROM products WHERE price IS NOT NULL"
    for kind in KINDS:
        yield f"{kind}s", f"SELECT id, customer, product, amount, day FROM events_clean WHERE kind = '{kind}'"
    for kind in KINDS:
        joined = f"{kind}s e JOIN customers_clean c ON e.customer = c.id JOIN products_clean p ON e.product = p.id"
        columns = "e.id, e.day, e.amount, c.country, c.segment, p.category"
        yield f"{kind}s_wide", f"SELECT {columns} FROM {joined}"
    for kind in KINDS:
        totals = "COUNT(*) AS n, SUM(amount) AS total"
        yield f"{kind}s_by_country", f"SELECT country, {totals} FROM {kind}s_wide GROUP BY country"
        yield (
            f"{kind}s_by_category",
            f"SELECT category, {totals}, MAX(amount) AS most FROM {kind}s_wide GROUP BY category",
        )
        yield f"{kind}s_by_day", f"SELECT day, {totals} FROM {kind}s_wide GROUP BY day"
    yield "active_customers", "SELECT DISTINCT customer FROM orders"
    yield "lost_customers", "SELECT c.id FROM customers_clean c LEFT ANTI JOIN active_customers a ON c.id = a.customer"
    yield "best_countries", "SELECT country, total FROM orders_by_country WHERE total > 1000"
    unioned = " UNION ALL ".join(f"SELECT '{kind}' AS kind, n, total FROM {kind}s_by_day" for kind in KINDS)
    yield "summary", f"SELECT kind, SUM(n) AS n, SUM(total) AS total FROM ({unioned}) GROUP BY kind"


def layered_views(folder: Path) -> Layers:
    lake = nabla.open(folder / "layers")
    rng = Random(7)
    lake.create_table(
        "customers",
        schema="id INT, country STRING, segment INT",
        data=[(i, f"c{i % 12}", i % 5) for i in range(CUSTOMERS)],
        key="id",
    )
    lake.create_table(
        "products",
        schema="id INT, category STRING, price INT",
        data=[(i, f"k{i % 15}", i + 1) for i in range(PRODUCTS)],
        key="id",
    )
    schema = "id INT, customer INT, product INT, kind STRING, amount INT, day INT"
    lake.create_table("events", schema=schema, data=[_event(i, rng) for i in range(EVENTS)], key="id")
    made = list(views())
    for name, sql in made:
        lake.create_view(name, sql)
    seconds, writes = [], []
    modes: dict[str, int] = {}
    for number in range(ROUNDS):
        _change(lake, number, rng)
        begun = time.perf_counter()
        report = lake.refresh()
        seconds.append(time.perf_counter() - begun)
        writes.append(write_ten_rows(lake, folder))
        for view in report.values():
            modes[view.mode] = modes.get(view.mode, 0) + 1
    lake.verify()
    return Layers(len(made), statistics.median(seconds), statistics.median(writes), modes)


def _event(i: int, rng: Random) -> tuple[int, int, int, str, int, int]:
    return (i, rng.randrange(CUSTOMERS), rng.randrange(PRODUCTS), KINDS[i % 5].upper(), rng.randrange(100), i % 30)


def _change(lake: Lake, number: int, rng: Random) -> None:
    first = EVENTS + 50 * number
    with lake.transaction() as tx:
        tx.insert("events", [_event(first + k, rng) for k in range(25)])
        tx.delete("events", where=f"id % 1000 = {number}")
        tx.update("customers", set={"country": "'c0'"}, where=f"id = {number}")
