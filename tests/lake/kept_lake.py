"""Makes the lakes that are kept under tests/data: one for each stored format that later versions must go on reading.

    python tests/lake/kept_lake.py tests/data/lake-0.1.tar.xz

`lake-0.1.tar.xz` was made with this script by Nabla 0.1.0, as it was before its code was laid out in rooms. A kept lake is
never made again: a test that fails on it has found data of users that can no longer be read. Run the script for a new
version whose stored format differs, under a new name, and keep the older lakes beside it.

The lake has views of every kind, states and feeds from two refreshes, and a last transaction that its deferred views have not
followed yet. Python functions are stored by value because they are defined in the script that is run.
"""

from __future__ import annotations

import datetime as dt
import sys
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import nabla
from nabla import Lake

UTC = dt.UTC

TABLES: dict[str, dict[str, Any]] = {
    "customers": {
        "schema": "id BIGINT, name STRING, region STRING, since DATE",
        "key": "id",
        "data": [
            (1, "Ada", "north", dt.date(2020, 2, 29)),
            (2, "Bo", "south", dt.date(2021, 12, 31)),
            (3, "Cy", "north", None),
            (4, None, None, dt.date(2019, 1, 1)),
        ],
    },
    "orders": {
        "schema": "id BIGINT, customer BIGINT, day DATE, amount DECIMAL(10,2), weight DOUBLE, paid BOOLEAN, note STRING",
        "key": "id",
        "foreign_keys": {"customer": "customers.id"},
        "data": [
            (
                n,
                1 + n % 5 if n % 7 else None,
                dt.date(2023, 11, 28) + dt.timedelta(9 * n),
                Decimal(f"{n * 7}.{n:02d}") if n % 6 else None,
                n / 4,
                n % 3 == 0,
                ["urgent", "gift, red", None, "50% off"][n % 4],
            )
            for n in range(1, 13)
        ],
    },
    "lines": {
        "schema": "order_id BIGINT, product STRING, n INT, tags ARRAY<STRING>, size STRUCT<w: INT, h: INT>",
        "foreign_keys": {"order_id": "orders.id"},
        "data": [
            (
                1 + n % 9,
                ["cup", "pot", "pan"][n % 3],
                n % 4,
                ["new", "big", "old"][: n % 4],
                (n, n % 2) if n % 5 else None,
            )
            for n in range(16)
        ]
        + [(3, "cup", 1, ["new"], (1, 1))] * 2,
    },
    "kinds": {
        "schema": "id INT, tiny TINYINT, small SMALLINT, single FLOAT, wide DECIMAL(38,10), raw BINARY, moment TIMESTAMP, "
        "wall TIMESTAMP_NTZ, days ARRAY<DATE>, places MAP<STRING, INT>, deep STRUCT<a: STRUCT<b: ARRAY<INT>>>",
        "key": "id",
        "data": [
            (
                n,
                n - 3,
                -n * 100,
                n / 8,
                Decimal(n) / 16,
                bytes([n, 255]),
                dt.datetime(2024, 3, 31, n, 30, tzinfo=UTC),
                dt.datetime(2024, 3, 31, n, 30),
                [dt.date(2024, 2, 28 + n % 2)],
                {"a": n},
                (([n, None],),),
            )
            for n in range(1, 5)
        ]
        + [(9, *[None] * 10)],
    },
    "edges": {"schema": "a BIGINT, b BIGINT", "data": [(1, 2), (2, 3), (3, 4), (2, 4), (6, 7)]},
}
NESTED = "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Marks: ARRAY<STRUCT<test: STRING, mark: INT>>>>"
STUDENTS = [("Jack", [("DB", [("one", 81), ("two", 90)])]), ("John", [("DB", [("one", 60)]), ("Java", [("exam", 95)])])]

