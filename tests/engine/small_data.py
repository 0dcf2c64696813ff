"""Random plans whose tables are stored as files, for tests of what the driver does before it asks Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import Schema

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.reference.evaluator.exact import exact_type
from nabla.algebra.reference.interpreter import Bag, Database, bag_of
from nabla.calculus import rules as _rules  # noqa: F401  (registers the laws)
from nabla.calculus.delta import Derivation
from nabla.dev.testing.random_plans import ALL, Scenario, random_scenario
from nabla.engine.driver.key_lookup import Lookup, StoredScan
from nabla.rewrite.join_order import join_outwards
from nabla.storage import files
from nabla.storage.table import Snapshot

_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "string": pa.string(),
}


def arrow_schema(columns: Sequence[Column], weights: bool) -> pa.Schema:
    """Columns c0, c1 … of exact types, and their weights."""
    fields = [pa.field(f"c{i}", _arrow_type(c.type)) for i, c in enumerate(columns)]
    return pa.schema(fields + [pa.field("_n", pa.int64())] * weights)


def _arrow_type(ddl: str) -> pa.DataType:
    digits = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", ddl)
    return pa.decimal128(int(digits[1]), int(digits[2])) if digits else _TYPES[ddl]


def arrow(bag: Bag, scan: Scan, database: Database, weights: bool = False) -> pa.Table:
    """What a scan reads, each row as often as it counts, or once with its weight."""
    own = database.fields[scan.table]
    places = [own.index(f) for f in scan.fields]
    rows = [(tuple(row[p] for p in places), n) for row, n in bag.items()]
    flat = [(*row, n) for row, n in rows] if weights else [row for row, n in rows for _ in range(abs(n))]
    schema = arrow_schema(scan.output, weights)
    columns = zip(*flat, strict=True) if flat else ((),) * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@dataclass
class Case:
    """The change of a random view, as a query over stored tables and changes that are at hand."""

    seed: int
    query: Node
    database: Database
    folder: Path
    snapshots: dict[Scan, StoredScan] = field(default_factory=dict)

    def held(self, scan: Scan) -> pa.Table | None:
        if scan.at is not At.DELTA:
            return None
        return arrow(self.database.read(scan.table, scan.at), scan, self.database)

    def stored(self, scan: Scan) -> StoredScan | None:
        if scan.at is At.DELTA:
            return None
        if scan not in self.snapshots:
            rows = arrow(self.database.read(scan.table, scan.at), scan, self.database)
            schema = Schema.from_arrow(rows.schema).to_json()
            written = files.write(self.folder / str(len(self.snapshots)), rows, rows=3)
            folder = str(self.folder / str(len(self.snapshots)))
            names = {n: n for n in rows.schema.names}
            snapshot = Snapshot(folder, 0, schema, names, (), written)
            fields = dict(zip(scan.fields, rows.schema.names, strict=True))
            self.snapshots[scan] = StoredScan(snapshot, fields)
        return self.snapshots[scan]

    def lookup(self) -> Lookup:
        return Lookup(self.held, self.stored, lambda scan, column, values: (self._nothing(scan), values))

    def _nothing(self, scan: Scan) -> pa.Table:
        stored = self.stored(scan)
        assert stored is not None
        return stored.snapshot.schema.empty_table()

    def with_found(self, lookup: Lookup) -> Database:
        """The database in which the rows that were looked up are relations too."""
        found = {name: _bag(rows) for name, rows in lookup.found.items()}
        names = {name: tuple(rows.column_names) for name, rows in lookup.found.items()}
        after = {**self.database.after, **found}
        return Database({**self.database.fields, **names}, self.database.before, after, self.database.moments)


def _bag(rows: pa.Table) -> Bag:
    return bag_of((row, 1) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True))


def cases(first: int, count: int, folder: Path, features: frozenset[str] = ALL) -> Iterator[Case]:
    """Random views over columns that Python and Spark take alike, with the queries of their changes."""
    for seed in range(first, first + count):
        scenario: Scenario = random_scenario(seed, features)
        change = Derivation(scenario.changed).d(scenario.plan)
        if change is None or not all(_plain(scan) for scan in change.walk() if isinstance(scan, Scan)):
            continue
        yield Case(seed, join_outwards(change), scenario.database, folder / str(seed))


def _plain(scan: Scan) -> bool:
    return bool(scan.output) and all(exact_type(c.type) for c in scan.output)
