"""TPC-DS: the data, from DuckDB's generator, and its tables with their keys."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from nabla.dev.bench import tpcds_changes, tpcds_export, tpcds_queries
from nabla.dev.bench.suite import Suite
from nabla.errors import NablaError
from nabla.lake.facade import Lake

GENERATOR = "1.5.5"
"""The version of DuckDB that makes the data. Its extension is a package; newer versions have none."""

KEYS: dict[str, tuple[str, ...]] = {
    "date_dim": ("d_date_sk",),
    "time_dim": ("t_time_sk",),
    "income_band": ("ib_income_band_sk",),
    "customer_demographics": ("cd_demo_sk",),
    "household_demographics": ("hd_demo_sk",),
    "customer_address": ("ca_address_sk",),
    "item": ("i_item_sk",),
    "store": ("s_store_sk",),
    "warehouse": ("w_warehouse_sk",),
    "call_center": ("cc_call_center_sk",),
    "ship_mode": ("sm_ship_mode_sk",),
    "reason": ("r_reason_sk",),
    "catalog_page": ("cp_catalog_page_sk",),
    "web_site": ("web_site_sk",),
    "customer": ("c_customer_sk",),
    "promotion": ("p_promo_sk",),
    "web_page": ("wp_web_page_sk",),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
}
"""The tables, each after those that it refers to, and their keys."""
REFERENCES: dict[str, str] = {
    "_date_sk": "date_dim",
    "_time_sk": "time_dim",
    "_item_sk": "item",
    "_customer_sk": "customer",
    "_cdemo_sk": "customer_demographics",
    "_hdemo_sk": "household_demographics",
    "_addr_sk": "customer_address",
    "_store_sk": "store",
    "_promo_sk": "promotion",
    "_warehouse_sk": "warehouse",
    "_ship_mode_sk": "ship_mode",
    "_call_center_sk": "call_center",
    "_catalog_page_sk": "catalog_page",
    "_web_page_sk": "web_page",
    "_web_site_sk": "web_site",
    "_reason_sk": "reason",
    "_income_band_sk": "income_band",
}
"""The end of a foreign key's name says which table it refers to."""


def generate(folder: Path, scale: float) -> Path:
    """Parquet files of a scale factor and the queries, made once by DuckDB's extension."""
    target = folder / f"tpcds-{scale:g}"
    if target.exists():
        return target
    environment = os.environ | {"PYTHONPATH": str(_generator(folder))}
    with _made_whole(target) as partial:
        command = [sys.executable, "-P", tpcds_export.__file__, str(partial), f"{scale:g}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise NablaError("NABLA_NO_TPCDS", f"DuckDB cannot make the data of TPC-DS: {done.stderr.strip()[-300:]}")
    return target


def _generator(folder: Path) -> Path:
    """The folder with the DuckDB that has the extension, installed on first use: the one that Nabla uses has none."""
    target = folder / f"duckdb-{GENERATOR}"
    if target.exists():
        return target
    packages = [f"{name}=={GENERATOR}" for name in ("duckdb", "duckdb-extension-tpcds")]
    with _made_whole(target) as partial:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), *packages]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = f"the generator of TPC-DS cannot be installed: {done.stderr.strip()[-300:]}"
            raise NablaError("NABLA_NO_TPCDS", said, remedy=f"Install {' and '.join(packages)} into {target}.")
    return target


@contextmanager
def _made_whole(target: Path) -> Iterator[Path]:
    """A folder that gets its name when all is in it; if another process was faster, that one's stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as partial:
        whole = Path(partial) / "whole"
        whole.mkdir()
        yield whole
        if not target.exists():
            whole.rename(target)


def load(lake: Lake, data: Path, tables: Collection[str] = tuple(KEYS)) -> None:
    """Create the tables that are not there yet, with their keys, and the foreign keys that the generated rows keep: at
    small scales the generator may refer to rows that it leaves out."""
    there = lake.status()
    for table, key in KEYS.items():
        if table in tables and table not in there:
            frame = lake.spark.read.parquet(str(data / f"{table}.parquet"))
            lake.create_table(table, data=frame, key=key, foreign_keys=_foreign_keys(data, table, tables))


def _foreign_keys(data: Path, table: str, tables: Collection[str]) -> dict[str, str]:
    found = {}
    for column in pq.read_schema(data / f"{table}.parquet").names:
        for end, other in REFERENCES.items():
            named = column.endswith(end) and other in tables and other != table
            if named and _refers(data, table, column, other):
                found[column] = f"{other}.{KEYS[other][0]}"
    return found


def _refers(data: Path, table: str, column: str, other: str) -> bool:
    left, right = (str(data / f"{name}.parquet") for name in (table, other))
    broken = (
        f"SELECT 1 FROM read_parquet('{left}') WHERE {column} IS NOT NULL "
        f"AND {column} NOT IN (SELECT {KEYS[other][0]} FROM read_parquet('{right}')) LIMIT 1"
    )
    with duckdb.connect() as connection:
        return not connection.execute(broken).fetchall()


SUITE = Suite(
    "tpcds",
    "TPC-DS",
    tpcds_queries.NAMES,
    tuple(tpcds_changes.KINDS),
    generate,
    load,
    tpcds_queries.query,
    tpcds_changes.change,
)