VIEWS = {
    "paid_orders": "SELECT id, amount * 2 AS double, upper(note) AS note FROM orders WHERE paid AND day > DATE'2024-01-01'",
    "inner_joined": "SELECT c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id AND o.amount > 10",
    "left_joined": "SELECT c.id, c.name, o.id AS order_id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.paid",
    "full_joined": "SELECT c.name, o.id FROM customers c FULL JOIN orders o ON o.customer = c.id",
    "right_joined": "SELECT o.note, c.region FROM orders o RIGHT JOIN customers c ON o.customer = c.id",
    "crossed": "SELECT a.a, b.b FROM edges a CROSS JOIN edges b WHERE a.a < b.b",
    "ordering": "SELECT * FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "waiting": "SELECT name FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE customer IS NOT NULL)",
    "latest": "SELECT name, (SELECT max(day) FROM orders o WHERE o.customer = c.id) AS day FROM customers c",
    "sums": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n, AVG(amount) AS mean FROM orders GROUP BY customer",
    "extremes": "SELECT product, MIN(n) AS least, MAX(n) AS most, SUM(n) FROM lines GROUP BY product HAVING COUNT(*) > 1",
    "distinct_counts": "SELECT product, COUNT(DISTINCT n) AS d, COUNT(DISTINCT order_id) AS o FROM lines GROUP BY product",
    "spread": "SELECT product, var_samp(n) AS v, stddev_pop(n) AS s, bool_or(n > 2) AS b FROM lines GROUP BY product",
    "weights": "SELECT paid, SUM(weight) AS w FROM orders GROUP BY paid",
    "whole": "SELECT COUNT(*) AS n, SUM(amount) AS total, MAX(day) AS last FROM orders",
    "listed": "SELECT product, sort_array(collect_list(n)) AS ns FROM lines GROUP BY product",
    "products": "SELECT DISTINCT product, n FROM lines",
    "less": "SELECT product, n FROM lines EXCEPT ALL SELECT product, n FROM lines WHERE order_id > 5",
    "common": "SELECT a FROM edges INTERSECT SELECT b FROM edges",
    "united": "SELECT a AS x FROM edges UNION ALL SELECT b FROM edges UNION ALL SELECT id FROM customers",
    "ranked": "SELECT id, customer, row_number() OVER (PARTITION BY customer ORDER BY day, id) AS n, "
    "SUM(weight) OVER (PARTITION BY customer) AS w FROM orders",
    "first_rows": "SELECT id, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 4",
    "rolled_up": "SELECT product, n, SUM(order_id) AS s, grouping(n) AS g FROM lines GROUP BY ROLLUP(product, n)",
    "tagged": "SELECT order_id, tag FROM lines LATERAL VIEW OUTER explode(tags) t AS tag",
    "positions": "SELECT pos, col, COUNT(*) AS n FROM lines LATERAL VIEW posexplode(tags) t AS pos, col GROUP BY pos, col",
    "by_year": "SELECT EXTRACT(YEAR FROM day) AS y, date_part('month', day) AS m, SUM(amount) AS total FROM orders "
    "GROUP BY EXTRACT(YEAR FROM day), date_part('month', day)",
    "dates": "SELECT id, day + INTERVAL 1 MONTH AS due, date_add(day, 3) AS soon, datediff(day, DATE'2024-01-01') AS age, "
    "trunc(day, 'MM') AS month, date_format(day, 'yyyy/MM') AS text FROM orders",
    "cases": "SELECT id, CASE WHEN amount > 50 THEN 'large' WHEN amount IS NULL THEN 'none' ELSE 'small' END AS size, "
    "customer IN (1, 2, NULL) AS known, note LIKE '50\\%%' AS rebate, coalesce(note, '-') AS note, "
    "CAST(amount AS INT) % 7 AS rest, round(weight, 1) AS w, amount BETWEEN 10 AND 40 AS mid FROM orders",
    "lambdas": "SELECT order_id, transform(tags, (t, i) -> concat(t, i)) AS marked, exists(tags, t -> t LIKE 'b%') AS big, "
    "aggregate(tags, 0, (s, t) -> s + length(t)) AS letters, filter(tags, t -> t <> 'new') AS rest FROM lines",
    "structs": "SELECT size, size.w AS w, named_struct('p', product, 'n', n) AS pair, array(n, n + 1)[1] AS next FROM lines",
    "sizes": "SELECT size, COUNT(*) AS n FROM lines GROUP BY size",
    "all_kinds": "SELECT *, date_trunc('HOUR', moment) AS hour, places['a'] AS a, deep.a.b[0] AS b FROM kinds",
    "kind_sums": "SELECT SUM(tiny) AS t, SUM(small) AS s, SUM(wide) AS w, MAX(moment) AS m, MIN(wall) AS l, MAX(raw) AS r "
    "FROM kinds",
    "recent": "SELECT id, day FROM orders WHERE day >= current_date() - INTERVAL 30 DAYS",
    "not_old": "SELECT region, COUNT(*) AS n FROM customers WHERE since < current_date() GROUP BY region",
    "below": "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM edges UNION ALL SELECT p.x, e.b FROM p JOIN edges e ON p.y = e.a) "
    "SELECT * FROM p",
    "over_views": "SELECT c.region, SUM(s.total) AS total FROM sums s JOIN customers c ON s.customer = c.id GROUP BY c.region",
    "balances": "SELECT customer, SUM(amount) AS balance FROM orders GROUP BY customer",
    "regions": "SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "WHERE c.region <> 'west' GROUP BY c.region",
    "from_frame": "SELECT region, COUNT(1) AS n, MAX(length(name)) AS longest FROM customers WHERE id > 1 GROUP BY region",
    "shouted": "SELECT id, concat(note, '!') AS loud FROM orders",
}
"""What each view means as Spark SQL. `from_frame` is made from a DataFrame, `shouted` with a Python function."""

