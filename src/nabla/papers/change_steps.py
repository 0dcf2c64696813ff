"""The way of a change through the operators of a view: it is converted, it passes an operator, or it enters a product.

A way is a part of a view from its conversion points up to `node`. `group` are its group-by attributes, `added` those others
whose change can be added to them, `causes` is its count, and `law` says what happens at the node. `extent` is τ(Q), the rows of
Q with the number of their causes (thesis, table 5.1), and `change` is □Q (table 5.2), or None if nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from nabla.algebra.build import arithmetic
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import Aggregate, Distinct, Filter, Join, Node, Project
from nabla.algebra.notation.tree import tree
from nabla.papers.change_tables import ChangeTableForm, convert
from nabla.papers.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Conversion:
    """A conversion point. Below it the change is a delta, above it a change table."""

    node: Aggregate
    causes: Column
    law: str
    below: tuple[Way, ...] = ()

    @property
    def group(self) -> tuple[str, ...]:
        return self.node.keys

    @property
    def added(self) -> frozenset[str]:
        return frozenset(call.column.name for call in self.node.calls)

    def extent(self, state: Pairs) -> Node:
        rows = state.operand(self.node.input).old.plan
        assert rows is not None
        return Aggregate(rows, self.node.keys, (*self.node.calls, Call(self.causes, "count")))

    def change(self, pairs: Pairs) -> ChangeTableForm | None:
        return convert(self.node, pairs.of(self.node.input), self.causes)


@dataclass(frozen=True, eq=False)
class Passage:
    """A selection, renaming or roll-up above a conversion point. Extents and change tables pass it in the same way."""

    node: Node
    way: Way
    group: tuple[str, ...]
    added: frozenset[str]
    law: str

    @property
    def below(self) -> tuple[Way, ...]:
        return (self.way,)

    @property
    def causes(self) -> Column:
        return self.way.causes

    def extent(self, state: Pairs) -> Node:
        return self._over(self.way.extent(state))

    def change(self, pairs: Pairs) -> ChangeTableForm | None:
        below = self.way.change(pairs)
        if below is None:
            return None
        return ChangeTableForm(
            self._over(below.rows), self.group, frozenset(self._output_names(below.added)), self.causes
        )

    def _output_names(self, names: frozenset[str]) -> Iterator[str]:
        match self.node:
            case Project():
                yield from (o.column.name for o in self.node.outputs if o.expr.column in names)
            case Aggregate():
                yield from (c.column.name for c in self.node.calls if c.arguments[0].column in names)
            case Filter():
                yield from names

    def _over(self, rows: Node) -> Node:
        with_causes = Named(self.causes, self.causes.ref)
        total = Call(self.causes, "sum", (self.causes.ref,))
        match self.node:
            case Project():
                return Project(rows, (*self.node.outputs, with_causes))
            case Distinct(input=Project() as kept):
                return Aggregate(Project(rows, (*kept.outputs, with_causes)), self.group, (total,))
            case Aggregate():
                return Aggregate(rows, self.node.keys, (*self.node.calls, total))
        return self.node.with_inputs(rows)


@dataclass(frozen=True, eq=False)
class Product:
    """S × T, perhaps with a condition on group-by attributes. Counts multiply."""

    node: Join
    left: Way
    right: Way
    causes: Column
    added: frozenset[str]
    law: str

    @property
    def below(self) -> tuple[Way, ...]:
        return self.left, self.right

    @property
    def group(self) -> tuple[str, ...]:
        return self.left.group + self.right.group

    def extent(self, state: Pairs) -> Node:
        return self._over(self.left.extent(state), self.right.extent(state))

    def change(self, pairs: Pairs) -> ChangeTableForm | None:
        left, right = self.left.change(pairs), self.right.change(pairs)
        if left is not None:
            return ChangeTableForm(self._over(left.rows, self.right.extent(pairs)), self.group, left.added, self.causes)
        if right is not None:
            return ChangeTableForm(
                self._over(self.left.extent(pairs), right.rows), self.group, right.added, self.causes
            )
        return None

    def _over(self, left: Node, right: Node) -> Node:
        joined = replace(self.node, left=left, right=right)
        causes = arithmetic(self.left.causes.ref, "*", self.right.causes.ref, "bigint")
        return Project(joined, (*(Named(c, c.ref) for c in self.node.columns), Named(self.causes, causes)))


Way: TypeAlias = Conversion | Passage | Product


def describe(way: Way) -> str:
    """The view as a tree with a remark at each operator about the way of its change."""
    laws: Memo[Node, str] = Memo()

    def note(part: Way) -> None:
        laws[part.node] = part.law
        for below in part.below:
            note(below)

    note(way)

    def remark(node: Node) -> str:
        if node in laws:
            return "□ " + laws[node]
        return "∇Δ affected groups" if isinstance(node, Aggregate) else "∇Δ"

    return tree(way.node, remark)
