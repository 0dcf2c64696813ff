"""Lakes with random tables, views and transactions, for tests on Spark."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.sql import to_sql
from nabla.dev.testing.random_data import (
    DEFAULT,
    Database,
    Schema,
    Table,
    next_database,
    random_database,
    random_schema,
)
from nabla.dev.testing.random_plans import random_plan
from nabla.errors import NablaError
from nabla.lake.facade import Lake

REFUSED = ("NABLA_TYPE", "NABLA_QUERY_FAILED")
"""Why a random query may be no view: Spark cannot run it, or its types cannot be stored."""


class RandomLake:
    """A lake with random tables, and the random changes of them that come next."""

    def __init__(self, lake: Lake, seed: int, key: Callable[[Table], str | None] = lambda table: None) -> None:
        self.lake = lake
        self.rng = Random(seed)
        self.schema: Schema = random_schema(self.rng, DEFAULT)
        self.database: Database = random_database(self.rng, self.schema, DEFAULT)
        for table in self.schema:
            rows = list(self.database.old(table.name).elements())
            lake.create_table(table.name, schema=table.ddl, data=rows, key=key(table))

    def query(self, features: frozenset[str]) -> tuple[Node, str]:
        """A random query, as a plan and as SQL."""
        plan = random_plan(self.rng, self.schema, features)
        columns = ", ".join(f"`{c.name}` AS c{i}" for i, c in enumerate(plan.columns))
        return plan, f"SELECT {columns} FROM ({to_sql(plan, _relation)})"

    def change(self) -> None:
        """Make the next random change, in one transaction."""
        with self.lake.transaction() as tx:
            for table in self.schema:
                change = self.database.delta(table.name)
                gone = [row for row, n in change.items() for _ in range(-n)]
                come = [row for row, n in change.items() for _ in range(n)]
                if gone:
                    tx.delete(table.name, rows=gone)
                if come:
                    tx.insert(table.name, come)
        self.database = next_database(self.rng, self.schema, self.database, DEFAULT)


def unless_refused(create: Callable[[], object], *codes: str) -> None:
    """Make a random view, if it can be one."""
    try:
        create()
    except NablaError as error:
        if error.code not in (*REFUSED, *codes):
            raise


def _relation(scan: Scan) -> str:
    assert scan.at is At.NEW
    return scan.table
