"""The count algorithm (Blakeley et al.; thesis, chapter 3): views of select, project and join, with unions on top.

The extent of a view stores with each row the number of its *causes*: the rows of the product below the projection that
give it. A change gives a *count table*, the rows whose causes change with the difference; refreshing adds it to the extent
and drops the rows that have no cause left. A count table is a signed bag, which is what Nabla's engine generalizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from nabla.algebra.build import compare, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import own_name
from nabla.algebra.nodes import Aggregate, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from nabla.papers.pair_laws import Operand
from nabla.papers.pairs import Pairs
from nabla.papers.sets import EMPTY, RowSet

CAUSES = Column(own_name("causes"), "bigint", False)


@dataclass(frozen=True)
class Canonical:
    """π_A(σ_θ(R₁ × … × Rₙ)), to which every expression of select, project and join is equal (lemma 3.1)."""

    attributes: tuple[Named, ...]
    condition: tuple[Expr, ...]
    relations: tuple[Node, ...]

    def select(self, product: Node) -> Node:
        return Filter(product, self.condition) if self.condition else product

    @property
    def definitions(self) -> dict[str, Expr]:
        return {a.column.name: a.expr for a in self.attributes}


def canonical(q: Node) -> Canonical:
    match q:
        case Scan():
            return Canonical(tuple(Named(c, c.ref) for c in q.columns), (), (q,))
        case Filter():
            below = canonical(q.input)
            return Canonical(below.attributes, below.condition + _below(q.conjuncts, below), below.relations)
        case Project():
            below = canonical(q.input)
            outputs = (Named(o.column, o.expr.substitute(below.definitions)) for o in q.outputs)
            return Canonical(tuple(outputs), below.condition, below.relations)
        case Distinct(input=Project()):
            return canonical(q.input)
        case Join(kind="inner"):
            s, t = canonical(q.left), canonical(q.right)
            both = Canonical(s.attributes + t.attributes, s.condition + t.condition, s.relations + t.relations)
            return Canonical(both.attributes, both.condition + _below(q.on, both), both.relations)
    raise LookupError(
        f"the count algorithm is for select, project, join and unions of them, not for {type(q).__name__}"
    )


def _below(conjuncts: tuple[Expr, ...], below: Canonical) -> tuple[Expr, ...]:
    return tuple(c.substitute(below.definitions) for c in conjuncts)


def _members(view: Node) -> list[Canonical]:
    """A union of canonical forms."""
    if isinstance(view, Distinct) and isinstance(view.input, UnionAll):
        return [part for member in view.input.members for part in _members(member)]
    return [canonical(view)]


def extent(view: Node, pairs: Pairs) -> Node:
    """π_A,count(*)(σ(J)), J being the product of all operands; `pairs` decides which state is read."""
    causes = []
    for member in _members(view):
        product = _product([pairs.operand(relation).old for relation in member.relations])
        causes.append(_tag(product, member, 1))
    return _sum(view, causes)


def count_table(view: Node, pairs: Pairs) -> Node:
    """π_A,sum(σ(ΔJ) × {1} ∪ σ(∇J) × {−1}) without zeros, where ΔJ = ∪ᵢ R₁ᵐ×…×ΔRᵢ×…×Rₙᵐ and ∇J = ∪ᵢ R₁×…×∇Rᵢ×…×Rₙ."""
    causes = []
    for member in _members(view):
        operands = [pairs.operand(relation) for relation in member.relations]
        causes.append(_tag(_insertions(operands), member, 1))
        causes.append(_tag(_deletions(operands), member, -1))
    return _sum(view, causes)


def refresh(view_extent: Node, table: Node) -> Node:
    """Add up the causes of both, and drop the rows that have none left (definition 3.5)."""
    return _sum_causes(UnionAll((view_extent, table), view_extent.columns))


def _insertions(operands: list[Operand]) -> RowSet:
    products = EMPTY
    for i, changing in enumerate(operands):
        products = products | _product([changing.inserted if i == j else r.new for j, r in enumerate(operands)])
    return products


def _deletions(operands: list[Operand]) -> RowSet:
    products = EMPTY
    for i, changing in enumerate(operands):
        products = products | _product([changing.deleted if i == j else r.old for j, r in enumerate(operands)])
    return products


def _product(relations: list[RowSet]) -> RowSet:
    plans = [r.plan for r in relations if r.plan is not None]
    return RowSet(reduce(Join, plans)) if len(plans) == len(relations) else EMPTY


def _tag(product: RowSet, member: Canonical, causes: int) -> Node | None:
    if product.plan is None:
        return None
    tag = Named(CAUSES, number(causes))
    return Project(member.select(product.plan), (*member.attributes, tag))


def _sum(view: Node, causes: list[Node | None]) -> Node:
    members = tuple(part for part in causes if part is not None)
    return _sum_causes(UnionAll(members, (*view.columns, CAUSES)))


def _sum_causes(rows: Node) -> Node:
    keys = tuple(c.name for c in rows.columns if c.name != CAUSES.name)
    total = Aggregate(rows, keys, (Call(CAUSES, "sum", (CAUSES.ref,)),))
    return Filter(total, (compare(CAUSES.ref, "<>", number(0)),))
