"""Random views that follow some sources at once, or whose changes are computed ahead: exact and minimal all the while."""

from __future__ import annotations

from random import Random

import pytest
from comparing import refreshed

from nabla.algebra.nodes import Scan
from nabla.algebra.sql import to_sql
from nabla.dev.testing.random_data import DEFAULT, Database, Schema, next_database, random_database, random_schema
from nabla.dev.testing.random_plans import ALL, random_plan
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def _relation(scan: Scan) -> str:
    return scan.table


def _create_view(lake: Lake, rng: Random, schema: Schema, name: str, ahead: bool) -> None:
    plan = random_plan(rng, schema, ALL)
    columns = ", ".join(f"`{c.name}` AS c{i}" for i, c in enumerate(plan.columns))
    sql = f"SELECT {columns} FROM ({to_sql(plan, _relation)})"
    try:
        if ahead:
            lake.create_view(name, sql, maintain="manual", propagate="ahead")
        else:
            sources = [scan.table for scan in plan.scans]
            lake.create_view(name, sql, maintain={rng.choice(sources): "immediate"} if sources else "immediate")
    except NablaError as error:
        if error.code not in ("NABLA_TYPE", "NABLA_QUERY_FAILED", "NABLA_MAINTAIN"):
            raise


def _change(lake: Lake, rng: Random, schema: Schema, database: Database) -> Database:
    with lake.transaction() as tx:
        for table in schema:
            change = database.delta(table.name)
            gone = [row for row, n in change.items() for _ in range(-n)]
            come = [row for row, n in change.items() for _ in range(n)]
            if gone:
                tx.delete(table.name, rows=gone)
            if come:
                tx.insert(table.name, come)
    return next_database(rng, schema, database, DEFAULT)


@pytest.mark.parametrize("seed", [2])
def test_random_views_stay_exact_whatever_they_wait_for(lake: Lake, seed: int) -> None:
    rng = Random(seed)
    schema = random_schema(rng, DEFAULT)
    database = random_database(rng, schema, DEFAULT)
    for table in schema:
        lake.create_table(table.name, schema=table.ddl, data=list(database.old(table.name).elements()))
    for i in range(4):
        _create_view(lake, rng, schema, f"v{i}", ahead=i % 2 == 0)
    views = [name for name, status in lake.status().items() if status.kind == "view"]
    for continued in (False, True):
        for _ in range(2):
            database = _change(lake, rng, schema, database)
            lake.propagate()
        if continued:
            database = _change(lake, rng, schema, database)
        lake.verify()
        refreshed(lake, *views, mode="incremental")
