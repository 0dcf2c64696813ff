"""The rounds of a recursive group: each query of a round runs once, and its rows are held for the next.

Tiny recursions are left to plain Python. DuckDB answers queries over rows that are on the driver and small tables, Spark all
others. Small results are held on the driver and handed to Spark as small files; large ones are written by Spark and stay there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla._cached import cached_property
from nabla.algebra.equalities import equality_of
from nabla.algebra.names import held_table
from nabla.algebra.nodes import At, Join, Node, Scan
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion.fixpoint import Backend, Fixpoint, Relation, Round
from nabla.calculus.recursion.relations import RecursiveGroup
from nabla.engine import types
from nabla.engine.apply import Change, Computed, Result, Whole
from nabla.engine.driver.rounds import MOST_SOURCE_ROWS, DriverRounds
from nabla.engine.driver.tiny_rounds import TinyRounds, Unsuited, suits
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, hidden_schema
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.planner.choose import LARGE_CHANGE
from nabla.storage.bags import N, counted, subtract

_NUMBERS = count()


@dataclass(eq=False)
class HeldPiece:
    """Rows that were computed by one query, or several such put together. Handed to Spark, they are a file, once."""

    rows: ComputedRows
    file: str = ""

    @property
    def table(self) -> pa.Table | None:
        return self.rows.table

    @cached_property
    def size(self) -> int:
        return self.rows.count

    def files(self, workspace: Workspace) -> list[str]:
        if self.rows.table is None:
            return self.rows.files()
        self.file = self.file or workspace.store(self.rows.table, self.rows.schema)
        return [self.file]


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that were computed, in one or several pieces. `fields` are the names under which queries read the columns."""

    number: int
    fields: tuple[str, ...]
    pieces: tuple[HeldPiece, ...]

    @property
    def schema(self) -> StructType:
        return self.pieces[0].rows.schema

    @cached_property
    def table(self) -> pa.Table | None:
        """All rows, if all are on the driver."""
        tables = [piece.table for piece in self.pieces if piece.table is not None]
        return pa.concat_tables(tables) if len(tables) == len(self.pieces) else None

    @property
    def count(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def frame(self, workspace: Workspace) -> DataFrame:
        files = [file for piece in self.pieces for file in piece.files(workspace)]
        return read_parquet(workspace.session, files, self.schema)


class Rounds:
    """The backend of the fixpoint loop: `queries` know the tables and stored predicates that queries read."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.driver = DriverRounds(queries)

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Held]) -> dict[str, Held]:
        found = {name: self._evaluate(node, made) for name, node in queries.items()}
        if not self.queries.plan.large and any(self.size(held) > LARGE_CHANGE for held in found.values()):
            self.queries.plan = replace(self.queries.plan, size="large")  # later rounds stay in Spark
        return found

    def size(self, relation: Held) -> int:
        return relation.count

    def extend(self, relation: Held, more: Held) -> Held:
        """Put small pieces together, so that Spark reads few files, and each row is written a few times only."""
        pieces = [*relation.pieces, *more.pieces]
        while len(pieces) > 1 and 2 * pieces[-1].size > pieces[-2].size:
            tables = [piece.table for piece in pieces[-2:] if piece.table is not None]
            if len(tables) < 2:
                break
            pieces[-2:] = [HeldPiece(ComputedRows(relation.schema, table=pa.concat_tables(tables)))]
        return Held(next(_NUMBERS), relation.fields, tuple(pieces))

    def sign(self, inserted: Held | None, deleted: Held | None, schema: StructType) -> ComputedRows:
        """A change of a view with that schema, with weights, from what came and what went."""
        held = [(h, n) for h, n in ((inserted, 1), (deleted, -1)) if h is not None]
        tables = [(h.table, n) for h, n in held]
        weighted = types.with_weight(schema)
        if not held:
            return ComputedRows.none(weighted)
        if all(table is not None for table, _ in tables):
            weighed = [
                table.append_column(pa.field(N, pa.int64()), pa.repeat(pa.scalar(n, pa.int64()), table.num_rows))
                for table, n in tables
                if table is not None
            ]
            return ComputedRows(weighted, table=types.conform(pa.concat_tables(weighed), weighted))
        frames = [h.frame(self.queries.workspace).selectExpr("*", f"{n}L AS {N}") for h, n in held]
        frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        return self.queries.write(frame, weighted)

    def whole(self, relation: Held, schema: StructType) -> ComputedRows:
        """All rows of a view with that schema."""
        if (table := relation.table) is not None:
            return ComputedRows(schema, table=types.conform(table, schema))
        return self.queries.write(relation.frame(self.queries.workspace), schema)

    def _evaluate(self, node: Node, made: Mapping[str, Held]) -> Held:
        rows = self._difference(node, made) or self._by_driver(node, made)
        if rows is None:
            rows = self.queries.rows(self._read_held(node, made))
        return Held(next(_NUMBERS), tuple(c.label for c in node.columns), (HeldPiece(rows),))

    def _by_driver(self, node: Node, made: Mapping[str, Held]) -> ComputedRows | None:
        """The rows of a query whose relations of the loop are all on the driver, if DuckDB answers it."""
        read = [held for scan in node.scans if (held := made.get(scan.table)) is not None]
        if any(held.table is None for held in read):
            return None
        return self.driver.answer(node, lambda scan: _derived(scan, made))

    def _difference(self, node: Node, made: Mapping[str, Held]) -> ComputedRows | None:
        """One relation less another, where both are on the driver: no query is needed for that."""
        if not isinstance(node, Join) or node.kind != "anti":
            return None
        left, right = _on_driver(node.left, made), _on_driver(node.right, made)
        found = [equality_of(node, conjunct) for conjunct in node.on]
        equated = [equality.columns if equality else None for equality in found]
        columns = [(a.name, b.name) for a, b in zip(node.left.columns, node.right.columns, strict=False)]
        if left is None or right is None or equated != columns:
            return None
        remaining, _ = subtract(left, counted(right.rename_columns(left.column_names)))
        return ComputedRows(hidden_schema(node.columns), table=left.filter(remaining))

    def _read_held(self, node: Node, made: Mapping[str, Held]) -> Node:
        """The query over what is held: a name of a round's relation means another one in the next round."""
        return map_nodes(node, lambda part: self._scan(part, made) if isinstance(part, Scan) else part)

    def _scan(self, scan: Scan, made: Mapping[str, Held]) -> Scan:
        held = made.get(scan.table)
        if held is None:
            return scan
        name = held_table(scan.table, held.number)
        self.queries.hold(name, held)
        fields = tuple(f"c{held.fields.index(f)}" for f in scan.fields)
        return replace(scan, table=name, at=At.NEW, fields=fields)


def _derived(scan: Scan, made: Mapping[str, Held]) -> pa.Table | None:
    """The columns of a relation of the loop that a scan reads; its rows are on the driver."""
    held = made.get(scan.table)
    if held is None or held.table is None:
        return None
    return held.table.select([held.fields.index(f) for f in scan.fields])


def _on_driver(side: Node, made: Mapping[str, Held]) -> pa.Table | None:
    """The relation that a scan reads, if the scan reads all of it and it is on the driver."""
    held = made.get(side.table) if isinstance(side, Scan) else None
    return held.table if held is not None and isinstance(side, Scan) and held.fields == side.fields else None


class Denial(Protocol):
    """Rules for rows that must not be. They are asked for, from the tables alone."""

    def violations(self, backend: Backend[Relation], rounds: list[Round]) -> Relation:
        """All such rows."""
        ...

    def new_violations(self, backend: Backend[Relation], changed: Collection[str], rounds: list[Round]) -> Relation:
        """All such rows, if there were none before these tables have changed."""
        ...


class _Backend(Backend[Relation], Protocol[Relation]):
    """A backend whose relations become results."""

    def whole(self, relation: Relation, schema: StructType) -> ComputedRows: ...

    def sign(self, inserted: Relation | None, deleted: Relation | None, schema: StructType) -> ComputedRows: ...


def run_denial(denial: Denial, schema: StructType, queries: Queries) -> Computed:
    """The rows that violate a denial."""
    _take_for_small(queries)
    if suits(queries):
        with suppress(Unsuited):
            return _ask(denial, schema, queries, TinyRounds(queries))
    return _ask(denial, schema, queries, Rounds(queries))


def _ask(denial: Denial, schema: StructType, queries: Queries, backend: _Backend[Relation]) -> Computed:
    rounds: list[Round] = []
    if queries.plan.mode == "full":
        found = denial.violations(backend, rounds)
    else:
        found = denial.new_violations(backend, queries.plan.changed, rounds)
    return Computed(Whole(backend.whole(found, schema)), rounds=tuple(rounds))


def _take_for_small(queries: Queries) -> None:
    """A recursion derives more than it reads: only what the driver may compute is tiny."""
    if queries.plan.size == "tiny" and sum(s.after.rows for s in queries.relations.sources.values()) > MOST_SOURCE_ROWS:
        queries.plan = replace(queries.plan, size="small")


def run_group(group: RecursiveGroup, schemas: Mapping[str, StructType], queries: Queries) -> dict[str, Computed]:
    """The change of every predicate of a recursive group, or all of them anew, as the plan says."""
    _take_for_small(queries)
    if suits(queries):
        with suppress(Unsuited):
            return _run(group, schemas, queries, TinyRounds(queries))
    return _run(group, schemas, queries, Rounds(queries))


def _run(
    group: RecursiveGroup, schemas: Mapping[str, StructType], queries: Queries, backend: _Backend[Relation]
) -> dict[str, Computed]:
    loop = Fixpoint(group, backend)
    results: dict[str, Result]
    if queries.plan.mode == "full":
        rows = loop.evaluate().rows
        results = {name: Whole(backend.whole(rows[name], schema)) for name, schema in schemas.items()}
    else:
        changed = loop.maintain(queries.plan.changed)
        results = {
            name: Change(backend.sign(changed.inserted.get(name), changed.deleted.get(name), schema))
            for name, schema in schemas.items()
        }
    return {name: Computed(result, rounds=tuple(loop.rounds)) for name, result in results.items()}
