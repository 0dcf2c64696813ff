"""The star schema benchmark (O'Neil, O'Neil, Chen, Revilak 2009): its tables, made from those of TPC-H, and its 13 queries.

The queries are those of the paper, without their ORDER BY. Table `date` is called `dates`: `date` is a type.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import duckdb

from nabla.dev.bench import tpch
from nabla.dev.bench.suite import scattered
from nabla.lake.facade import Lake

QUERIES = ("1_1", "1_2", "1_3", "2_1", "2_2", "2_3", "3_1", "3_2", "3_3", "3_4", "4_1", "4_2", "4_3")

KEYS: dict[str, tuple[str, ...]] = {
    "dates": ("d_datekey",),
    "customer": ("c_custkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "lineorder": ("lo_orderkey", "lo_linenumber"),
}
FOREIGN: dict[str, str] = {
    "lo_orderdate": "dates.d_datekey",
    "lo_custkey": "customer.c_custkey",
    "lo_suppkey": "supplier.s_suppkey",
    "lo_partkey": "part.p_partkey",
}

_PLACES = """
    SELECT {key}, {name}, {prefix}_address, rpad(n_name, 9, ' ')[:9] || ({key} % 10) AS {prefix}_city,
        n_name AS {prefix}_nation, r_name AS {prefix}_region, {prefix}_phone
    FROM '{{folder}}/{table}.parquet'
    JOIN '{{folder}}/nation.parquet' ON {prefix}_nationkey = n_nationkey
    JOIN '{{folder}}/region.parquet' ON n_regionkey = r_regionkey
"""

_TABLES = {
    "dates": """
        SELECT CAST(strftime(day, '%Y%m%d') AS INTEGER) AS d_datekey, strftime(day, '%B %-d, %Y') AS d_date,
            dayname(day) AS d_dayofweek, monthname(day) AS d_month, CAST(year(day) AS INTEGER) AS d_year,
            CAST(strftime(day, '%Y%m') AS INTEGER) AS d_yearmonthnum, strftime(day, '%b%Y') AS d_yearmonth,
            CAST(dayofyear(day) AS INTEGER) AS d_daynuminyear, CAST(month(day) AS INTEGER) AS d_monthnuminyear,
            CAST((dayofyear(day) - 1) // 7 + 1 AS INTEGER) AS d_weeknuminyear
        FROM (SELECT unnest(generate_series(DATE '1992-01-01', DATE '1998-12-31', INTERVAL 1 DAY)) AS day)
    """,
    "customer": _PLACES.format(key="c_custkey", name="c_name", prefix="c", table="customer").replace(
        "c_phone", "c_phone, c_mktsegment"
    ),
    "supplier": _PLACES.format(key="s_suppkey", name="s_name", prefix="s", table="supplier"),
    "part": """
        SELECT p_partkey, p_name, 'MFGR#' || p_brand[7] AS p_mfgr, 'MFGR#' || p_brand[7:8] AS p_category,
            'MFGR#' || p_brand[7:8] || (p_partkey % 40 + 1) AS p_brand1, split_part(p_name, ' ', 1) AS p_color, p_type,
            p_size, p_container
        FROM '{folder}/part.parquet'
    """,
    "lineorder": """
        SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, o_custkey AS lo_custkey, l_partkey AS lo_partkey,
            l_suppkey AS lo_suppkey, CAST(strftime(o_orderdate, '%Y%m%d') AS INTEGER) AS lo_orderdate,
            o_orderpriority AS lo_orderpriority, CAST(l_quantity AS INTEGER) AS lo_quantity,
            CAST(l_extendedprice * 100 AS BIGINT) AS lo_extendedprice, CAST(l_discount * 100 AS INTEGER) AS lo_discount,
            CAST(l_extendedprice * (100 - l_discount * 100) AS BIGINT) AS lo_revenue,
            CAST(60 * l_extendedprice / l_quantity AS BIGINT) AS lo_supplycost, CAST(l_tax * 100 AS INTEGER) AS lo_tax,
            CAST(strftime(l_commitdate, '%Y%m%d') AS INTEGER) AS lo_commitdate, l_shipmode AS lo_shipmode
        FROM '{folder}/lineitem.parquet' JOIN '{folder}/orders.parquet' ON l_orderkey = o_orderkey
    """,
}


def query(number: str) -> str:
    return files("nabla.dev.bench").joinpath(f"queries/ssb/q{number}.sql").read_text(encoding="utf-8")


def generate(folder: Path, scale: float) -> Path:
    """Parquet files of a scale factor of TPC-H, made once: `lineorder` has a row for each of its lines."""
    target = folder / f"ssb-{scale:g}"
    if (target / "lineorder.parquet").exists():
        return target
    source = tpch.generate(folder, scale)
    target.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        for table, sql in _TABLES.items():
            partial = target / f"{table}.part"
            connection.execute(f"COPY ({sql.format(folder=source)}) TO '{partial}' (FORMAT parquet)")
            partial.rename(target / f"{table}.parquet")
    return target


def load(lake: Lake, data: Path) -> None:
    """Create those of the five tables that are not there yet, with their keys and foreign keys."""
    there = lake.status()
    for table, key in KEYS.items():
        if table not in there:
            frame = lake.spark.read.parquet(str(data / f"{table}.parquet"))
            foreign = FOREIGN if table == "lineorder" else None
            lake.create_table(table, data=frame, key=key, foreign_keys=foreign)


def change(lake: Lake, share: float, number: int) -> None:
    """A round of changes in one transaction: half of a share of the lines goes, and as many come under new order keys."""
    gone, copied = scattered(share / 2, number)
    new = (
        lake.read("lineorder")
        .where(copied.format(key="lo_orderkey"))
        .selectExpr(
            f"lo_orderkey + {(number + 1) * 100_000_000} AS lo_orderkey",
            *(f"`{c}`" for c in lake.read("lineorder").columns[1:]),
        )
    )
    rows = new.toArrow()
    with lake.transaction() as tx:
        tx.delete("lineorder", where=gone.format(key="lo_orderkey"))
        tx.insert("lineorder", rows)
