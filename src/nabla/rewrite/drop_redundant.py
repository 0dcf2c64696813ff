"""Dropping operators that give nothing, or what their operand gives, whatever the tables hold: R EXCEPT R, R INTERSECT R, and
DISTINCT of rows that a key tells apart.

A key has to be enforced to count. A plan that relies on one is right only as long as it is: so such plans answer questions
about a view, and are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from nabla.algebra.calls import Named
from nabla.algebra.equalities import equality_of
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Node,
    Project,
    Scan,
    TopK,
    Window,
)
from nabla.algebra.shape import shape
from nabla.algebra.traverse import map_nodes
from nabla.rewrite.drop_empty import is_nothing, nothing

TableKeys = Mapping[str, tuple[str, ...]]
"""The enforced key of each table that has one."""


def drop_redundant(root: Node, keys: TableKeys | None = None) -> Node:
    """The same query without operators that its keys and its own shape make redundant. The query is one that gives the same
    result each time it is run."""
    unique = UniqueColumns(keys or {})
    return map_nodes(root, lambda node: _drop(node, unique))


def _drop(node: Node, unique: UniqueColumns) -> Node:
    total = isinstance(node, Aggregate) and not node.keys  # which has a row even of nothing
    if node.inputs and not total and all(map(is_nothing, node.inputs)):
        return nothing(node)
    match node:
        case ExceptAll() if _same(node.left, node.right):
            return nothing(node)
        case IntersectAll() if _same(node.left, node.right):
            return node.left
        case Join(kind="semi") if _meets_itself(node):
            return node.left
        case Join(kind="anti") if _meets_itself(node):
            return nothing(node)
        case Distinct() if unique.of(node.input) is not None:
            return node.input
        case Aggregate(calls=()) if (apart := unique.of(node.input)) is not None and apart <= set(node.keys):
            return Project(node.input, tuple(Named(node.column(k), node.column(k).ref) for k in node.keys))
    return node


def _same(left: Node, right: Node) -> bool:
    return shape(left) == shape(right)


def _meets_itself(node: Join) -> bool:
    """Whether every row of the left side meets its copy on the right side: both are one query, and the condition compares
    columns with themselves."""
    places = [{c.name: i for i, c in enumerate(side.columns)} for side in node.inputs]
    for conjunct in node.on:
        found = equality_of(node, conjunct)
        names = found.columns if found is not None else None
        if found is None or names is None or places[0][names[0]] != places[1][names[1]]:
            return False
        if not found.null_safe and node.left.column(names[0]).nullable:
            return False
    return _same(*node.inputs)


class UniqueColumns:
    """Columns that tell the rows of a query apart, so that it has no row twice."""

    def __init__(self, keys: TableKeys) -> None:
        self.keys = keys
        self._found: Memo[Node, frozenset[str] | None] = Memo()

    def of(self, node: Node) -> frozenset[str] | None:
        return self._found.once(node, self._of)

    def _of(self, node: Node) -> frozenset[str] | None:
        match node:
            case Scan():
                columns = dict(zip(node.fields, (c.name for c in node.output), strict=True))
                key = self.keys.get(node.table)
                return frozenset(columns[k] for k in key) if key and set(key) <= columns.keys() else None
            case Filter() | Window() | TopK() | Join(kind="semi" | "anti") | ExceptAll() | IntersectAll():
                return self.of(node.inputs[0])
            case Project():
                below = self.of(node.input)
                names = {o.expr.column: o.column.name for o in node.outputs if o.expr.column is not None}
                return frozenset(names[b] for b in below) if below is not None and below <= names.keys() else None
            case Join():
                return self._of_join(node)
            case Distinct():
                return frozenset(c.name for c in node.columns)
            case Aggregate():
                return frozenset(node.keys)
        return None

    def _of_join(self, node: Join) -> frozenset[str] | None:
        """The columns of both sides, or those of one alone if the condition finds at most one row of the other side for each
        of its rows, by that side's key."""
        left, right = (self.of(side) for side in node.inputs)
        if left is None or right is None:
            return None
        equated = [found.columns for on in node.on if (found := equality_of(node, on)) and found.columns]
        if node.kind in ("inner", "left") and right <= {pair[1] for pair in equated}:
            return left
        if node.kind in ("inner", "right") and left <= {pair[0] for pair in equated}:
            return right
        return left | right
