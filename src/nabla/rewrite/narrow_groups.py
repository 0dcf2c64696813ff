"""Narrowing the grouped side of a join to the keys that a filtered table leaves.

    (A ⋈ σ(P)) ⋈ₚ₌ₖ γₖ(B)  =  (A ⋈ σ(P)) ⋈ₚ₌ₖ γₖ(B ⋉ₖ₌ₚ σ(P))

A query that selects few parts and compares each with the average of its lines has a subquery that groups the lines of all
parts, and its state would have a row for each of them. The left side joins only the groups of its own parts, so the other
groups need not be computed or stored. The law holds for any P; declared keys tell which P is worth reading twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from nabla.algebra.calls import Named
from nabla.algebra.clock import reads_clock
from nabla.algebra.equalities import exactly_equal_columns
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.names import number_of, unique_name
from nabla.algebra.nodes import Aggregate, Filter, Join, Node, Project, Scan
from nabla.algebra.traverse import with_inputs
from nabla.rewrite.restrict import Match, restrict

IsKey = Callable[[str, str], bool]
"""Whether a field was declared to be the key of a table."""
NO_KEYS: IsKey = lambda table, field: False  # noqa: E731


def narrow_groups(plan: Node, is_key: IsKey) -> tuple[Node, tuple[str, ...]]:
    """The same query with semijoins below groups whose keys a filtered table restricts to few, and notes for the user."""
    narrowing = _Narrowing(plan, is_key)
    return narrowing.visit(plan), tuple(narrowing.notes)


@dataclass
class _Region:
    """The joins that every row of the result passes: the columns that they equate, and the tables that they read."""

    equal: list[tuple[str, str]] = field(default_factory=list)
    leaves: list[Node] = field(default_factory=list)

    def explore(self, node: Node) -> _Region:
        if _is_leaf(node):
            self.leaves.append(node)
            return self
        if isinstance(node, Project):
            self.equal += [(o.column.name, o.expr.column) for o in node.outputs if o.expr.column is not None]
        if isinstance(node, Join) and node.kind in ("inner", "semi"):
            self.equal += exactly_equal_columns(node)
        for part in _required_parts(node):
            self.explore(part)
        return self

    def same(self, name: str) -> set[str]:
        """The columns that are equal to one."""
        found, before = {name}, 0
        while len(found) > before:
            before = len(found)
            for pair in self.equal:
                if not found.isdisjoint(pair):
                    found.update(pair)
        return found


def _required_parts(node: Node) -> tuple[Node, ...]:
    """The inputs of a node that have a row for every row of its result."""
    match node:
        case Filter() | Project() | Join(kind="inner" | "semi"):
            return node.inputs
        case Join(kind="left" | "anti"):
            return (node.left,)
        case Join(kind="right"):
            return (node.right,)
    return ()


class _Narrowing:
    def __init__(self, plan: Node, is_key: IsKey) -> None:
        self.is_key = is_key
        numbers = (number_of(column.name) for node in plan.walk() for column in node.columns)
        self._numbers = count(1 + max(numbers, default=0))
        self._done: Memo[Node, Node] = Memo()
        self.notes: list[str] = []

    def visit(self, node: Node) -> Node:
        return self._done.once(node, lambda node: self._within(node, _Region().explore(node)))

    def _within(self, node: Node, region: _Region) -> Node:
        passed = _required_parts(node)
        parts = [self._within(p, region) if any(p is q for q in passed) else self.visit(p) for p in node.inputs]
        node = with_inputs(node, parts)
        return self._narrow_sides(node, region) if isinstance(node, Join) else node

    def _narrow_sides(self, join: Join, region: _Region) -> Join:
        """A side of a join may lose groups that meet nothing, unless the join shows them."""
        for mine, other in exactly_equal_columns(join):
            left, right = join.left, join.right
            if join.kind in ("inner", "left", "semi", "anti"):
                right = self._narrow(join, right, other, region, mine)
            if join.kind in ("inner", "semi", "right"):
                left = self._narrow(join, left, mine, region, other)
            if left is not join.left or right is not join.right:
                join = replace(join, left=left, right=right)
        return join

    def _narrow(self, join: Join, grouped: Node, name: str, region: _Region, partner: str) -> Node:
        group = _group_of(grouped, name)
        tables = {node.table for node in group.walk() if isinstance(node, Scan)} if group else set()
        limit = self._limit(region, partner, tables) if group else None
        if limit is None:
            return grouped
        (table,) = (node.table for node in limit.walk() if isinstance(node, Scan))
        self.notes.append(f"groups by {grouped.column(name).label} are kept for rows of {table} that its filter leaves")
        null_safe = all(c.null_safe for c in join.on if {name, partner} <= c.columns)
        return restrict(grouped, limit, (Match(grouped.column(name).ref, limit.columns[0], null_safe),))

    def _limit(self, region: _Region, name: str, tables: set[str]) -> Node | None:
        """The keys of a filtered table, which all values of a column are among."""
        same = region.same(name)
        for leaf in region.leaves:
            scan = _scan_of(leaf)
            if scan.table in tables or not _has_filter(leaf):
                continue
            for column in leaf.columns:
                if column.name in same and self.is_key(scan.table, _field(leaf, column.name)):
                    return self._copy(leaf, column)
        return None

    def _fresh(self, column: Column) -> Column:
        return column.rename(unique_name(column.label, next(self._numbers)))

    def _copy(self, leaf: Node, column: Column) -> Node:
        """One column of a table, under a name of its own."""
        fresh = {c.name: self._fresh(c) for n in leaf.walk() for c in n.columns}
        refs = {name: c.ref for name, c in fresh.items()}

        def again(node: Node) -> Node:
            match node:
                case Scan():
                    return replace(node, output=tuple(fresh[c.name] for c in node.output))
                case Filter():
                    return Filter(again(node.input), tuple(c.substitute(refs) for c in node.conjuncts))
                case Project():
                    outputs = (Named(fresh[o.column.name], o.expr.substitute(refs)) for o in node.outputs)
                    return Project(again(node.input), tuple(outputs))
            raise AssertionError(f"{type(node).__name__} is no part of a leaf")

        key = fresh[column.name]
        return Project(again(leaf), (Named(self._fresh(key), key.ref),))


def _group_of(node: Node, name: str) -> Aggregate | None:
    """The grouping, below filters and projections, that has the column as a key."""
    match node:
        case Filter():
            return _group_of(node.input, name)
        case Project():
            below = node.definitions[name].column
            return _group_of(node.input, below) if below is not None else None
        case Aggregate() if name in node.keys:
            return node
    return None


def _is_leaf(node: Node) -> bool:
    """Whether a node is a table with deterministic filters and projections, which gives the same rows at every read."""
    match node:
        case Scan():
            return True
        case Filter():
            return all(c.deterministic for c in node.conjuncts) and not reads_clock(node) and _is_leaf(node.input)
        case Project():
            return all(o.expr.deterministic for o in node.outputs) and _is_leaf(node.input)
    return False


def _has_filter(leaf: Node) -> bool:
    return any(isinstance(node, Filter) for node in leaf.walk())


def _scan_of(leaf: Node) -> Scan:
    (scan,) = (node for node in leaf.walk() if isinstance(node, Scan))
    return scan


def _field(leaf: Node, name: str) -> str:
    """The field of the table behind a column; empty if the column is computed."""
    match leaf:
        case Scan():
            return next(f for c, f in zip(leaf.output, leaf.fields, strict=True) if c.name == name)
        case Filter():
            return _field(leaf.input, name)
        case Project():
            below = leaf.definitions[name].column
            return _field(leaf.input, below) if below is not None else ""
    raise AssertionError(f"{type(leaf).__name__} is no part of a leaf")
