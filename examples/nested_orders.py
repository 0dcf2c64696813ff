"""Nested orders: documents with their lines and deliveries, and views over the parts.

    python examples/nested_orders.py

makes a lake in the folder `nested-orders` of the current one, and draws how a view is kept (`nested-orders.svg`).
"""

from __future__ import annotations

from pathlib import Path

import nabla

lake = nabla.open("nested-orders")
orders = lake.create_nested(
    "orders",
    """
    number INT,
    lines ARRAY<STRUCT<product: STRING, copies: INT, deliveries: ARRAY<STRUCT<day: DATE, parcel: STRING>>>>,
    notes ARRAY<STRUCT<note: STRING>>
    """,
)

# Documents come in parts: an order is merged by its keys, level by level.
with lake.transaction() as tx:
    tx.merge("orders", [{"number": n, "lines": [("cup", n % 3 + 1, []), ("pot", 1, [])]} for n in range(1, 31)])
    tx.merge("orders", [{"number": 7, "lines": [("lid", 2, [])], "notes": [("a gift",)]}])
    tx.merge("orders", [{"number": 9, "lines": [{"product": "pot", "copies": 1, "deliveries": [(None, "P-1")]}]}])

# Orders with cups, with only these lines; a flat form for SQL; and the same facts nested by product.
lake.create_view("cups", orders.select(lines={"where": "product = 'cup'", "is": "nonempty"}).project("lines"))
lake.create_view("flat_lines", orders.project(lines=[]))  # without deliveries, which would repeat a line
lake.create_view("flat", lake.unnest("flat_lines"))
lake.create_view("sold", "SELECT product, SUM(copies) AS copies FROM flat GROUP BY product")
lake.create_view("by_product", nabla.nest("flat", "product", orders=["number", "copies"]))
assert {row["product"]: row.copies for row in lake.read("sold").collect()} == {"cup": 60, "pot": 30, "lid": 2}

# A new order, a line that is taken back, a parcel that is sent.
with lake.transaction() as tx:
    tx.merge("orders", [{"number": 31, "lines": [("cup", 6, [])]}])
    tx.remove("orders", [{"number": 7, "lines": [("lid", 2, [])]}])
    tx.merge("orders", [{"number": 9, "lines": [{"product": "pot", "copies": 1, "deliveries": [(None, "P-2")]}]}])

explanation = lake.explain("cups", mode="incremental")
report = lake.refresh(mode="incremental")
print(report)
assert (report["cups"].inserted, report["cups"].deleted) == (1, 0)
assert (report["sold"].inserted, report["sold"].deleted) == (1, 2)
assert {row["product"]: row.copies for row in lake.read("sold").collect()} == {"cup": 66, "pot": 30}

[nine] = lake.read("orders").where("number = 9").collect()
print(nine.asDict(recursive=True))

lake.verify()
Path("nested-orders.svg").write_text(explanation.to_svg(), encoding="utf-8")
