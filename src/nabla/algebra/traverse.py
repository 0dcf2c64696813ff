"""Walking plans: what a plan reads, and plans with every node changed."""

from __future__ import annotations

from collections.abc import Callable

from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.nodes import Node, Scan


def rewritten(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with every node changed, after its inputs were."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            parts = [visit(part) for part in node.inputs]
            same = all(a is b for a, b in zip(parts, node.inputs, strict=True))
            done[id(node)] = change(node if same else node.with_inputs(*parts))
        return done[id(node)]

    return visit(root)


def relations(q: Node) -> set[str]:
    """The names of what a query reads that may change: tables, stages, the clock."""
    names = {node.table for node in q.walk() if isinstance(node, Scan)}
    return names | {CLOCK} if any(map(reads_clock, q.walk())) else names
