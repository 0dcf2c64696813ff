"""TPC-H: the data, the 22 queries as views, and rounds of changes to orders and their lines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, cast, get_args

import pyarrow as pa
from pyspark.sql import functions as F

from nabla.dev.bench.suite import Suite, changed_rows, scattered
from nabla.errors import NablaError
from nabla.lake.facade import Lake

KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
FOREIGN: dict[str, dict[str, str]] = {
    "nation": {"n_regionkey": "region.r_regionkey"},
    "supplier": {"s_nationkey": "nation.n_nationkey"},
    "customer": {"c_nationkey": "nation.n_nationkey"},
    "partsupp": {"ps_partkey": "part.p_partkey", "ps_suppkey": "supplier.s_suppkey"},
    "orders": {"o_custkey": "customer.c_custkey"},
    "lineitem": {"l_orderkey": "orders.o_orderkey", "l_partkey": "part.p_partkey", "l_suppkey": "supplier.s_suppkey"},
}
QUERIES = tuple(range(1, 23))

Spelling = Literal["year", "extract", "date_part"]
"""The ways to write the year of a date; q07, q08 and q09 group by one."""
YEARS: dict[Spelling, str] = {
    "year": r"YEAR(\1)",
    "extract": r"EXTRACT(YEAR FROM \1)",
    "date_part": r"date_part('year', \1)",
}
_YEAR = re.compile(r"YEAR\((\w+)\)")


def query(number: int, spelling: Spelling = "year") -> str:
    text = files("nabla.dev.bench").joinpath(f"queries/q{number:02d}.sql").read_text(encoding="utf-8")
    return _YEAR.sub(YEARS[spelling], text)


def view_name(number: int, spelling: Spelling = "year") -> str:
    return f"q{number:02d}" if spelling == "year" else f"q{number:02d}_{spelling}"


def generate(folder: Path, scale: float) -> Path:
    """Parquet files of a scale factor, made once by tpchgen-cli."""
    target = folder / f"tpch-{scale:g}"
    if (target / "lineitem.parquet").exists():
        return target
    program = shutil.which("tpchgen-cli") or shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if program is None:
        raise NablaError("NABLA_NO_TPCHGEN", "tpchgen-cli is not installed", remedy="Install nabla-spark[bench].")
    partial = folder / f"tpch-{scale:g}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = [program, "parquet", "-s", f"{scale:g}", "--output-dir", str(partial)]
    subprocess.run(command, check=True, capture_output=True)
    partial.rename(target)
    return target


def load(lake: Lake, data: Path) -> None:
    """Create those of the eight tables that are not there yet, with their keys and foreign keys."""
    there = lake.status()
    for table, key in KEYS.items():
        if table in there:
            continue
        frame = lake.spark.read.parquet(str(data / f"{table}.parquet"))
        lake.create_table(table, data=frame, key=key, foreign_keys=FOREIGN.get(table))


Kind = Literal["mixed", "insert", "delete", "parties"]
"""The kinds of change: orders are inserted and deleted with their lines, or only inserted, or only deleted; or customers, parts
and suppliers are updated."""
Spread = Literal["scattered", "recent"]


def change(lake: Lake, share: float, number: int, kind: Kind, place: Spread) -> str:
    """Make one round of changes; return a description of it."""
    if kind == "parties":
        update_parties(lake, share, number)
        tables = ("customer", "supplier", "part")
        return ", ".join(f"{changed_rows(lake, table) // 2} rows of {table}" for table in tables) + " updated"
    orders, lines = change_orders(lake, share, number, kind, place)
    return f"{orders} orders and {lines} lines changed"


def change_orders(
    lake: Lake, share: float, number: int, kind: Kind = "mixed", place: Spread = "scattered"
) -> tuple[int, int]:
    """A round of changes in one transaction: a share of the orders goes with its lines, or new ones come, or half of each.

    The orders that go are scattered over the table, or the ones with the highest keys. Gives the number of orders and of
    lines changed.
    """
    bounds = lake.read("orders").agg(F.min("o_orderkey"), F.max("o_orderkey")).first()
    assert bounds is not None
    low, high = int(bounds[0]), int(bounds[1])
    each = share / 2 if kind == "mixed" else share
    gone, copied = _chosen(each, number, place, low, high)
    new: dict[str, pa.Table] = {}
    if kind != "delete":
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            rows = lake.read(table).where(copied.format(key=key))
            new[table] = rows.withColumn(key, F.col(key) + F.lit(high)).toArrow()
    with lake.transaction() as tx:
        if kind != "insert":
            tx.delete("orders", where=gone.format(key="o_orderkey"))
            tx.delete("lineitem", where=gone.format(key="l_orderkey"))
        for table, rows in new.items():
            tx.insert(table, rows)
    return changed_rows(lake, "orders"), changed_rows(lake, "lineitem")


def _chosen(share: float, number: int, place: Spread, low: int, high: int) -> tuple[str, str]:
    """Conditions for the orders that go and for those that are copied: disjoint where there are enough of them."""
    if place == "scattered":
        return scattered(share, number)
    span = max(1, round((high - low) * share))
    return f"{{key}} > {high - span}", f"{{key}} > {high - 2 * span} AND {{key}} <= {high - span}"


def update_parties(lake: Lake, share: float, number: int) -> None:
    """Update a share of the customers, suppliers and parts in columns that queries read: balance, nation, segment, brand."""
    parts = max(2, round(1 / share))
    balance = f"CAST(7 * pmod(hash({{key}}, {number}), 1400) - 900 AS DECIMAL(15,2))"
    nation = f"pmod({{nation}} + {number + 1}, 25)"
    with lake.transaction() as tx:
        for table, prefix, key, more in (
            (
                "customer",
                "c",
                "c_custkey",
                {"c_mktsegment": "CASE WHEN c_custkey % 2 = 0 THEN 'BUILDING' ELSE 'MACHINERY' END"},
            ),
            ("supplier", "s", "s_suppkey", {"s_comment": "'Customer told of Complaints'"}),
        ):
            values = {
                f"{prefix}_acctbal": balance.format(key=key),
                f"{prefix}_nationkey": nation.format(nation=f"{prefix}_nationkey"),
            }
            tx.update(table, set=values | more, where=f"pmod(hash({key}, {number}), {parts}) = 0")
        tx.update(
            "part",
            set={
                "p_brand": "'Brand#12'",
                "p_size": f"pmod(p_size + {number}, 50) + 1",
                "p_name": "concat('forest ', p_name)",
            },
            where=f"pmod(hash(p_partkey, {number}), {parts}) = 0",
        )


def suite(spellings: Sequence[Spelling] = ("year",), place: Spread = "scattered") -> Suite:
    """TPC-H, with a view for every spelling of a query, and changes in one place."""
    spelt = {view_name(number, spelling): (number, spelling) for number in QUERIES for spelling in spellings}
    return Suite(
        "tpch",
        "TPC-H",
        tuple(spelt),
        get_args(Kind),
        generate,
        load,
        lambda name, data: query(*spelt[name]),
        lambda lake, share, number, kind: change(lake, share, number, cast(Kind, kind), place),
    )
