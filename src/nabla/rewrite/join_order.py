"""The order of joins: outwards from the change.

Spark joins in the order of the query. A delta term must start with the change and look up one table after the other, each
connected by an equality to the tables joined so far, so that every intermediate result stays small and can be broadcast.
This module reorders clusters of inner joins: from the small operand outwards, and smaller tables first. Before derivation it
puts changed operands first, so that all terms together look up each unchanged table once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from nabla._cached import once
from nabla.algebra.calls import Named
from nabla.algebra.clock import clock_conjuncts
from nabla.algebra.equalities import equality
from nabla.algebra.expressions import Expr
from nabla.algebra.memo import Memo
from nabla.algebra.names import is_touched
from nabla.algebra.nodes import Aggregate, At, Constant, Filter, Join, Node, Project, Scan, UnionAll
from nabla.algebra.traverse import parts, relations, with_inputs

TableSizes = Mapping[str, int]
"""The rows of tables, as far as they are known."""
NOTHING_KNOWN: TableSizes = MappingProxyType({})
_PASSING = 0.1
"""The share of rows that is taken to pass a filter."""


def is_small(node: Node) -> bool:
    """Whether the result is as small as the change, however large the tables are."""
    return once(node, _is_small)


def _is_small(node: Node) -> bool:
    match node:
        case Scan():
            return node.at is At.DELTA or is_touched(node.table)
        case Constant():
            return True
        case UnionAll():
            return all(is_small(part) for part in node.members)
        case Join(kind="inner"):
            return (is_small(node.left) or is_small(node.right)) and bool(node.on)
        case Join(kind="semi"):
            return is_small(node.left) or is_small(node.right)
        case Join(kind="left" | "anti"):
            return is_small(node.left)
        case Join(kind="right"):
            return is_small(node.right)
        case Join(kind="full"):
            return is_small(node.left) and is_small(node.right)
        case Aggregate(keys=()):
            return True
    return bool(node.inputs) and all(is_small(part) for part in node.inputs)


def broadcast_side(join: Join) -> Literal["left", "right", None]:
    """The small side, where Spark can broadcast it: outer, semi and anti joins must stream the side they preserve."""
    if join.kind in ("inner", "right") and is_small(join.left):
        return "left"
    if join.kind != "right" and join.kind != "full" and is_small(join.right):
        return "right"
    return None


@dataclass
class JoinCluster:
    """Inner joins flattened: operands that are no inner joins, and all conjuncts."""

    operands: list[Node]
    conjuncts: list[Expr]


def flatten(node: Node) -> JoinCluster:
    if isinstance(node, Join) and node.kind == "inner":
        left, right = flatten(node.left), flatten(node.right)
        return JoinCluster(left.operands + right.operands, left.conjuncts + right.conjuncts + list(node.on))
    if isinstance(node, Filter) and _joins_below(node.input):
        inner = flatten(node.input)
        return JoinCluster(inner.operands, inner.conjuncts + list(node.conjuncts))
    if isinstance(node, Project) and _only_drops(node) and _joins_below(node.input):
        return flatten(node.input)
    return JoinCluster([node], [])


def _joins_below(node: Node) -> bool:
    while isinstance(node, Filter) or (isinstance(node, Project) and _only_drops(node)):
        node = node.input
    return isinstance(node, Join) and node.kind == "inner"


def _only_drops(node: Project) -> bool:
    return all(o.expr.column == o.column.name for o in node.outputs)


def _is_tied(operand: Node, joined: frozenset[str], conjuncts: Sequence[Expr]) -> bool:
    """Whether an equality ties the operand to what is already joined."""
    found = (equality(conjunct, joined, operand.names) for conjunct in conjuncts)
    return any(e.left.columns and e.right.columns for e in found if e is not None)


def _size(operand: Node, rows: TableSizes) -> float:
    """An estimate of the rows of an operand: those of its largest table, reduced by filters."""
    filters = sum(isinstance(node, Filter) for node in operand.walk())
    largest = max((rows.get(node.table, 0) for node in operand.walk() if isinstance(node, Scan)), default=0)
    return float(largest * _PASSING**filters)


def _order(cluster: JoinCluster, first: Callable[[Node], bool], rows: TableSizes) -> Node:
    """A left-deep tree that starts with an operand that `first` accepts and prefers such operands throughout."""
    waiting = sorted(cluster.operands, key=lambda operand: not first(operand))
    conjuncts = list(cluster.conjuncts)
    tree = waiting.pop(0)
    tree = _filter_when_ready(tree, conjuncts)
    while waiting:
        tied = [operand for operand in waiting if _is_tied(operand, tree.names, conjuncts)]
        operand = min(tied or waiting[:1], key=lambda o: (not first(o), _size(_filter(o, conjuncts), rows)))
        waiting = [o for o in waiting if o is not operand]
        operand = _filter_when_ready(operand, conjuncts)
        # A conjunct that reads the clock stays in a filter: the rules follow the clock in filters only.
        ready = [c for c in conjuncts if c.columns <= tree.names | operand.names and not clock_conjuncts((c,))]
        conjuncts = [c for c in conjuncts if c not in ready]
        tree = Join(tree, operand, tuple(ready))
    return Filter(tree, tuple(conjuncts)) if conjuncts else tree


def _filter_when_ready(operand: Node, conjuncts: list[Expr]) -> Node:
    filtered = _filter(operand, conjuncts)
    conjuncts[:] = [c for c in conjuncts if not (c.columns and c.columns <= operand.names)]
    return filtered


def _filter(operand: Node, conjuncts: Sequence[Expr]) -> Node:
    ready = tuple(c for c in conjuncts if c.columns and c.columns <= operand.names)
    return Filter(operand, ready) if ready else operand


def _reorder(node: Node, first: Callable[[Node], bool], rows: TableSizes) -> Node:
    done: Memo[Node, Node] = Memo()

    def visit(node: Node) -> Node:
        return done.once(node, rebuild)

    def rebuild(node: Node) -> Node:
        if _joins_below(node):
            cluster = flatten(node)
            cluster.operands = [visit(operand) for operand in cluster.operands]
            if any(first(operand) for operand in cluster.operands):
                tree = _order(cluster, first, rows)
                if tuple(c.name for c in tree.columns) == tuple(c.name for c in node.columns):
                    return tree
                return Project(tree, tuple(Named(c, c.ref) for c in node.columns))
        return with_inputs(node, [visit(part) for part in node.inputs])

    for part in parts(node):
        if not _joins_below(part):  # the joins of a cluster are rebuilt together
            visit(part)
    return visit(node)


def join_outwards(node: Node, rows: TableSizes = NOTHING_KNOWN) -> Node:
    """After derivation: every cluster with a small operand starts from it."""
    return _reorder(node, is_small, rows)


def join_changed_first(node: Node, changed: frozenset[str], rows: TableSizes = NOTHING_KNOWN) -> Node:
    """Before derivation: operands that changed are joined first, so that their terms share all later look-ups."""

    def touches(operand: Node) -> bool:
        return not changed.isdisjoint(relations(operand))

    return _reorder(node, touches, rows)
