"""Deriving the change of a query: `Derivation(changed).d(q)`.

Within a derivation `d(q)` is the change of q, `old(q)` and `new(q)` are q before and after it. Nothing is computed here:
all three are plans. The change of a query whose tables did not change is None, so that only changed operands give a term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nabla.algebra.build import equal
from nabla.algebra.calls import Named
from nabla.algebra.clock import CLOCK, before, reads_clock
from nabla.algebra.expressions import Expr
from nabla.algebra.memo import Memo
from nabla.algebra.names import Mark, mark_name
from nabla.algebra.nodes import Aggregate, At, Filter, Negate, Node, Project, Scan, UnionAll, Weigh
from nabla.algebra.traverse import relations
from nabla.calculus.laws import derive

Contents = Callable[[At], Node]
"""The plan that reads the rows of an inner stage, or their change, from its state."""


class Derivation:
    """Derives changes. `changed` names the relations that changed; `contents` gives the rows of inner stages."""

    def __init__(self, changed: frozenset[str], contents: Mapping[str, Contents] | None = None) -> None:
        self.changed = changed
        self.contents = dict(contents or {})
        self._d: Memo[Node, Node | None] = Memo()
        self._touched: Memo[Node, bool] = Memo()
        self._at: dict[At, Memo[Node, Node]] = {at: Memo() for at in At}

    def touches(self, q: Node) -> bool:
        return self._touched.once(q, lambda q: not self.changed.isdisjoint(relations(q)))

    def d(self, q: Node) -> Node | None:
        return self._d.once(q, lambda q: derive(q, self) if self.touches(q) else None)

    def old(self, q: Node) -> Node:
        return self.at(q, At.OLD)

    def new(self, q: Node) -> Node:
        return self.at(q, At.NEW)

    def at(self, q: Node, at: At) -> Node:
        return self._at[at].once(q, lambda q: self._state(q, at))

    def _state(self, q: Node, at: At) -> Node:
        if isinstance(q, Scan):
            # A table that did not change is the same before and after: one scan serves both.
            return self.read(q, at if q.table in self.changed else At.NEW)
        if at is At.OLD and reads_clock(q) and CLOCK in self.changed:
            assert isinstance(q, Filter)
            return Filter(self.at(q.input, at), tuple(map(before, q.conjuncts)))
        return q.with_inputs(*(self.at(part, at) for part in q.inputs)) if q.inputs else q

    def read(self, scan: Scan, at: At) -> Node:
        """The scan of a table in a state, or the plan that makes the rows of an inner stage from its stored state."""
        if scan.table not in self.contents:
            return replace(scan, at=at)
        rows = self.contents[scan.table](at)
        by_field = {c.name: c for c in rows.columns}
        return Project(rows, tuple(Named(c, by_field[f].ref) for c, f in zip(scan.output, scan.fields, strict=True)))


def add(*terms: Node | None) -> Node | None:
    """The sum of changes with the same columns."""
    present = [t for t in terms if t is not None]
    if len(present) < 2:
        return present[0] if present else None
    return UnionAll(tuple(present), present[0].columns)


def negative(term: Node | None) -> Node | None:
    """The change that cancels a change."""
    return None if term is None else Negate(term)


def mark_columns(node: Node, mark: Mark = Mark.OLD) -> Node:
    """The same rows under other names, for use beside the original."""
    return Project(node, tuple(Named(c.rename(mark_name(c.name, mark)), c.ref) for c in node.columns))


def same_keys(rows: Node, beside: Node, keys: tuple[str, ...], mark: Mark = Mark.OLD) -> tuple[Expr, ...]:
    """Conditions for rows of both relations to have the same key, NULLs being equal. The columns of `beside` are marked."""
    return tuple(equal(rows.column(k).ref, beside.column(mark_name(k, mark)).ref, null_safe=True) for k in keys)


def keys_of(change: Node, keys: tuple[str, ...]) -> Node:
    """The key values that occur in a change, each once."""
    return Aggregate(Weigh(change), keys)
