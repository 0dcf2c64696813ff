"""The route of a change through a view with aggregates: the points at which deltas become change tables, and their moves.

Deltas move up from the tables to a *conversion point*, an aggregate or projection, and become a change table. It moves on
through selections on group-by attributes, projections that only roll groups up with the same functions, and products with
an operand that does not change (table 5.2 of the thesis). On every path from the root to a leaf lies exactly one conversion
point: `route` finds the lowest ones, and adds a projection on all attributes where a path has none. Below it, and where a
change table could not move on, deltas go by the pair rules: an aggregate there recomputes its affected groups (Quass).

Tables change one after the other, leaf by leaf, so that the other operand of a product with a change table does not change.

Erratum: table 5.2 updates the aggregates of *both* operands of a product with their combine functions. Those of the operand
that does not change come along with every row of the change table, and adding them once more would double them: they are
kept. Hence a projection above may sum them only if the other operand never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Aggregate, Distinct, Filter, Join, Node, Project, Scan
from nabla.papers.change_steps import Conversion, Passage, Product, Way
from nabla.papers.change_tables import apply_change, can_convert
from nabla.papers.pair_laws import Operand
from nabla.papers.pairs import Pairs


def route(view: Node, changed: frozenset[str]) -> Way:
    """The way of a change of these tables through a view in set form."""
    router = _Router(changed)
    return router.way(view) or router.conversion(view)


class _Router:
    def __init__(self, changed: frozenset[str]) -> None:
        self.changed = changed
        self.numbers = count()
        self.ways: Memo[Node, Way | None] = Memo()

    def causes(self) -> Column:
        return Column(unique_name("causes", next(self.numbers)), "bigint", False)

    def conversion(self, q: Node) -> Way:
        """An added conversion point: a projection on all attributes."""
        every = Aggregate(q, tuple(c.name for c in q.columns))
        return Conversion(every, self.causes(), "conversion point, a projection that was added for it")

    def way(self, q: Node) -> Way | None:
        """The way of the change up to q; None if only a delta gets there."""
        return self.ways.once(q, self._way)

    def _way(self, q: Node) -> Way | None:
        match q:
            case Filter():
                return self.selection(q)
            case Project() | Distinct(input=Project()):
                return self.projection(q)
            case Aggregate():
                return self.aggregate(q)
            case Join(kind="inner"):
                return self.product(q)
        return None

    def selection(self, q: Filter) -> Way | None:
        below = self.way(q.input)
        if below is None or not all(c.columns <= set(below.group) for c in q.conjuncts):
            return None
        node = q.with_inputs(below.node)
        return Passage(node, below, below.group, below.added, "passes: σ on group-by attributes")

    def projection(self, q: Project | Distinct) -> Way | None:
        """The way through a projection that renames all attributes, or that keeps group-by attributes and rolls groups up."""
        project = q.input if isinstance(q, Distinct) else q
        assert isinstance(project, Project)
        below = self.way(project.input)
        names = [o.expr.column for o in project.outputs]
        if below is None or None in names or (q is not project and not set(names) <= set(below.group)):
            return None
        node = Project(below.node, project.outputs)
        group = tuple(o.column.name for o in project.outputs if o.expr.column in below.group)
        if q is project:
            added = frozenset(o.column.name for o in project.outputs if o.expr.column in below.added)
            return Passage(node, below, group, added, "passes: other names")
        return Passage(Distinct(node), below, group, frozenset(), "passes: π on group-by attributes rolls up")

    def aggregate(self, q: Aggregate) -> Way | None:
        below = self.way(q.input)
        if below is not None and set(q.keys) <= set(below.group) and all(_rolls_up(c, below) for c in q.calls):
            added = frozenset(call.column.name for call in q.calls)
            law = "passes: π on group-by attributes rolls up with the same functions"
            return Passage(q.with_inputs(below.node), below, q.keys, added, law)
        return Conversion(q, self.causes(), "conversion point") if can_convert(q) else None

    def product(self, q: Join) -> Way | None:
        found = [self.way(side) for side in q.inputs]
        if found == [None, None] or any(leaf in _leaves(q.right) for leaf in _leaves(q.left)):
            return None
        left, right = (way or self.conversion(side) for way, side in zip(found, q.inputs, strict=True))
        if not all(c.columns <= {*left.group, *right.group} for c in q.on):
            return None
        added = frozenset[str]()
        if not self.changes(q.right):
            added |= left.added
        if not self.changes(q.left):
            added |= right.added
        node = replace(q, left=left.node, right=right.node)
        return Product(node, left, right, self.causes(), added, "passes: × with an operand that does not change")

    def changes(self, q: Node) -> bool:
        return any(leaf.table in self.changed for leaf in _leaves(q))


def _rolls_up(call: Call, below: Way) -> bool:
    """Whether a call is a sum over an attribute that change tables add up."""
    return call.function == "sum" and call.arguments[0].column in below.added and not (call.distinct or call.filter)


def _leaves(q: Node) -> Memo[Scan, int]:
    """The occurrences of tables, each once, with their numbers."""
    leaves: Memo[Scan, int] = Memo()
    for node in q.walk():
        if isinstance(node, Scan):
            leaves.setdefault(node, len(leaves))
    return leaves


class OneLeaf(Pairs):
    """A change of one occurrence of a table, after those in `done` have changed."""

    def __init__(self, leaf: Scan, done: tuple[Scan, ...]) -> None:
        super().__init__(frozenset((leaf.table,)))
        self.leaf = leaf
        self.done = done

    def base(self, scan: Scan) -> Operand:
        if any(scan is leaf for leaf in self.done):
            return Operand(Pairs(frozenset((scan.table,))).base(scan).new)
        return super().base(scan) if scan is self.leaf else Operand(Pairs(frozenset()).base(scan).old)


def leaf_by_leaf(way: Way, changed: frozenset[str]) -> Iterator[Pairs]:
    """The changes of a transaction, one occurrence of a table after the other."""
    done: tuple[Scan, ...] = ()
    for leaf in _leaves(way.node):
        if leaf.table in changed:
            yield OneLeaf(leaf, done)
            done += (leaf,)


def refresh(way: Way, changed: frozenset[str], extent: Node) -> Node:
    """The extent of the view after a change, from what it was before: E ⊔ □₁V ⊔ … ⊔ □ₙV."""
    for step in leaf_by_leaf(way, changed):
        table = way.change(step)
        if table is not None:
            extent = apply_change(extent, table)
    return extent
