"""Operators of the algebra with their columns by Catalyst's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Node, Project
from nabla.frontends.spark_sql.tree import Expression


@dataclass(frozen=True)
class Relation:
    """A node and, for each attribute of Catalyst by its number, the column that holds it. Several attributes may be one
    column, because renaming alone makes no node. The node may have more columns than there are attributes."""

    node: Node
    columns: Mapping[int, Column]

    def only(self, attributes: Iterable[Expression]) -> Relation:
        return Relation(self.node, {a.id: self.columns[a.id] for a in attributes if a.id is not None})


class ColumnNames:
    """Makes unique column names, numbered in the order of their use, so that a query gives the same plan in every process."""

    def __init__(self) -> None:
        self._last = 0

    def column(self, label: str, type: str, nullable: bool = True) -> Column:
        self._last += 1
        return Column(unique_name(label, self._last), type, nullable)

    def of(self, attribute: Expression) -> Column:
        return self.column(attribute.name, attribute.type, attribute.nullable)

    def by_position(self, relation: Relation, attributes: Iterable[Expression]) -> Node:
        """A node with exactly these columns in this order, for operators whose columns correspond by position."""
        wanted = [relation.columns[a.id] for a in attributes if a.id is not None]
        if [c.name for c in wanted] == [c.name for c in relation.node.columns]:
            return relation.node
        outputs: dict[str, Named] = {}
        for column in wanted:
            target = self.column(column.label, column.type, column.nullable) if column.name in outputs else column
            outputs[target.name] = Named(target, column.ref)
        return Project(relation.node, tuple(outputs.values()))


def with_columns(node: Node, additions: Iterable[tuple[Column, Expr]]) -> Node:
    """The node with more columns, if there are any."""
    added = [Named(column, expr) for column, expr in additions]
    return Project(node, (*(Named(c, c.ref) for c in node.columns), *added)) if added else node
