"""The levels of WITH RECURSIVE, computed and maintained: on the driver if they are small and plain, else by Spark's queries.

Either way the levels themselves are on the driver: Spark refuses a recursion of more than a million rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, islice
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.names import held_table, stored_fields
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.reference.interpreter import Bag, added, negated
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion import memory
from nabla.calculus.recursion.fixpoint import Relation, Round
from nabla.calculus.recursion.levels import Bags, LevelLoop, LevelQueries, Limits, unseen
from nabla.calculus.stages import Levels
from nabla.engine import types
from nabla.engine.driver.rounds import DriverRounds, Unsuited, arrow_rows, signed_bag, suits
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, hidden_schema
from nabla.planner.steps import Iterate
from nabla.storage import reading
from nabla.storage.bags import N, consolidate, repeat, total
from nabla.storage.bags import negated as negated_rows
from nabla.storage.table import Snapshot

_NUMBERS = count()
MOST_STATE_ROWS = 100_000
"""Rows of all levels that the driver makes Python's."""
SHOWN = 3
"""Rows of a level that an error shows."""
_ONE = pa.scalar(1, pa.int64())
_SEEN = 2
"""The count of a row that an earlier level has: with the 1 of a level's own row it is not 1 any more."""


def run_levels(step: Iterate, queries: Queries) -> tuple[pa.Table, tuple[Round, ...]]:
    """The signed change of the stage's state, or all of it, and how the levels went."""
    before = [] if step.anew else _read_levels(queries.relations.states[step.stage.state_table])
    if not queries.only_spark and suits(queries) and sum(level.num_rows for level in before) <= MOST_STATE_ROWS:
        with suppress(Unsuited):
            python = _DriverBags(queries, step.stage)
            return _run(step, python, [*map(signed_bag, before)], Counter())
    spark = _SparkBags(queries, step.stage)
    return _run(step, spark, before, spark.schema.empty_table())


def _run(
    step: Iterate, bags: _StateBags[Relation], before: list[Relation], nothing: Relation
) -> tuple[pa.Table, tuple[Round, ...]]:
    recursion = step.stage.recursion
    level_queries = LevelQueries(
        recursion.table, step.start, step.from_level, step.from_both, step.from_tables, recursion.once
    )
    loop = LevelLoop(bags, level_queries, Limits(recursion.most_levels, recursion.most_rows))
    levels = loop.compute() if step.anew else loop.maintain(before, nothing)
    return bags.state(levels), tuple(loop.rounds)


class _StateBags(Bags[Relation], Protocol[Relation]):
    """Bags that can be stored."""

    def state(self, levels: Sequence[Relation]) -> pa.Table:
        """All levels as rows of the stage's state, with their counts."""
        ...


class _DriverBags:
    """Levels as Python's bags, their queries by the interpreter."""

    def __init__(self, queries: Queries, stage: Levels) -> None:
        self._rounds = DriverRounds(queries)
        self._fields = stored_fields(stage.node.columns)
        self._schema = types.arrow_schema(types.with_weight(hidden_schema(stage.state)))

    def bag(self, query: Node, made: Mapping[str, Bag]) -> Bag:
        held = {name: memory.MemoryRelation.of(self._fields, bag) for name, bag in made.items()}
        return self._rounds.evaluate({"level": query}, held)["level"].bag

    def plus(self, rows: Bag, change: Bag) -> Bag:
        return added(rows, change)

    def minus(self, rows: Bag, other: Bag) -> Bag:
        return added(rows, negated(other))

    def unseen(self, level: Bag, seen: Bag | None) -> tuple[Bag, Bag]:
        return unseen(level, seen)

    def sample(self, relation: Bag) -> list[tuple[Any, ...]]:
        return list(islice(relation, SHOWN))

    def total(self, relation: Bag) -> int:
        return relation.total()

    def differs(self, change: Bag) -> bool:
        return bool(change)

    def state(self, levels: Sequence[Bag]) -> pa.Table:
        return arrow_rows([(i, *row, n) for i, level in enumerate(levels) for row, n in level.items()], self._schema)


class _SparkBags:
    """Levels as Arrow tables with counts, their queries by Spark."""

    def __init__(self, queries: Queries, stage: Levels) -> None:
        self._queries = queries
        self._rows = hidden_schema(stage.node.columns)
        self._counted = types.with_weight(self._rows)
        self.schema = types.arrow_schema(self._counted)
        self._state = types.arrow_schema(types.with_weight(hidden_schema(stage.state)))

    def bag(self, query: Node, made: Mapping[str, pa.Table]) -> pa.Table:
        names: dict[str, str] = {}

        def held(node: Node) -> Node:
            if not isinstance(node, Scan) or node.table not in made:
                return node
            if node.table not in names:
                names[node.table] = held_table(node.table, next(_NUMBERS))
                self._hold(names[node.table], node.at, made[node.table])
            return replace(node, table=names[node.table])

        return types.conform(self._queries.bag(map_nodes(query, held)), self._counted)

    def _hold(self, name: str, at: At, level: pa.Table) -> None:
        """Let queries read a level: its change as rows with counts, the level itself as one row for each copy."""
        rows, schema = (level, self._counted) if at is At.DELTA else (repeat(level), self._rows)
        self._queries.hold(name, ComputedRows(schema, table=rows), at)

    def plus(self, rows: pa.Table, change: pa.Table) -> pa.Table:
        return consolidate(pa.concat_tables([rows, change]))

    def minus(self, rows: pa.Table, other: pa.Table) -> pa.Table:
        return consolidate(pa.concat_tables([rows, negated_rows(other)]))

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
