"""The count algorithm (Blakeley et al.; thesis, chapter 3): select, project, join, unions anywhere, one aggregation on top.

The extent of a view stores with each row the number of its *causes*: the rows of the product below the projection that
give it. A change gives a *count table*, the rows whose causes change with the difference; refreshing adds it to the extent
and drops the rows that have no cause left. A count table is a signed bag, which is what Nabla's engine generalizes.

Unions move to the top of a view (3.3.1): it is a union of *canonical forms*, and causes add up. An aggregation on top (3.3.2)
adds to each group the values of the causes that come and takes away those of the causes that go. That needs rows with one
cause each: where a projection or a union below makes rows equal, the rows that appear and disappear are found first, from
the extent of what is aggregated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

from nabla.algebra.build import any_of, compare, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import own_name, part_name, unique_name
from nabla.algebra.nodes import Aggregate, Constant, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from nabla.papers.change_tables import can_convert, convert
from nabla.papers.pair_laws import Operand
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.sets import EMPTY, RowSet, keeps_every_column, project

CAUSES = Column(own_name("causes"), "bigint", False)
MOST_RELATIONS = 1000
"""A product of unions is a union of products. A view whose canonical forms have more relations in all is refused."""


class NotCountable(LookupError):
    """The count algorithm is not defined for a view; the message says why."""


@dataclass(frozen=True)
class Canonical:
    """π_A(σ_θ(R₁ × … × Rₙ)), to which every expression of select, project and join is equal (lemma 3.1)."""

    attributes: tuple[Named, ...]
    condition: tuple[Expr, ...]
    relations: tuple[Node, ...]

    def select(self, product: Node) -> Node:
        return Filter(product, self.condition) if self.condition else product

    def under(self, conjuncts: tuple[Expr, ...]) -> Canonical:
        """The form with a selection above, whose conjuncts read its attributes."""
        below = tuple(c.substitute(self.definitions) for c in conjuncts)
        return Canonical(self.attributes, self.condition + below, self.relations)

    def projected(self, outputs: tuple[Named, ...]) -> Canonical:
        attributes = tuple(Named(o.column, o.expr.substitute(self.definitions)) for o in outputs)
        return Canonical(attributes, self.condition, self.relations)

    def times(self, other: Canonical) -> Canonical:
        other = other.apart_from(self)
        return Canonical(
            self.attributes + other.attributes, self.condition + other.condition, self.relations + other.relations
        )

    def apart_from(self, other: Canonical) -> Canonical:
        """The form with other names for the columns of its relations, if `other` has these: a view may use a part twice."""
        taken = frozenset().union(*(relation.names for relation in other.relations))
        if taken.isdisjoint(frozenset().union(*(relation.names for relation in self.relations))):
            return self
        numbers = count(len(other.relations))
        relations, refs = [], dict[str, Expr]()
        for relation in self.relations:
            tried = (_fresh(relation, number) for number in numbers)
            columns = next(new for new in tried if taken.isdisjoint(c.name for c in new))
            refs |= {c.name: new.ref for c, new in zip(relation.columns, columns, strict=True)}
            relations.append(_renamed(relation, columns))
        attributes = tuple(Named(a.column, a.expr.substitute(refs)) for a in self.attributes)
        return Canonical(attributes, tuple(c.substitute(refs) for c in self.condition), tuple(relations))

    @property
    def definitions(self) -> dict[str, Expr]:
        return {a.column.name: a.expr for a in self.attributes}


def _fresh(relation: Node, number: int) -> tuple[Column, ...]:
    """The columns of a relation under other names."""
    places = enumerate(relation.columns)
    return tuple(c.rename(part_name(unique_name(c.label, number), str(place))) for place, c in places)


def _renamed(relation: Node, columns: tuple[Column, ...]) -> Node:
    if isinstance(relation, Scan):
        return replace(relation, output=columns)
    assert isinstance(relation, Distinct)
    assert isinstance(relation.input, Constant)
    return Distinct(replace(relation.input, output=columns))


def canonical(q: Node) -> Canonical:
    """The canonical form of a view without unions (lemma 3.1)."""
    forms = canonical_union(q)
    if len(forms) != 1:
        raise NotCountable("a union has several canonical forms")
    return forms[0]


def canonical_union(q: Node) -> tuple[Canonical, ...]:
    """The canonical forms whose union a view is (3.3.1)."""
    match q:
        case Scan() | Distinct(input=Constant()):
            return (Canonical(tuple(Named(c, c.ref) for c in q.columns), (), (q,)),)
        case Filter():
            return tuple(form.under(q.conjuncts) for form in canonical_union(q.input))
        case Project():
            return tuple(form.projected(q.outputs) for form in canonical_union(q.input))
        case Distinct(input=Project()):
            return canonical_union(q.input)
        case Join(kind="inner"):
            left, right = canonical_union(q.left), canonical_union(q.right)
            _check_size(len(left) * _relations(right) + len(right) * _relations(left))
            return tuple(s.times(t).under(q.on) for s in left for t in right)
        case Distinct(input=UnionAll() as union):
            forms = tuple(_under(union, member, f) for member in union.members for f in canonical_union(member))
            _check_size(_relations(forms))
            return forms
    raise NotCountable(
        "the count algorithm is for select, project, join, unions of them and one aggregation on top, "
        f"not for {type(q).__name__}{f' ({q.kind})' if isinstance(q, Join) else ''}"
    )


def _under(union: UnionAll, member: Node, form: Canonical) -> Canonical:
    return form.projected(tuple(Named(o, c.ref) for o, c in zip(union.output, member.columns, strict=True)))


def _relations(forms: tuple[Canonical, ...]) -> int:
    return sum(len(form.relations) for form in forms)


def _check_size(relations: int) -> None:
    if relations > MOST_RELATIONS:
        raise NotCountable(f"its canonical forms have more than {MOST_RELATIONS:,} relations in all")


# ---------------------------------------------------------------- the algorithm


def extent(view: Node, pairs: Pairs) -> Node:
    """π_A,count(*)(σ(J)), J being the product of all operands; `pairs` decides which state is read."""
    return _below_renaming(view, lambda q: _aggregate_extent(q, pairs), lambda q: _counted_extent(q, pairs))


def count_table(view: Node, pairs: Pairs) -> Node:
    """π_A,sum(σ(ΔJ) × {1} ∪ σ(∇J) × {−1}) without zeros, where ΔJ = ∪ᵢ R₁ᵐ×…×ΔRᵢ×…×Rₙᵐ and ∇J = ∪ᵢ R₁×…×∇Rᵢ×…×Rₙ."""
    return _below_renaming(view, lambda q: _aggregate_table(q, pairs), lambda q: _counted_table(q, pairs))


def refresh(view_extent: Node, table: Node, group: tuple[str, ...] | None = None) -> Node:
    """Add up the causes of both, and drop the rows that have none left (definition 3.5). The extent of an aggregation is
    added up by its `group`."""
    return _without(_add_up(UnionAll((view_extent, table), view_extent.columns), group), CAUSES)


def group_of(view: Node) -> tuple[str, ...] | None:
    """The group-by attributes of a view with an aggregation on top, under the view's names; None for other views."""
    inner, outputs = _renaming(view)
    if not isinstance(inner, Aggregate):
        return None
    return tuple(o.column.name for o in outputs if o.expr.column in inner.keys)


