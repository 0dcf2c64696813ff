"""Rewriting plans: a node that is used in several places stays one node."""

from __future__ import annotations

from collections.abc import Callable

from nabla.algebra.nodes import Node


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
