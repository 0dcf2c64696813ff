"""The rounds of a tiny recursion, in plain Python: for changes and graphs of a few thousand rows.

A round that derives ten rows takes DuckDB ten milliseconds for each query, mostly to prepare it, and Python less than one; a
path of a thousand edges takes a thousand rounds. Only queries are answered here that Python answers as Spark would, and no
more rows than a bound; for everything else the group is begun again with DuckDB and Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types
from pyspark.sql.types import StructType

from nabla._cached import cached_property
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Node
from nabla.algebra.reference.evaluator import CannotEvaluate, Row, SparkWouldFail, Value
from nabla.algebra.reference.interpreter import Bag, bag_of
from nabla.calculus.recursion.memory import Key, Memory, Piece, Places, Table, TooManyRows, key_of
from nabla.calculus.recursion.memory import MemoryRelation as Relation
from nabla.engine import types
from nabla.engine.driver.exact_query import is_exact_query
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows
from nabla.storage import reading
from nabla.storage.bags import N
from nabla.storage.table import Snapshot

MOST_ROWS = 20_000
"""Rows of one relation that are derived here before the group is begun again."""
MOST_SOURCE_ROWS = 20_000
"""Rows of all inputs that a group is computed from."""
MOST_CHANGED_ROWS = 2_000
LARGEST_TABLE = 5_000_000
"""Rows of a table that is held as Arrow."""
WHOLE_TABLE = 4_096
"""Up to so many rows a table becomes Python's as a whole, with indexes."""


class Unsuited(Exception):
    """The recursion is not tiny, or not plain."""


def suits(queries: Queries) -> bool:
    """Whether it is worth a try to compute a group here."""
    if queries.only_spark:
        return False
    sources = queries.relations.sources.values()
    if queries.plan.mode == "full":
        return sum(s.after.rows for s in sources) <= MOST_SOURCE_ROWS
    changed = sum(s.changed_rows for s in sources)
    return changed <= MOST_CHANGED_ROWS and all(max(s.before.rows, s.after.rows) <= LARGEST_TABLE for s in sources)


class TinyRounds(Memory):
    """The backend of the fixpoint loop for tiny recursions: `queries` know the stored tables."""

    def __init__(self, queries: Queries) -> None:
        self._sources = queries.relations.sources
        super().__init__({name: source.names for name, source in self._sources.items()}, MOST_ROWS)
        self._read: dict[tuple[str, int], Table] = {}
        self._changes: dict[str, Table] = {}
        self._exact: Memo[Node, bool] = Memo()

    def table(self, name: str, at: At) -> Table:
        source = self._sources.get(name)
        if source is None:
            raise Unsuited(f"{name} is no table but the state of a stage")
        if at is At.DELTA:
            if name not in self._changes:
                self._changes[name] = Piece(signed_bag(source.change_rows()))
            return self._changes[name]
        if at is At.OLD and source.past_is_gone:
            raise Unsuited(f"the old state of {name} is gone")
        snapshot = source.at(at)
        key = (snapshot.folder, snapshot.version)
        if key not in self._read:
            self._read[key] = _table(snapshot)
        return self._read[key]

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Relation]) -> dict[str, Relation]:
        for node in queries.values():
            if not self._exact.once(node, is_exact_query):
                raise Unsuited("a query that Python may answer differently")
        try:
            return super().evaluate(queries, made)
        except (TooManyRows, CannotEvaluate, SparkWouldFail, ValueError, OverflowError, pa.ArrowException) as error:
            raise Unsuited(str(error)) from error

    def sign(self, inserted: Relation | None, deleted: Relation | None, schema: StructType) -> ComputedRows:
        """A change of a view with that schema, with weights, from what came and what went."""
        rows = [(*row, 1) for row in inserted.bag] if inserted else []
        rows += [(*row, -1) for row in deleted.bag] if deleted else []
        return ComputedRows(
            types.with_weight(schema), table=arrow_rows(rows, types.arrow_schema(types.with_weight(schema)))
        )

    def whole(self, relation: Relation, schema: StructType) -> ComputedRows:
        """All rows of a view with that schema."""
        return ComputedRows(schema, table=arrow_rows(list(relation.bag), types.arrow_schema(schema)))


class _ArrowTable:
    """A large table: its columns as Arrow, of which lookups take the rows that they ask for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._columns: dict[int, pa.ChunkedArray] = {}

    @cached_property
    def bag(self) -> Bag:
        if self._snapshot.rows > MOST_ROWS:
            raise TooManyRows(f"a table of {self._snapshot.rows:,} rows is read whole")
        return _bag(reading.read(self._snapshot))

    def matching(self, places: Places, keys: Set[Key]) -> Iterator[tuple[Row, int]]:
        wanted = [{key[i] for key in keys} for i in range(len(places))] if len(places) > 1 else [keys]  # type: ignore[index]
        near: pa.Array | None = None
        for place, values in sorted(zip(places, wanted, strict=True), key=lambda item: -len(item[1])):
            column = self._column(place) if near is None else self._column(place).take(near)
            hits = pc.indices_nonzero(pc.is_in(column, value_set=_values(values, column.type)))
            near = hits if near is None else near.take(hits)
        assert near is not None
        if len(near) > MOST_ROWS:
            raise TooManyRows(f"{len(near):,} rows are looked up")
        of_row = key_of(places)
        found = [_plain(self._column(i).take(near)) for i in range(len(self._snapshot.schema))]
        for row, n in Counter(zip(*found, strict=True)).items():
            if of_row(row) in keys:
                yield row, n

    def _column(self, place: int) -> pa.ChunkedArray:
        if place not in self._columns:
            name = self._snapshot.schema.names[place]
            self._columns[place] = reading.read(self._snapshot, [name])[name]
        return self._columns[place]


def _table(snapshot: Snapshot) -> Table:
    return Piece(_bag(reading.read(snapshot))) if snapshot.rows <= WHOLE_TABLE else _ArrowTable(snapshot)


def _bag(table: pa.Table) -> Bag:
    return Counter(zip(*map(_plain, table.columns), strict=True))


def _plain(column: pa.ChunkedArray) -> list[Value]:
    """The values of a column. Nested ones are left out: no query that runs here reads them, and they are no keys."""
    return [None] * len(column) if pyarrow.types.is_nested(column.type) else column.to_pylist()


def signed_bag(signed: pa.Table) -> Bag:
    rows = zip(*map(_plain, signed.drop_columns([N]).columns), strict=True)
    return bag_of(zip(rows, signed[N].to_pylist(), strict=True))


def _values(values: Set[Key], kind: pa.DataType) -> pa.Array:
    """Values to look for in a column; those that its type cannot hold are not in it."""
    if pyarrow.types.is_integer(kind):
        bound = 1 << kind.bit_width - 1
        return pa.array([v for v in values if not isinstance(v, int) or -bound <= v < bound], kind)
    return pa.array(list(values), kind)


def arrow_rows(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
