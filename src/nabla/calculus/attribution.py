"""Attribution of a row of a query to rows of its tables, as far as its columns tell.

A column that a query passes on unchanged, or equates with another one, has one value in a row of the result and in the rows
that it depends on, even in those that a NOT EXISTS looked for. So a violated constraint points to the rows of a change that
can have violated it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nabla.algebra.equalities import equal_columns
from nabla.algebra.nodes import ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan, UnionAll


@dataclass(frozen=True)
class Attribution:
    """Rows of `table` whose `fields` have the values that a row of the query has in the columns at `places`."""

    table: str
    fields: tuple[str, ...]
    places: tuple[int, ...]


def attributions(plan: Node) -> tuple[Attribution, ...]:
    """An attribution for each scan with columns that the result shows."""
    classes = _Classes()
    for node in plan.walk():
        for one, other in _equal_pairs(node):
            classes.unite(one, other)
    place = {classes.of(column.name): i for i, column in reversed(list(enumerate(plan.columns)))}
    found = []
    for scan in (node for node in plan.walk() if isinstance(node, Scan)):
        shown = [
            (field, place[classes.of(column.name)])
            for column, field in zip(scan.output, scan.fields, strict=True)
            if classes.of(column.name) in place
        ]
        if shown:
            found.append(Attribution(scan.table, *zip(*shown, strict=True)))
    return tuple(dict.fromkeys(found))


def _equal_pairs(node: Node) -> Iterator[tuple[str, str]]:
    """The pairs of columns that have the same value in all rows that this operator relates."""
    match node:
        case Project():
            yield from ((o.column.name, o.expr.column) for o in node.outputs if o.expr.column is not None)
        case Join():
            yield from equal_columns(node.on)
        case Filter():
            yield from equal_columns(node.conjuncts)
        case UnionAll():
            for member in node.members:
                yield from zip((c.name for c in node.output), (c.name for c in member.columns), strict=True)
        case ExceptAll() | IntersectAll():
            yield from zip((c.name for c in node.left.columns), (c.name for c in node.right.columns), strict=True)


class _Classes:
    """Classes of column names that have the same value (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def of(self, name: str) -> str:
        while name in self._parent:
            name = self._parent[name]
        return name

    def unite(self, one: str, other: str) -> None:
        first, second = self.of(one), self.of(other)
        if first != second:
            self._parent[first] = second