OPTIONS: dict[str, dict[str, Any]] = {"balances": {"maintain": "immediate"}, "regions": {"detached": True}}
RULES = """
    path(X, Y) :- edges(X, Y).
    path(X, Y) :- edges(X, Z), path(Z, Y).
    leaf(Y) :- edges(_, Y), not path(Y, _).
    reach(X, count(Y)) :- path(X, Y).
"""
CONSTRAINTS = {
    "lines_have_orders": (
        "SELECT * FROM lines l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = l.order_id)",
        "reject",
    ),
    "paid_in_time": (
        "SELECT customer, COUNT(*) AS n FROM orders WHERE NOT paid GROUP BY customer HAVING n > 1",
        "warn",
    ),
    "plausible": ("SELECT * FROM kinds WHERE tiny > 100", "quarantine"),
}


def build(lake: Lake) -> None:
    """Make tables, views, rules and constraints."""
    from pyspark.sql import functions as F

    for name, table in TABLES.items():
        lake.create_table(name, **table)
    students = lake.create_nested("students", NESTED, data=STUDENTS)

    def shout(text):  # Spark warns of annotations that it cannot use
        return None if text is None else text + "!"

    frames = {
        "from_frame": lambda: (
            lake.spark.table("customers")
            .where(F.col("id") > 1)
            .groupBy("region")
            .agg(F.count(F.lit(1)).alias("n"), F.max(F.length("name")).alias("longest"))
        ),
        "shouted": lambda: lake.spark.table("orders").select(
            "id", F.udf(shout, "string", useArrow=False)("note").alias("loud")
        ),
    }
    for name, query in VIEWS.items():
        lake.create_view(name, frames[name]() if name in frames else query, **OPTIONS.get(name, {}))
    lake.create_view(
        "good_marks", students.select(Subjs={"Marks": {"where": "mark >= 80", "is": "nonempty"}, "is": "nonempty"})
    )
    lake.create_view("marks", lake.unnest("students"))
    lake.create_rules("graph", RULES)
    for name, (query, on_violation) in CONSTRAINTS.items():
        lake.create_constraint(name, query, on_violation)


def change(lake: Lake, turn: int) -> None:
    """Change every table: insertions, updates and deletions. `turn` tells transactions apart."""
    first = 100 * turn
    today = dt.datetime.now(UTC).date()
    with lake.transaction() as tx:
        tx.insert("customers", [(first, f"Di{turn}", "west" if turn % 2 else "south", dt.date(2022, 1, turn))])
        tx.insert("customers", [(first + 1, f"Ed{turn}", "north", None)])  # orders nothing
        tx.update("customers", set={"region": f"'area {turn}'"}, where=f"id = {turn}")
        tx.insert(
            "orders",
            [
                (
                    first + n,
                    [first, turn, None][n % 3],
                    dt.date(2024, 2, 26) + dt.timedelta(n),
                    Decimal(20 * n),
                    n / 2,
                    n < 2,
                    "new",
                )
                for n in range(4)
            ]
            + [(first + 9, 2, today, Decimal("1.50"), None, True, None)],
        )
        tx.update("orders", set={"amount": "amount + 1", "paid": "NOT paid"}, where=f"id = {turn + 2}")
        tx.delete("lines", where=f"order_id = {turn}")
        tx.delete("orders", where=f"id = {turn}")
        tx.insert(
            "lines", [(first, "cup", turn, ["big", "new"], (turn, 1)), (first + 1, f"jar{turn}", 9, [], None)] * 2
        )
        tx.delete("kinds", where=f"id = {turn}")
        tx.insert("kinds", [(first, turn, *[None] * 6, [], {"b": turn}, None), (first + 1, 101, *[None] * 9)])
        tx.insert("edges", [(4, 10 + turn), (10 + turn, 20 + turn), (0, turn)])
        tx.delete("edges", rows=[[(2, 4), (6, 7), (3, 4), (0, 1), (0, 2)][turn - 1]])
        tx.merge("students", [{"Name": f"Kim{turn}", "Subjs": [("DB", [("one", 80 + turn)])]}, {"Name": "Jack"}])
        tx.merge("students", [{"Name": "John", "Subjs": [("DB", [(f"more{turn}", 99)])]}])
        tx.remove("students", [("Jack", [("DB", [(["one", "two"][turn % 2], [81, 90][turn % 2])])])])


def make(archive: Path) -> None:
    """Make the lake and put it into an archive."""
    with tempfile.TemporaryDirectory() as folder:
        lake = nabla.open(Path(folder) / "lake")
        build(lake)
        for turn in (1, 2):
            change(lake, turn)
            lake.refresh(mode="strict")
        lake.verify()
        change(lake, 3)
        lake.vacuum(older_than=dt.timedelta())
        pack(Path(folder), archive)


def pack(folder: Path, archive: Path) -> None:
    """Put a lake into an archive that depends on its files alone, not on their times and owners."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False, filter=plain)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
