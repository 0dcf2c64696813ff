"""The first rows of an order (ORDER BY … LIMIT …)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.build import number
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column, Expr, Foreign, hole
from nabla.algebra.names import WEIGHT_FIELD, own_name, stored_fields
from nabla.algebra.nodes import WEIGHT, At, Node, Project, Scan, TopK, UnionAll, Weigh, Window
from nabla.calculus.delta import Derivation
from nabla.calculus.stages.stage import Stage

PLACE = Column(own_name("place"), "int", False)
NEW = Column(own_name("new"), "int", False)


@dataclass(frozen=True)
class TopRows(Stage):
    """The first rows of a relation. The stored rows and the changed rows in their order mostly decide which rows are first
    now; the relation itself is read only if they do not."""

    @property
    def limit(self) -> int:
        assert isinstance(self.node, TopK)
        assert self.node.limit is not None
        return self.node.limit

    def find_touched(self, c: Derivation) -> Node | None:
        """The stored rows (new 0) and the changed ones (new 1) with their weights and their places in the order."""
        change = c.d(self.source)
        if change is None:
            return None
        assert isinstance(self.node, TopK)
        log = Scan(self.state_table, At.OLD, (*self.state, WEIGHT), (*stored_fields(self.state), WEIGHT_FIELD))
        members = tuple(_mark(rows, flag) for flag, rows in enumerate((log, Weigh(change))))
        rows = UnionAll(members, (*self.state, WEIGHT, NEW))
        place = WindowCall(Call(PLACE, "dense_rank"), self.node.order)
        return Window(rows, (), (place,))


def _mark(rows: Node, flag: int) -> Node:
    mark = Named(NEW, number(flag, "int"))
    return Project(rows, (*(Named(c, c.ref) for c in rows.columns), mark))


def without_ties(node: TopK) -> TopK:
    """The same order, with ties broken by the whole row: every recomputation must choose the same k rows."""
    return replace(node, order=node.order + tuple(Order(_sortable(c)) for c in node.columns))


def _sortable(column: Column) -> Expr:
    """The column as an expression to sort by. Spark does not sort maps, so a map is sorted by its JSON text."""
    if "map<" not in column.type:
        return column.ref
    return Foreign(f"to_json(struct({hole(0)}))", (column.ref,), "string")
