"""TPC-H: the data, the 22 queries as views, and rounds of changes to orders and their lines."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla.errors import NablaError
from nabla.lake import Lake

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


def query(number: int) -> str:
    return files("nabla.bench").joinpath(f"queries/q{number:02d}.sql").read_text(encoding="utf-8")


def view_name(number: int) -> str:
    return f"q{number:02d}"


def generate(folder: Path, scale: float) -> Path:
    """Parquet files of a scale factor, made once by tpchgen-cli."""
    target = folder / f"tpch-{scale:g}"
    if (target / "lineitem.parquet").exists():
        return target
    program = shutil.which("tpchgen-cli") or shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if program is None:
        raise NablaError("NABLA_NO_TPCHGEN", "tpchgen-cli is not installed", remedy="Install nabla[bench].")
    partial = folder / f"tpch-{scale:g}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = [program, "parquet", "-s", f"{scale:g}", "--output-dir", str(partial)]
    subprocess.run(command, check=True, capture_output=True)
    partial.rename(target)
    return target


def load(lake: Lake, data: Path) -> None:
    """All eight tables, keys and foreign keys declared."""
    for table, key in KEYS.items():
        frame = lake.spark.read.parquet(str(data / f"{table}.parquet"))
        lake.create_table(table, data=frame, key=key, foreign_keys=FOREIGN.get(table))


def change_orders(lake: Lake, share: float, number: int) -> tuple[int, int]:
    """A round of changes in one transaction: a share of the orders goes with its lines, as many new ones come.

    Gives the number of orders and of lines changed. The orders are scattered over the table.
    """
    parts = max(2, round(2 / share))
    chosen = f"pmod(hash({{key}}, {number}), {parts}) = 0"
    copied = f"pmod(hash({{key}}, {number}), {parts}) = 1"
    top = lake.read("orders").agg(F.max("o_orderkey")).first()
    assert top is not None
    shift = F.lit(int(top[0]))
    orders = _moved(lake.read("orders").where(copied.format(key="o_orderkey")), "o_orderkey", shift)
    lines = _moved(lake.read("lineitem").where(copied.format(key="l_orderkey")), "l_orderkey", shift)
    new_orders, new_lines = orders.toArrow(), lines.toArrow()
    with lake.transaction() as tx:
        tx.delete("orders", where=chosen.format(key="o_orderkey"))
        tx.delete("lineitem", where=chosen.format(key="l_orderkey"))
        tx.insert("orders", new_orders)
        tx.insert("lineitem", new_lines)
    return _changed(lake, "orders"), _changed(lake, "lineitem")


def update_parties(lake: Lake, share: float, number: int) -> None:
    """A share of the customers, suppliers and parts changes in what the queries look at: balance, nation, segment, brand."""
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


def _moved(rows: DataFrame, key: str, shift: object) -> DataFrame:
    return rows.withColumn(key, F.col(key) + shift)  # type: ignore[operator]


def _changed(lake: Lake, table: str) -> int:
    event = lake.history(table, limit=1)[0]
    return (event.inserted or 0) + (event.deleted or 0)
