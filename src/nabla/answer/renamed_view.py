"""A view over the columns of a query: its expressions and leaves under the query's names."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Expr, Ref
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Project, Scan
from nabla.answer.blocks import Block, Leaf

Places: TypeAlias = dict[int, int]
"""The places of a view's leaves, each with that of the query's leaf that it stands for."""


class RenamedView:
    """The expressions of a view over the columns of the query's leaves. Leaves that only the view has keep columns of their
    own."""

    def __init__(self, view: Block, query: Block, mapping: Places) -> None:
        self.view = view
        self.columns: dict[str, Expr] = {}
        for place, leaf in enumerate(view.leaves):
            other = query.leaves[mapping[place]] if place in mapping else None
            for column, (field_, name) in zip(leaf.columns, leaf.fields.items(), strict=True):
                other_name = None if other is None else other.fields.get(field_)
                its = other_name or unique_name(field_, f"m{place}")
                self.columns[name] = Ref(its, column.type, True)

    def __call__(self, expr: Expr) -> Expr:
        return expr.substitute(self.columns)  # the expressions of a block have nothing that is not nullable

    def leaf(self, place: int) -> Leaf:
        """A leaf of the view with the query's names of its columns."""
        leaf = self.view.leaves[place]
        columns = tuple(c.rename(self.columns[c.name].column or "") for c in leaf.columns)
        on = None if leaf.on is None else tuple(self(c) for c in leaf.on)
        if isinstance(leaf.node, Scan):
            return Leaf(replace(leaf.node, output=columns), on)
        assert isinstance(leaf.node, Project)
        outputs = tuple(Named(c, o.expr) for c, o in zip(columns, leaf.node.outputs, strict=True))
        return Leaf(replace(leaf.node, outputs=outputs), on)
