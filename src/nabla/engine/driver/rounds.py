"""The queries of rounds and levels that DuckDB answers: over rows that the loop has derived, and small tables.

A recursion runs the same few queries again and again, each over some more rows. Each is compiled once. The rows of the loop
are Arrow tables, and so are tables that are small, which are read once for all rounds. Other queries, those over large
tables among them, go the way of all queries of a refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from nabla.algebra.nodes import At, Node, Scan
from nabla.engine import types
from nabla.engine.driver.driver_query import answer
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, hidden_schema
from nabla.storage import reading
from nabla.storage.table import Snapshot

MOST_SOURCE_ROWS = 20_000
"""Rows of all inputs up to which a recursion is a tiny one: it derives more than it reads."""
WHOLE_TABLE = 200_000
"""Up to so many rows a table is read whole: of a larger one, the rows that a round can join are looked up."""

Derived = Callable[[Scan], pa.Table | None]
"""The rows of the loop that a scan reads, in the order of its columns and with their weights if it is signed; None if it reads
none of the loop's relations."""


class DriverRounds:
    """Answers queries of one recursion as far as DuckDB does. `queries` know the stored tables."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._columns: dict[tuple[str, At, tuple[str, ...]], pa.Table] = {}

    def answer(self, node: Node, derived: Derived) -> ComputedRows | None:
        """The rows of a query, under the names of hidden columns, with weights if it is signed."""
        if self._queries.only_spark:
            return None
        schema = hidden_schema(node.columns)
        schema = types.with_weight(schema) if node.signed else schema
        with self._queries.tracer.query("driver") as trace:
            found = answer(node, partial(self._rows, derived), types.arrow_schema(schema), self._queries.budget)
            trace.rows = rows = None if found is None else ComputedRows(schema, table=found)
        return rows

    def _rows(self, derived: Derived, scan: Scan) -> pa.Table | None:
        found = derived(scan)
        if found is not None or scan.table not in self._queries.relations.sources:
            return found
        if scan.at is At.DELTA:
            return self._queries.held_with_weights(scan)
        key = (scan.table, scan.at, scan.fields)
        if key not in self._columns:
            stored = self._queries.relations.stored(scan)
            if stored is None or stored.snapshot.rows > WHOLE_TABLE or not scan.fields:
                return None
            self._columns[key] = _read_columns(stored.snapshot, [stored.fields[f] for f in scan.fields])
        return self._columns[key]


def _read_columns(snapshot: Snapshot, names: Sequence[str]) -> pa.Table:
    """Columns of a table, which stay at hand for the next refresh."""
    schema = pa.schema([snapshot.schema.field(name) for name in names])
    pieces = (reading.looked_up(snapshot, file, names) for file in snapshot.files)
    return pa.concat_tables([schema.empty_table(), *(pa.Table.from_arrays(p.columns, schema=schema) for p in pieces)])
