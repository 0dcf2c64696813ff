"""Random views on Spark: exact and minimal after every batch of random changes."""

from __future__ import annotations

from random import Random

import pytest
from comparing import refreshed

from nabla.algebra.nodes import At, Scan
from nabla.algebra.sql import to_sql
from nabla.dev.testing.random_data import DEFAULT, Schema, next_database, random_database, random_schema
from nabla.dev.testing.random_plans import ALL, CORE, random_plan
from nabla.engine.driver import driver_query, key_lookup, merge, row_search
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.planner import choose

pytestmark = pytest.mark.spark


def _sql(lake: Lake, rng: Random, schema: Schema, features: frozenset[str]) -> str:
    plan = random_plan(rng, schema, features)
    columns = ", ".join(f"`{c.name}` AS c{i}" for i, c in enumerate(plan.columns))

    def relation(scan: Scan) -> str:
        assert scan.at is At.NEW
        return scan.table

    return f"SELECT {columns} FROM ({to_sql(plan, relation)})"


@pytest.mark.parametrize(
    ("seed", "features", "smallest", "large", "scanned"),
    [
        (2, CORE, 0, choose.LARGE_CHANGE, -1),
        (3, ALL, key_lookup.SMALLEST, choose.LARGE_CHANGE, -1),
        (4, ALL, 0, choose.LARGE_CHANGE, -1),
        (5, ALL, key_lookup.SMALLEST, -1, -1),
        (6, ALL, key_lookup.SMALLEST, -1, driver_query.MOST_SCANNED),
    ],
    ids=[
        "core, looked up on the driver",
        "all",
        "all, looked up on the driver",
        "all, as if they were large",
        "all, read from files by the driver",
    ],
)
def test_random_views_stay_exact_and_minimal(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    features: frozenset[str],
    smallest: int,
    large: int,
    scanned: int,
) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", smallest)
    monkeypatch.setattr(choose, "LARGE_CHANGE", large)
    monkeypatch.setattr(driver_query, "MOST_SCANNED", scanned)
    if seed % 2 == 0:  # DuckDB looks into files of any size
        monkeypatch.setattr(row_search, "FEW_ROWS", 0)
        monkeypatch.setattr(merge, "FEW_ROWS", 0)
    rng = Random(seed)
    schema = random_schema(rng, DEFAULT)
    database = random_database(rng, schema, DEFAULT)
    for table in schema:
        # Declared keys that do not hold: nothing may depend on them.
        keys = [c.name for c in table.columns if c.type in ("int", "bigint", "date")] if smallest == 0 else []
        rows = list(database.old(table.name).elements())
        lake.create_table(table.name, schema=table.ddl, data=rows, key=keys[0] if keys else None)
    views = 3
    for i in range(views):
        try:
            lake.create_view(f"v{i}", _sql(lake, rng, schema, features))
        except NablaError as error:
            if error.code not in ("NABLA_TYPE", "NABLA_QUERY_FAILED"):
                raise
    for mode in ("incremental", "incremental", "full"):
        with lake.transaction() as tx:
            for table in schema:
                change = database.delta(table.name)
                gone = [row for row, n in change.items() for _ in range(-n)]
                come = [row for row, n in change.items() for _ in range(n)]
                if gone:
                    tx.delete(table.name, rows=gone)
                if come:
                    tx.insert(table.name, come)
        report = refreshed(lake, mode=mode)
        for name, view in report.items():
            assert view.mode in (mode, "skip"), f"{name}: {view.reason}"
        database = next_database(rng, schema, database, DEFAULT)
