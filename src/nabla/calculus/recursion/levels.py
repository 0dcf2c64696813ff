"""Recursion as SQL defines it, computed level by level on any backend.

WITH RECURSIVE … UNION ALL gives a bag: a row that has two derivations is there twice. A level is computed from the level
before it alone. So every level is an ordinary query over the level before, and its change follows by the rules of queries:

    L₀ = A          dL₀ = dA
    Lᵢ₊₁ = Q(Lᵢ)    dLᵢ₊₁ = Q(Lᵢ)₁ − Q(Lᵢ)₀

Levels are computed in order until one is empty, changes of levels until no later level can change.

A recursion that carries every row on *once* takes to the next level only the rows that no earlier level has. It ends on graphs
with cycles, and its rows are the same as a set. What is carried on follows from the levels so far, before and after a change:

    Cᵢ = Lᵢ − (L₀ ∪ … ∪ Lᵢ₋₁), each row once    Lᵢ₊₁ = Q(Cᵢ)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.reference.interpreter import Bag
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion.fixpoint import Relation, Round
from nabla.errors import NablaError


class Bags(Protocol[Relation]):
    """Runs the queries of levels. A relation is a bag; a change is a consolidated bag whose counts may be negative."""

    def bag(self, query: Node, made: Mapping[str, Relation]) -> Relation:
        """The rows of a query, or its change if it is signed. A scan whose table is in `made` reads that relation."""
        ...

    def plus(self, rows: Relation, change: Relation) -> Relation: ...

    def minus(self, rows: Relation, other: Relation) -> Relation: ...

    def unseen(self, level: Relation, seen: Relation | None) -> tuple[Relation, Relation]:
        """The rows of a level that `seen` lacks, each once, and `seen` with them."""
        ...

    def sample(self, relation: Relation) -> list[tuple[Any, ...]]:
        """A few rows, for people."""
        ...

    def total(self, relation: Relation) -> int:
        """The sum of all counts."""
        ...

    def differs(self, change: Relation) -> bool:
        """Whether there is any row."""
        ...


def unseen(level: Bag, seen: Bag | None) -> tuple[Bag, Bag]:
    """`Bags.unseen` for Python's bags."""
    before = seen or Counter()
    new = Counter(dict.fromkeys((row for row in level if row not in before), 1))
    return new, before | new


@dataclass(frozen=True)
class LevelQueries:
    """The queries of a recursion (see `Iterate`); `table` is the name under which they scan the level before. With `once`, that
    has only the rows that no earlier level has."""

    table: str
    start: Node | None
    from_level: Node
    from_both: Node | None = None
    from_tables: Node | None = None
    once: bool = False


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
        carried = _Carried(self.bags, self.queries.once)
        level = self.bags.bag(self.queries.start, {})
        rows = 0
        while size := self.bags.total(level):
            rows += size
            self._check(len(levels), rows, level)
            self._record("derive", len(levels), size)
            levels.append(level)
            taken = carried.take(level)
            if not self.bags.differs(taken):
                break
            level = self._bag(self.queries.from_level, {At.NEW: taken})
        return levels

    def maintain(self, before: Sequence[Relation], nothing: Relation) -> list[Relation]:
        """The change of every level up to the last that has one; `before` are the levels as they were."""
        start = self.queries.start
        change = nothing if start is None else self.bags.bag(start, {})
        carried_before, carried_now = (_Carried(self.bags, self.queries.once) for _ in range(2))
        changes: list[Relation] = []
        rows = 0
        while True:
            number = len(changes)
            stored = before[number] if number < len(before) else nothing
            level = self.bags.plus(stored, change)
            size = self.bags.total(level)
            rows += size
            if size:
                self._check(number, rows, level)
            if self.bags.differs(change):
                self._record("change", number, self.bags.total(change))
            changes.append(change)
            old, new = carried_before.take(stored), carried_now.take(level)
            moved = self.bags.minus(new, old) if self.queries.once else change
            query = self._next(self.bags.differs(moved), number < len(before))
            if query is not None:
                change = self._bag(query, {At.OLD: old, At.NEW: new, At.DELTA: moved})
            elif number + 1 < len(before) and not carried_now.equals(carried_before):
                change = nothing  # of the next level, whose rows may have come earlier before, or come earlier now
            else:
                self._check_rows(rows + sum(map(self.bags.total, before[number + 1 :])))
                return changes

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

    def _check(self, number: int, rows: int, level: Relation) -> None:
        if 0 <= self.limits.levels <= number:
            shown = ", ".join(map(str, self.bags.sample(level)))
            what = f"more than {self.limits.levels} levels (the last one begins with {shown})"
            raise _limit_error(what, "MAX RECURSION LEVEL n")
        self._check_rows(rows)

    def _check_rows(self, rows: int) -> None:
        if 0 <= self.limits.rows < rows:
            raise _limit_error(f"more than {self.limits.rows:,} rows", "spark.sql.cteRecursionRowLimit")


class _Carried(Generic[Relation]):
    """What levels carry on to the next one: their rows, or with `once` those that no earlier level has."""

    def __init__(self, bags: Bags[Relation], once: bool) -> None:
        self.bags = bags
        self.once = once
        self.seen: Relation | None = None

    def take(self, level: Relation) -> Relation:
        """The rows that a level, the next one, carries on."""
        if not self.once:
            return level
        unseen, self.seen = self.bags.unseen(level, self.seen)
        return unseen

    def equals(self, other: _Carried[Relation]) -> bool:
        """Whether the levels so far have the same rows."""
        if self.seen is None or other.seen is None:
            return True
        return not self.bags.differs(self.bags.minus(self.seen, other.seen))


def _limit_error(what: str, setting: str) -> NablaError:
    return NablaError(
        "NABLA_RECURSION_LIMIT",
        f"the recursion has {what}, which Spark refuses: on a cycle UNION ALL derives the same rows again and again, or new "
        "ones without end",
        place="WITH RECURSIVE",
        remedy=f"If it ends at all, raise {setting} and create it again. Rules end on any finite graph, and so do constraints "
        "that only pass values on and count no rows.",
    )


def _name(table: str, at: At) -> str:
    return f"{table} {at.value}"
