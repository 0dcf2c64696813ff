"""Set algebra on the nodes of bag algebra.

The papers speak of sets, Nabla's nodes of bags. On bags without duplicates the operators of sets are short to write:
union is Distinct(UnionAll), projection Distinct(Project), and EXCEPT ALL and INTERSECT ALL are difference and
intersection as they stand. So interpreter, printers and SQL serve both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Distinct, ExceptAll, IntersectAll, Join, Node, Project, UnionAll
from nabla.calculus.delta import mark_columns, same_keys


@dataclass(frozen=True, eq=False)
class RowSet:
    """A set of rows as a plan, with the operators of the papers: `|` is ∪, `&` is ∩, `-` is −. The empty set has no plan, and
    gives no term."""

    plan: Node | None

    def __or__(self, other: RowSet) -> RowSet:
        if self.plan is None or other.plan is None:
            return other if self.plan is None else self
        return RowSet(union(self.plan, other.plan))

    def __and__(self, other: RowSet) -> RowSet:
        if self.plan is None or other.plan is None:
            return EMPTY
        return RowSet(IntersectAll(self.plan, other.plan))

    def __sub__(self, other: RowSet) -> RowSet:
        if self.plan is None or other.plan is None:
            return self
        return RowSet(ExceptAll(self.plan, other.plan))

    def semijoin(self, other: RowSet, keys: tuple[str, ...]) -> RowSet:
        """S ⋉ T on the columns `keys`, which both have; two NULLs are equal."""
        if self.plan is None or other.plan is None:
            return EMPTY
        beside = mark_columns(project(other.plan, keys))
        return RowSet(Join(self.plan, beside, same_keys(self.plan, beside, keys), "semi"))

    def under(self, columns: tuple[Column, ...]) -> RowSet:
        return EMPTY if self.plan is None else RowSet(under(self.plan, columns))


EMPTY = RowSet(None)


def union(left: Node, right: Node) -> Node:
    columns = zip(left.columns, right.columns, strict=True)
    return Distinct(UnionAll((left, right), tuple(replace(a, nullable=a.nullable or b.nullable) for a, b in columns)))


def under(node: Node, columns: tuple[Column, ...]) -> Node:
    """The same rows under the names of these columns."""
    if [c.name for c in node.columns] == [c.name for c in columns]:
        return node
    return Project(node, tuple(Named(new, old.ref) for new, old in zip(columns, node.columns, strict=True)))


def project(node: Node, names: tuple[str, ...]) -> Node:
    """Π on some of the columns."""
    if names == tuple(c.name for c in node.columns):
        return node
    return projection(Project(node, tuple(Named(node.column(n), node.column(n).ref) for n in names)))


def projection(node: Project) -> Node:
    """Π. A projection that keeps every column makes no two rows equal, so that it needs no Distinct."""
    return node if keeps_every_column(node) else Distinct(node)


def keeps_every_column(node: Project) -> bool:
    return node.input.names <= {o.expr.column for o in node.outputs}