def _counted_extent(q: Node, pairs: Pairs) -> Node:
    causes = []
    for form in canonical_union(q):
        product = _product([pairs.operand(relation).old for relation in form.relations])
        causes.append(_tag(product, form, 1))
    return _sum(q, causes)


def _counted_table(q: Node, pairs: Pairs) -> Node:
    causes = []
    for form in canonical_union(q):
        operands = [pairs.operand(relation) for relation in form.relations]
        causes.append(_tag(_insertions(operands), form, 1))
        causes.append(_tag(_deletions(operands), form, -1))
    return _sum(q, causes)


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


def _tag(product: RowSet, form: Canonical, causes: int) -> Node | None:
    if product.plan is None:
        return None
    tag = Named(CAUSES, number(causes))
    return Project(form.select(product.plan), (*form.attributes, tag))


def _sum(view: Node, causes: list[Node | None]) -> Node:
    members = tuple(part for part in causes if part is not None)
    return _without(_add_up(UnionAll(members, (*view.columns, CAUSES)), None), CAUSES)


def _add_up(rows: Node, group: tuple[str, ...] | None) -> Node:
    """Sums of the causes, and of all other attributes that rows are not grouped by."""
    keys = group if group is not None else tuple(c.name for c in rows.columns if c.name != CAUSES.name)
    sums = tuple(Call(c, "sum", (c.ref,)) for c in rows.columns if c.name not in keys)
    total = Aggregate(rows, keys, sums)
    return Project(total, tuple(Named(c, total.column(c.name).ref) for c in rows.columns))


