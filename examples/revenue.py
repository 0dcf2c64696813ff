"""Orders and revenue: a shop's day, and what it costs to keep its figures right.

    python examples/revenue.py

makes a lake in the folder `revenue` of the current one, lets a day pass, and draws how the view is kept (`revenue.svg`).
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path

import nabla

chance = random.Random(1)
lake = nabla.open("revenue")

# Two years of orders in three currencies.
regions = ("north", "south", "east", "west")
first = datetime.date(2025, 1, 1)
customers = [(i, chance.choice(regions)) for i in range(1, 201)]
orders = [
    (i, chance.randint(1, 200), first + datetime.timedelta(chance.randrange(700)), chance.choice("EDP"))
    for i in range(1, 3001)
]
lines = [
    (order, line, chance.randint(1, 5), Decimal(chance.randint(100, 9900)) / 100)
    for order, *_ in orders
    for line in range(1, chance.randint(2, 4))
]
rates = [("E", Decimal("1.0000")), ("D", Decimal("0.9200")), ("P", Decimal("1.1700"))]

lake.create_table("customers", schema="id INT, region STRING", key="id", data=customers)
lake.create_table("rates", schema="currency STRING, rate DECIMAL(8,4)", key="currency", data=rates)
lake.create_table("orders", schema="id INT, customer INT, day DATE, currency STRING", key="id", data=orders)
lake.create_table(
    "lines", schema="order_id INT, line INT, copies INT, price DECIMAL(8,2)", key=("order_id", "line"), data=lines
)

lake.create_views(
    {
        "order_totals": """
            SELECT o.id, o.customer, o.day, o.currency, SUM(l.copies * l.price) AS amount
            FROM orders o JOIN lines l ON l.order_id = o.id
            GROUP BY o.id, o.customer, o.day, o.currency""",
        "revenue": """
            SELECT c.region, date_trunc('MONTH', t.day) AS month, SUM(t.amount * r.rate) AS euros, COUNT(*) AS orders
            FROM order_totals t JOIN customers c ON c.id = t.customer JOIN rates r USING (currency)
            GROUP BY c.region, date_trunc('MONTH', t.day)""",
        "best_customers": """
            SELECT customer, SUM(amount) AS amount FROM order_totals GROUP BY customer
            ORDER BY amount DESC, customer LIMIT 10""",
    }
)

# A day: twenty orders come, one is cancelled, a customer moves.
today = datetime.date(2026, 12, 2)
with lake.transaction() as tx:
    tx.insert("orders", [(5000 + i, chance.randint(1, 200), today, "E") for i in range(20)])
    tx.insert("lines", [(5000 + i, 1, 2, Decimal("19.90")) for i in range(20)])
    tx.delete("lines", where="order_id = 17")
    tx.delete("orders", where="id = 17")
    tx.update("customers", set={"region": "'west'"}, where="id = 42")

totals = lake.refresh("order_totals", mode="incremental")["order_totals"]
assert (totals.inserted, totals.deleted) == (20, 1)

explanation = lake.explain("revenue", mode="incremental")  # what the refresh of this view will do
report = lake.refresh(mode="incremental")
print(report)
assert [view.mode for view in report.values()] == ["skip", "incremental", "incremental"]

# What changed in the figures, for whoever shows them.
for row in lake.changes("revenue", pairs=True).orderBy("region", "month", "_change_type").limit(6).collect():
    print(row._change_type, row.region, row.month.date(), row.euros)

lake.verify()  # every figure is exactly what its query gives
Path("revenue.svg").write_text(explanation.to_svg(), encoding="utf-8")
