"""Dropping the parts of a query that are known to be empty: terms of a sum, sides of a join, whole queries."""

from __future__ import annotations

from collections.abc import Callable

from nabla.algebra.build import null
from nabla.algebra.calls import Named
from nabla.algebra.nodes import Constant, Join, Negate, Node, Project, UnionAll


def nothing(like: Node) -> Node:
    """No rows, with the columns of another query."""
    return _with_sign(Constant(like.columns, ()), like.signed)


def is_nothing(node: Node) -> bool:
    while isinstance(node, Negate):
        node = node.input
    return isinstance(node, Constant) and not node.rows


def drop_empty(node: Node, empty: Callable[[Node], bool]) -> Node:
    """The same query without its empty parts. Its inputs must have lost theirs already."""
    if isinstance(node, Constant):
        return node
    if node.columns and empty(node):
        return nothing(node)
    match node:
        case UnionAll():
            return _drop_members(node)
        case Join(kind="anti") if is_nothing(node.right):
            return node.left
        case Join(kind="left") if is_nothing(node.right) and not node.right.signed:
            return _pad(node)
    return node


def _drop_members(node: UnionAll) -> Node:
    members = tuple(m for m in node.members if not is_nothing(m))
    if len(members) == len(node.members):
        return node
    if not members:
        return nothing(node)
    fewer: Node = UnionAll(members, node.output)
    if len(members) == 1:
        pairs = zip(node.output, members[0].columns, strict=True)
        fewer = Project(members[0], tuple(Named(o, c.ref) for o, c in pairs))
    return _with_sign(fewer, node.signed)


def _pad(node: Join) -> Node:
    """The rows of the left side of an outer join whose right side is empty, padded with NULLs."""
    here = node.left.names
    nulls = {c.name: null(c.type) for c in node.columns if c.name not in here}
    return Project(node.left, tuple(Named(c, nulls.get(c.name, c.ref)) for c in node.columns))


def _with_sign(node: Node, signed: bool) -> Node:
    return Negate(Negate(node)) if signed and not node.signed else node