def _without(rows: Node, *zeros: Column) -> Node:
    return Filter(rows, (any_of([compare(c.ref, "<>", number(0)) for c in zeros]),))


# ------------------------------------------------------------- one aggregation


def _renaming(view: Node) -> tuple[Node, tuple[Named, ...]]:
    """What stands below the projections on top of a view that only rename and reorder its columns, and the one projection
    that they come to."""
    outputs = tuple(Named(c, c.ref) for c in view.columns)
    while isinstance(view, Project) and keeps_every_column(view) and all(o.expr.column for o in view.outputs):
        outputs = tuple(Named(o.column, o.expr.substitute(view.definitions)) for o in outputs)
        view = view.input
    return view, outputs


def below_aggregation(view: Node) -> tuple[Node, Aggregate | None]:
    """What is counted, and the aggregation on top of it, if there is one."""
    inner, _ = _renaming(view)
    return (inner.input, inner) if isinstance(inner, Aggregate) else (view, None)


def _below_renaming(view: Node, aggregate: Callable[[Aggregate], Node], counted: Callable[[Node], Node]) -> Node:
    inner, outputs = _renaming(view)
    if not isinstance(inner, Aggregate):
        return counted(view)
    if not can_convert(inner):
        raise NotCountable(
            "the aggregation on top needs group-by attributes and functions that add up: "
            "count, and sum of integers that are never NULL"
        )
    return Project(aggregate(inner), (*outputs, Named(CAUSES, CAUSES.ref)))


def _aggregate_extent(q: Aggregate, pairs: Pairs) -> Node:
    rows = project(_counted_extent(q.input, pairs), tuple(c.name for c in q.input.columns))
    return Aggregate(rows, q.keys, (*q.calls, Call(CAUSES, "count")))


def _aggregate_table(q: Aggregate, pairs: Pairs) -> Node:
    """π_A,f,sum(ΔQ × {1} ∪ ∇Q × {−1}) without groups in which nothing changes."""
    table = convert(q, _appearing(q.input, pairs), CAUSES)
    assert table is not None
    return _without(table.rows, *(table.rows.column(name) for name in sorted(table.added)), CAUSES)


def _appearing(q: Node, pairs: Pairs) -> Pair:
    """The rows that get a first cause or lose the last one."""
    table, names = _counted_table(q, pairs), tuple(c.name for c in q.columns)
    if _one_cause_each(q):
        appear, disappear = (Filter(table, (compare(CAUSES.ref, sign, number(0)),)) for sign in "><")
        return Pair(project(disappear, names), project(appear, names))
    touched = RowSet(_counted_extent(q, pairs)).semijoin(RowSet(table), names).plan
    assert touched is not None
    before, after = (RowSet(project(rows, names)) for rows in (touched, refresh(touched, table)))
    return Pair((before - after).plan, (after - before).plan)


def _one_cause_each(q: Node) -> bool:
    """Whether no projection or union in a view makes rows equal."""
    return not any(isinstance(part, Distinct) and not isinstance(part.input, Constant) for part in q.walk())
