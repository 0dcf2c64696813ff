"""Dropping limits that cut nothing off, as LIMIT 100 over a total: whoever wrote them did not need them, and a LIMIT without
ORDER BY would have the view recomputed."""

from __future__ import annotations

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Node,
    Project,
    TopK,
    UnionAll,
    Window,
)
from nabla.algebra.traverse import map_nodes

Known = Memo[Node, int | None]


def drop_limits(root: Node) -> Node:
    """The same query without limits over inputs that never have more rows than the limit."""
    known: Known = Memo()
    return map_nodes(root, lambda node: node.input if isinstance(node, TopK) and _cuts_nothing(node, known) else node)


def _cuts_nothing(node: TopK, known: Known) -> bool:
    most = most_rows(node.input, known)
    return not node.offset and (node.limit is None or (most is not None and most <= node.limit))


def most_rows(node: Node, known: Known) -> int | None:
    """A number of rows that the query never exceeds, whatever its tables hold; None where it depends on them."""
    return known.once(node, lambda node: _most_rows(node, [most_rows(part, known) for part in node.inputs]))


def _most_rows(node: Node, below: list[int | None]) -> int | None:
    match node:
        case Constant():
            return len(node.rows)
        case Aggregate(keys=()):
            return 1
        case Project() | Filter() | Window() | Distinct() | Aggregate():
            return below[0]
        case TopK():
            return min((n for n in (node.limit, below[0]) if n is not None), default=None)
        case ExceptAll() | IntersectAll() | Join(kind="semi" | "anti"):
            return below[0]
    if any(n is None for n in below):
        return None
    counts = [n for n in below if n is not None]
    match node:
        case UnionAll():
            return sum(counts)
        case Join():
            left, right = counts
            return max(left * right, _unmatched(node, left, right))
    return None


def _unmatched(join: Join, left: int, right: int) -> int:
    """The rows of a join where no row finds a partner. Between that and all pairs there are never more rows."""
    return (left if join.kind in ("left", "full") else 0) + (right if join.kind in ("right", "full") else 0)
