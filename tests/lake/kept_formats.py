"""Makes the small lakes that are kept under tests/data, one for each format of a lake's log since the second.

    python tests/lake/kept_formats.py tests/data/lake-format-2.tar.xz 2

A kept lake is never made again: a test that fails on it has found data of users that can no longer be read. Each lake has what
its format brought, views that were refreshed, and a last transaction that they have not followed yet.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from pathlib import Path

import kept_lake

import nabla
from nabla import Lake
from nabla.lake.environments.environments import begin

UP = "up(X, Y) :- boss(X, Y). up(X, Y) :- boss(X, Z), up(Z, Y)."
LOOP = (
    "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM boss UNION ALL SELECT p.x, e.b FROM p JOIN boss e ON p.y = e.a) "
    "SELECT x FROM p WHERE x = y"
)


def build(lake: Lake, format: int) -> None:
    """Make tables and views; every format has what those before it have."""
    lake.create_table("boss", schema="a INT, b INT", data=[(1, 2), (2, 3), (3, 4)])
    lake.create_table("pay", schema="who INT, amount INT", data=[(n % 4, n) for n in range(12)])
    # 2: deleted rows are marked
    lake.create_view("sums", "SELECT who, SUM(amount) AS total, COUNT(*) AS n FROM pay GROUP BY who")
    lake.create_view("of", "SELECT b.a, p.who, p.amount FROM boss b JOIN pay p ON b.b = p.who")
    if format >= 3:  # denials, a schedule for each source, changes that are computed ahead
        lake.create_rules("hierarchy", UP)
        lake.create_constraint("acyclic", rules=":- up(X, X).")
        lake.create_view(
            "slow",
            "SELECT b.b, SUM(p.amount) AS s FROM boss b JOIN pay p ON b.a = p.who GROUP BY b.b",
            maintain={"boss": "immediate", "pay": "1000 rows"},
        )
        lake.create_view("early", "SELECT amount, COUNT(*) AS n FROM pay GROUP BY amount", propagate="ahead")
    if format >= 4:  # recursions of sets, detached views that rely on keys
        lake.create_constraint("no_loop", LOOP)
        for name in ("one", "two"):
            lake.create_table(
                name,
                schema=f"{name}_id INT, {name}_x STRING",
                data=[(1, "a"), (2, "b")],
                key=f"{name}_id",
                enforce=True,
            )
        if format >= 6:  # copies of sources
            lake.register("five", query="SELECT id FROM range(5)", key="id")
            lake.create_view("few", "SELECT COUNT(*) AS n FROM five WHERE id < 3")
        lake.create_view("both", "SELECT * FROM one FULL JOIN two ON one_id = two_id", detached=True)
    if format >= 6:  # tables and views with other columns than before
        lake.create_table("items", schema="id INT, price INT", data=[(n, n) for n in range(4)])
        lake.create_view("dear", "SELECT id FROM items WHERE price > 1")
        lake.alter_table("items", rename={"price": "cost"}, add="note STRING, shop STRING", default={"shop": "north"})
        lake.alter_view("dear", "SELECT id, cost FROM items WHERE cost > 1")


def change(lake: Lake, turn: int) -> None:
    """Insertions, updates and deletions; `turn` tells transactions apart."""
    with lake.transaction() as tx:
        tx.insert("boss", [(4, 10 * turn)])
        tx.delete("boss", rows=[(turn, turn + 1)])
        tx.insert("pay", [(turn, 100 * turn), (9, turn)])
        tx.delete("pay", where=f"amount = {turn}")
        tx.update("pay", set={"amount": "amount + 1"}, where=f"who = {turn}")
        if "one" in lake.status():
            tx.insert("one", [(10 + turn, "new")])
            tx.delete("two", where=f"two_id = {turn}")
        if "items" in lake.status():
            tx.insert("items", [(10 + turn, turn, "new", "south")])
            tx.delete("items", where=f"cost = {turn}")


def shorten_feeds(lake: Lake) -> None:
    """What format 5 brought; no view needs Spark for it."""
    lake.housekeeping(feeds=dt.timedelta())
    lake.optimize()


def make(archive: Path, format: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = nabla.open(Path(folder) / "lake")
        build(lake, format)
        change(lake, 1)
        lake.refresh()
        lake.verify()
        change(lake, 2)
        if format >= 5:
            shorten_feeds(lake)
        if format >= 6:  # environments
            begin(lake.context.log, "dev")
        lake.vacuum(older_than=dt.timedelta())
        kept_lake.pack(Path(folder), archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
