"""Recursion as SQL defines it, computed level by level on any backend.

WITH RECURSIVE … UNION ALL gives a bag: a row that has two derivations is there twice. A level is computed from the level
before it alone. So every level is an ordinary query over the level before, and its change follows by the rules of queries:

    L₀ = A          dL₀ = dA
    Lᵢ₊₁ = Q(Lᵢ)    dLᵢ₊₁ = Q(Lᵢ)₁ − Q(Lᵢ)₀

Levels are computed in order until one is empty, changes of levels until no later level can change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion.fixpoint import Relation, Round
from nabla.errors import NablaError


class Bags(Protocol[Relation]):
    """Runs the queries of levels. A relation is a bag; a change is a consolidated bag whose counts may be negative."""

    def bag(self, query: Node, made: Mapping[str, Relation]) -> Relation:
        """The rows of a query, or its change if it is signed. A scan whose table is in `made` reads that relation."""
        ...

    def plus(self, rows: Relation, change: Relation) -> Relation: ...

    def total(self, relation: Relation) -> int:
        """The sum of all counts."""
        ...

    def differs(self, change: Relation) -> bool:
        """Whether there is any row."""
        ...


@dataclass(frozen=True)
class LevelQueries:
    """The queries of a recursion (see `Iterate`); `table` is the name under which they scan the level before."""

    table: str
    start: Node | None
    from_level: Node
    from_both: Node | None = None
    from_tables: Node | None = None


@dataclass(frozen=True)
class Limits:
    """Spark refuses more levels than `levels` and as many rows as `rows`; -1 is no limit."""

    levels: int = -1
    rows: int = -1


class LevelLoop(Generic[Relation]):
    """Computes or maintains the levels of one recursion."""

    def __init__(self, bags: Bags[Relation], queries: LevelQueries, limits: Limits) -> None:
        self.bags = bags
        self.queries = queries
        self.limits = limits
        self.rounds: list[Round] = []
        self._renamed: Memo[Node, Node] = Memo()

    def compute(self) -> list[Relation]:
        """All levels, from the new state of the tables."""
        assert self.queries.start is not None
        levels: list[Relation] = []
        level = self.bags.bag(self.queries.start, {})
        rows = 0
        while size := self.bags.total(level):
            rows += size
            self._check(len(levels), rows)
            self._record("derive", len(levels), size)
            levels.append(level)
            level = self._bag(self.queries.from_level, {At.NEW: level})
        return levels

    def maintain(self, before: Sequence[Relation], nothing: Relation) -> list[Relation]:
        """The change of every level up to the last that has one; `before` are the levels as they were."""
        start = self.queries.start
        change = nothing if start is None else self.bags.bag(start, {})
        changes: list[Relation] = []
        rows = 0
        while True:
            number = len(changes)
            old = before[number] if number < len(before) else nothing
            new = self.bags.plus(old, change)
            size = self.bags.total(new)
            rows += size
            if size:
                self._check(number, rows)
            changed = self.bags.differs(change)
            if changed:
                self._record("change", number, self.bags.total(change))
            changes.append(change)
            query = self._next(changed, number < len(before))
            if query is None:
                self._check_rows(rows + sum(map(self.bags.total, before[number + 1 :])))
                return changes
            change = self._bag(query, {At.OLD: old, At.NEW: new, At.DELTA: change})

    def _next(self, changed: bool, there_before: bool) -> Node | None:
        """The query for the change of the next level; None if that level and all after it stay as they are."""
        if changed:
            return self.queries.from_both or self.queries.from_level
        return self.queries.from_tables if there_before else None

    def _bag(self, query: Node, level: Mapping[At, Relation]) -> Relation:
        made = {_name(self.queries.table, at): rows for at, rows in level.items()}
        return self.bags.bag(self._rename_scans(query), made)

    def _rename_scans(self, query: Node) -> Node:
        """The query with three names for the level before: one for its old state, its new state and its change."""
        table = self.queries.table

        def rename(node: Node) -> Node:
            own = isinstance(node, Scan) and node.table == table
            return replace(node, table=_name(table, node.at)) if own and isinstance(node, Scan) else node

        return self._renamed.once(query, lambda query: map_nodes(query, rename))

    def _record(self, phase: str, number: int, size: int) -> None:
        self.rounds.append(Round(phase, number, {self.queries.table: size}))

    def _check(self, level: int, rows: int) -> None:
        if 0 <= self.limits.levels <= level:
            raise _limit_error(
                f"more than {self.limits.levels} levels", "NABLA_RECURSION_LIMIT", "MAX RECURSION LEVEL n"
            )
        self._check_rows(rows)

    def _check_rows(self, rows: int) -> None:
        if 0 <= self.limits.rows < rows:
            raise _limit_error(
                f"more than {self.limits.rows:,} rows", "NABLA_RECURSION_LIMIT", "spark.sql.cteRecursionRowLimit"
            )


def _limit_error(what: str, code: str, setting: str) -> NablaError:
    return NablaError(
        code,
        f"the recursion has {what}, which Spark refuses",
        place="WITH RECURSIVE",
        remedy=f"If it ends at all, raise {setting} and create the view again. Rules, and constraints with rules=, end on any "
        "finite graph.",
    )


def _name(table: str, at: At) -> str:
    return f"{table} {at.value}"
