"""The levels of WITH RECURSIVE, computed and maintained by queries of DuckDB or Spark.

Either way the levels themselves are on the driver: Spark refuses a recursion of more than a million rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.names import held_table, place_of
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion.fixpoint import Round
from nabla.calculus.recursion.levels import LevelLoop, LevelQueries, Limits
from nabla.calculus.stages import Levels
from nabla.engine import types
from nabla.engine.driver.rounds import DriverRounds
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, hidden_schema
from nabla.planner.steps import Iterate
from nabla.storage import reading
from nabla.storage.bags import N, consolidate, counted, negated, repeat, total
from nabla.storage.table import Snapshot

_NUMBERS = count()
SHOWN = 3
"""Rows of a level that an error shows."""
_ONE = pa.scalar(1, pa.int64())
_SEEN = 2
"""The count of a row that an earlier level has: with the 1 of a level's own row it is not 1 any more."""


def run_levels(step: Iterate, queries: Queries) -> tuple[pa.Table, tuple[Round, ...]]:
    """The signed change of the stage's state, or all of it, and how the levels went."""
    before = [] if step.anew else _read_levels(queries.relations.states[step.stage.state_table])
    bags = _ArrowBags(queries, step.stage)
    recursion = step.stage.recursion
    level_queries = LevelQueries(
        recursion.table, step.start, step.from_level, step.from_both, step.from_tables, recursion.once
    )
    loop = LevelLoop(bags, level_queries, Limits(recursion.most_levels, recursion.most_rows))
    levels = loop.compute() if step.anew else loop.maintain(before, bags.schema.empty_table())
    return bags.state(levels), tuple(loop.rounds)


class _ArrowBags:
    """Levels as Arrow tables with counts; DuckDB answers their queries where it can, Spark all others."""

    def __init__(self, queries: Queries, stage: Levels) -> None:
        self._queries = queries
        self._driver = DriverRounds(queries)
        self._rows = hidden_schema(stage.node.columns)
        self._counted = types.with_weight(self._rows)
        self.schema = types.arrow_schema(self._counted)
        self._state = types.arrow_schema(types.with_weight(hidden_schema(stage.state)))

    def bag(self, query: Node, made: Mapping[str, pa.Table]) -> pa.Table:
        rows = self._driver.answer(query, lambda scan: _derived(scan, made))
        found = self._by_queries(query, made) if rows is None else consolidate(counted(rows.read()))
        return types.conform(found, self._counted)

    def _by_queries(self, query: Node, made: Mapping[str, pa.Table]) -> pa.Table:
        names: dict[str, str] = {}

        def held(node: Node) -> Node:
            if not isinstance(node, Scan) or node.table not in made:
                return node
            if node.table not in names:
                names[node.table] = held_table(node.table, next(_NUMBERS))
                self._hold(names[node.table], node.at, made[node.table])
            return replace(node, table=names[node.table])

        return self._queries.bag(map_nodes(query, held))

    def _hold(self, name: str, at: At, level: pa.Table) -> None:
        """Let queries read a level: its change as rows with counts, the level itself as one row for each copy."""
        rows, schema = (level, self._counted) if at is At.DELTA else (repeat(level), self._rows)
        self._queries.hold(name, ComputedRows(schema, table=rows), at)

    def plus(self, rows: pa.Table, change: pa.Table) -> pa.Table:
        return consolidate(pa.concat_tables([rows, change]))

    def minus(self, rows: pa.Table, other: pa.Table) -> pa.Table:
        return consolidate(pa.concat_tables([rows, negated(other)]))

    def unseen(self, level: pa.Table, seen: pa.Table | None) -> tuple[pa.Table, pa.Table]:
        here = _with_counts(level, 1)
        every = consolidate(pa.concat_tables([here, self.schema.empty_table() if seen is None else seen]))
        return every.filter(pc.equal(every[N], _ONE)), _with_counts(every, _SEEN)

    def sample(self, relation: pa.Table) -> list[tuple[Any, ...]]:
        rows = relation.slice(0, SHOWN).drop_columns([N]).to_pylist()
        return [tuple(row.values()) for row in rows]

    def total(self, relation: pa.Table) -> int:
        return total(relation)

    def differs(self, change: pa.Table) -> bool:
        return bool(change.num_rows)

    def state(self, levels: Sequence[pa.Table]) -> pa.Table:
        numbered = [
            level.add_column(0, "level", pa.repeat(pa.scalar(i, pa.int32()), level.num_rows))
            for i, level in enumerate(levels)
        ]
        names = [*(f"c{i}" for i in range(len(self._rows) + 1)), N]
        return pa.concat_tables([self._state.empty_table(), *(table.rename_columns(names) for table in numbered)])


def _derived(scan: Scan, made: Mapping[str, pa.Table]) -> pa.Table | None:
    """The level that a scan reads: its change as rows with counts, the level itself as one row for each copy."""
    if scan.table not in made:
        return None
    level = made[scan.table]
    rows = level if scan.signed else repeat(level)
    return rows.select([*map(place_of, scan.fields), *[N] * scan.signed])


def _with_counts(rows: pa.Table, number: int) -> pa.Table:
    """Consolidated rows with the same count each."""
    counts = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    return rows.set_column(rows.num_columns - 1, rows.schema.field(N), counts)


def _read_levels(state: Snapshot) -> list[pa.Table]:
    """The levels of a state, each without its number."""
    rows = consolidate(reading.read(state))
    number, depth = rows.column(0), (pc.max(rows.column(0)).as_py() if rows.num_rows else -1) + 1
    levels = [rows.filter(pc.equal(number, pa.scalar(i, number.type))).remove_column(0) for i in range(depth)]
    return [level.rename_columns([f"c{i}" for i in range(level.num_columns - 1)] + [N]) for level in levels]
