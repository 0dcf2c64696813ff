"""A day in the shop: new orders, a correction, a cancellation. Run it, then `nabla run`."""

import datetime
import decimal

import nabla

lake = nabla.open("lake")
next_id = lake.sql("SELECT MAX(id) + 1 FROM orders").first()[0]
today = datetime.date(2026, 3, 1)

with lake.transaction() as tx:
    tx.insert("orders", [(next_id, 1, decimal.Decimal("950.00"), today), (next_id + 1, 2, decimal.Decimal("12.50"), today)])
    tx.update("orders", set={"amount": "amount - 5"}, where="id = 3")
    tx.delete("orders", where="id = 7")
