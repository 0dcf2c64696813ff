"""Walks over plans: the relations that a plan reads, and rewriting every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.memo import Memo, innermost_first
from nabla.algebra.nodes import Node, Scan


def parts(*roots: Node) -> list[Node]:
    """Every node of these plans once, after the nodes below it."""
    return innermost_first(roots, lambda node: node.inputs)


def map_nodes(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with every node rewritten, bottom up. A node that is used twice stays one node."""
    done: Memo[Node, Node] = Memo()
    for node in parts(root):
        done[node] = change(with_inputs(node, [done[part] for part in node.inputs]))
    return done[root]


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The node over other inputs; the node itself if it has these inputs already."""
    same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
    return node if same else node.with_inputs(*inputs)


def relations(q: Node) -> set[str]:
    """The names of the relations that a query reads and that may change: tables, stages, the clock."""
    names = {node.table for node in q.walk() if isinstance(node, Scan)}
    return names | {CLOCK} if any(map(reads_clock, q.walk())) else names
