"""Random views: well-formed plans over random tables, with the features that a test asks for.

Everything is drawn from a `random.Random`, so that a seed names a case for good. Where SQL leaves a choice (LIMIT,
row_number) the order is made total, so that every engine must give the same bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeVar

from nabla.algebra.build import any_of, call, compare, equal, is_null, number, when
from nabla.algebra.calls import Named, Order
from nabla.algebra.clock import before, reads_clock
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import label_of, unique_name
from nabla.algebra.nodes import (
    At,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
)
from nabla.algebra.reference.interpreter import Database
from nabla.algebra.traverse import map_nodes
from nabla.dev.testing.random_data import (
    DEFAULT,
    DOMAINS,
    RandomSizes,
    Schema,
    Table,
    random_database,
    random_schema,
)
from nabla.dev.testing.random_expressions import Expressions
from nabla.dev.testing.random_groups import RandomRelation, aggregate, window
from nabla.dev.testing.random_terms import Sample, constant, kind_of

_Item = TypeVar("_Item")

CORE = frozenset(("filter", "project", "join", "union", "distinct", "aggregate"))
EXTRAS = frozenset(("outer", "semi", "window", "topk", "except", "intersect", "generate", "constant", "aggregates"))
ALL = CORE | EXTRAS


@dataclass(frozen=True)
class Scenario:
    """A view over tables that change."""

    seed: int
    schema: Schema
    database: Database
    plan: Node

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(table.name for table in self.schema if self.database.delta(table.name))


def random_scenario(seed: int, features: frozenset[str] = CORE, sizes: RandomSizes = DEFAULT) -> Scenario:
    rng = Random(seed)
    schema = random_schema(rng, sizes)
    database = random_database(rng, schema, sizes)
    return Scenario(seed, schema, database, random_plan(rng, schema, features, sizes))


def random_plan(rng: Random, schema: Schema, features: frozenset[str] = CORE, sizes: RandomSizes = DEFAULT) -> Node:
    """A view over the new state of its tables; see `reading` for other states."""
    return Plans(rng, schema, features, sizes).relation(sizes.depth, sizes.scans).node


def reading(root: Node, at: At) -> Node:
    """The same view over another state of all its tables."""

    def read(node: Node) -> Node:
        if isinstance(node, Scan):
            return replace(node, at=at)
        if at is At.OLD and reads_clock(node):
            assert isinstance(node, Filter)
            return replace(node, conjuncts=tuple(map(before, node.conjuncts)))
        return node

    return map_nodes(root, read)


class Plans:
    """Makes relations; numbers their columns."""

    def __init__(self, rng: Random, schema: Schema, features: frozenset[str], sizes: RandomSizes) -> None:
        if unknown := features - ALL:
            raise ValueError(f"no such features: {sorted(unknown)}; there are {sorted(ALL)}")
        self.rng = rng
        self.schema = schema
        self.sizes = sizes
        self.features = features
        self.operators = [make for feature, makes in _OPERATORS.items() if feature in features for make in makes]
        self._last = 0

    def fresh(self, label: str, type_: str, nullable: bool) -> Column:
        self._last += 1
        return Column(unique_name(label, self._last), type_, nullable)

    def relation(self, depth: int, scans: int) -> RandomRelation:
        """An operator over relations of less depth; at most `scans` leaves."""
        if depth <= 0 or not self.operators:
            return self.leaf()
        made = self.rng.choice(self.operators)(self, depth - 1, scans)
        return made if made is not None else self.relation(depth - 1, scans)

    def leaf(self) -> RandomRelation:
        if "constant" in self.features and self.rng.random() < 0.1:
            return self.constant()
        return self.scan(self.rng.choice(self.schema))

    def scan(self, table: Table) -> RandomRelation:
        kept = self.chosen(table.columns, at_least=1) if self.rng.random() < 0.3 else list(table.columns)
        output = tuple(self.fresh(c.name, c.type, c.nullable) for c in kept)
        bounds = [_domain_bound(column.type) for column in output]
        node = Scan(table.name, At.NEW, output, tuple(c.name for c in kept))
        return self.named(node, bounds, rows=2 * self.sizes.rows)

    def constant(self) -> RandomRelation:
        types = [self.rng.choice(list(DOMAINS)) for _ in range(self.rng.randint(1, 3))]
        output = tuple(self.fresh("k", type_, True) for type_ in types)
        rows = tuple(
            tuple(constant(self.rng.choice((None, *DOMAINS[type_])), type_) for type_ in types)
            for _ in range(self.rng.choice((0, 1, 2, 2, 3, 3)))
        )
        return self.named(Constant(output, rows), [_domain_bound(type_) for type_ in types], rows=3)

    def named(
        self, node: Node, bounds: Iterable[float], rows: int, exact: Iterable[bool] | None = None
    ) -> RandomRelation:
        known = exact if exact is not None else [True] * len(node.columns)
        columns = zip(node.columns, bounds, known, strict=True)
        return RandomRelation(node, tuple(Sample(c.ref, bound, sure) for c, bound, sure in columns), rows)

    def chosen(self, items: Sequence[_Item], at_least: int = 0) -> list[_Item]:
        """Some of the items, in their order."""
        count = self.rng.randint(min(at_least, len(items)), len(items))
        return [items[i] for i in sorted(self.rng.sample(range(len(items)), count))]

    def projected(self, relation: RandomRelation, samples: Sequence[Sample]) -> RandomRelation:
        outputs = tuple(Named(self.fresh(_label(s), s.expr.type, s.nullable), s.expr) for s in samples)
        node = Project(relation.node, outputs)
        return self.named(node, [s.bound for s in samples], relation.rows, [s.exact for s in samples])

    def conformed(self, relation: RandomRelation, types: Sequence[str]) -> RandomRelation:
        """A projection to given types: what a union needs of its members."""
        expressions = Expressions(self.rng, relation.columns)
        return self.projected(relation, [expressions.of_type(type_) for type_ in types])

    def renamed(self, relation: RandomRelation) -> RandomRelation:
        """The same node under other names, to stand beside itself."""
        return self.projected(relation, relation.columns)

    def two(self, depth: int, scans: int) -> tuple[RandomRelation, RandomRelation] | None:
        """Two relations that share the allowance of leaves; sometimes one relation twice."""
        if scans < 2:
            return None
        share = self.rng.randint(1, scans - 1)
        left = self.relation(depth, share)
        if self.rng.random() < 0.1:
            return left, self.renamed(left)
        return left, self.relation(self.rng.randint(0, depth), scans - share)


def _label(sample: Sample) -> str:
    return label_of(sample.expr.column) if sample.expr.column else "x"


def _domain_bound(type_: str) -> float:
    if kind_of(type_) in ("int", "decimal", "double"):
        return max(float(abs(value)) for value in DOMAINS[type_])
    return 2.0


# Operators of one input


def _filter(p: Plans, depth: int, scans: int) -> RandomRelation:
    below = p.relation(depth, scans)
    expressions = Expressions(p.rng, below.columns)
    conjuncts = tuple(expressions.condition() for _ in range(p.rng.choice((1, 1, 1, 2))))
    return replace(below, node=Filter(below.node, conjuncts))


def _project(p: Plans, depth: int, scans: int) -> RandomRelation:
    below = p.relation(depth, scans)
    expressions = Expressions(p.rng, below.columns)
    kept = p.chosen(below.columns) if p.rng.random() < 0.7 else []
    made = [expressions.any(2) for _ in range(p.rng.randint(0 if kept else 1, 2))]
    return p.projected(below, [*kept, *made])


def _distinct(p: Plans, depth: int, scans: int) -> RandomRelation:
    below = p.relation(depth, scans)
    if p.rng.random() < 0.6:
        below = p.projected(below, p.chosen(below.columns, at_least=1)[:2])
    return replace(below, node=Distinct(below.node))


def _aggregate(p: Plans, depth: int, scans: int) -> RandomRelation:
    made = aggregate(p.rng, p.relation(depth, scans), p.fresh, "aggregates" in p.features)
    if p.rng.random() < 0.2:
        having = Expressions(p.rng, made.columns).condition()
        made = replace(made, node=Filter(made.node, (having,)))
    return made


def _window(p: Plans, depth: int, scans: int) -> RandomRelation:
    return window(p.rng, p.relation(depth, scans), p.fresh)


def _top_k(p: Plans, depth: int, scans: int) -> RandomRelation:
    below = p.relation(depth, scans)
    items = [Order(c.expr, p.rng.random() < 0.5, p.rng.random() < 0.5) for c in below.columns]
    p.rng.shuffle(items)
    offset = p.rng.choice((0, 0, 0, 1, 2))
    limit = p.rng.choice((0, 1, 2, 2, 3, 3, 4, 5)) if not offset or p.rng.random() < 0.8 else None
    return replace(below, node=TopK(below.node, tuple(items), limit, offset))


def _generate(p: Plans, depth: int, scans: int) -> RandomRelation:
    below = p.relation(depth, scans)
    expressions = Expressions(p.rng, below.columns)
    first = expressions.any(1)
    items = [first, *(expressions.of_type(first.expr.type) for _ in range(p.rng.randint(0, 2)))]
    bound, exact = max(i.bound for i in items), all(i.exact for i in items)
    output = [p.fresh("item", first.expr.type, True)]
    bounds, exacts = [bound], [exact]
    array: Expr = call("array", *(i.expr for i in items), type=f"array<{first.expr.type}>", nullable=False)
    if p.rng.random() < 0.5:
        array = when(expressions.condition(1), array)
    form = p.rng.choice(("explode", "posexplode", "stack"))
    if form == "posexplode":
        output.insert(0, p.fresh("pos", "int", True))
        bounds, exacts = [3.0, bound], [True, exact]
    arguments = (number(len(items), "int"), *(i.expr for i in items)) if form == "stack" else (array,)
    outer = p.rng.random() < 0.4
    node = Generate(below.node, call(form, *arguments, type="row"), tuple(output), outer)
    old = below.columns
    return p.named(node, [*(c.bound for c in old), *bounds], below.rows * 3, [*(c.exact for c in old), *exacts])


# Operators of two inputs


def _join(p: Plans, depth: int, scans: int, kinds: Sequence[JoinKind] = ("inner",)) -> RandomRelation | None:
    pair = p.two(depth, scans)
    if pair is None:
        return None
    left, right = pair
    kind = p.rng.choice(kinds)
    on, selective = _join_condition(p, left, right, kind)
    rows = left.rows * right.rows // (4 if selective else 1)
    if kind not in ("semi", "anti") and rows > p.sizes.joined_rows:
        return left
    node = Join(left.node, right.node, on, kind)
    if kind in ("semi", "anti"):
        return replace(left, node=node)
    both = left.columns + right.columns
    return p.named(node, [c.bound for c in both], rows + left.rows + right.rows, [c.exact for c in both])


def _join_condition(p: Plans, left: RandomRelation, right: RandomRelation, kind: str) -> tuple[tuple[Expr, ...], bool]:
    """Conjuncts, and whether an equality is among them."""
    pairs = [(s, t) for s in left.columns for t in right.columns if s.kind == t.kind]
    if not pairs or p.rng.random() < 0.1:
        return ((), False) if p.rng.random() < 0.5 else ((_both(p, left, right).condition(),), False)
    s, t = p.rng.choice(pairs)
    if kind == "anti" and p.rng.random() < 0.3:
        return (_null_aware(s, t),), True
    if p.rng.random() < 0.2:
        return (compare(s.expr, p.rng.choice(("<", "<=", "<>", ">")), t.expr),), False
    conjuncts = [equal(s.expr, t.expr, null_safe=p.rng.random() < 0.25)]
    if p.rng.random() < 0.15:
        computed = Expressions(p.rng, left.columns).of(s.kind, 1)
        conjuncts = [equal(computed.expr, t.expr)]
    if p.rng.random() < 0.35:
        conjuncts.append(_both(p, left, right).condition(1))
    return tuple(conjuncts), True


def _both(p: Plans, left: RandomRelation, right: RandomRelation) -> Expressions:
    return Expressions(p.rng, left.columns + right.columns)


def _null_aware(s: Sample, t: Sample) -> Expr:
    """The condition that NOT IN becomes: unknown counts as a match."""
    matches = equal(s.expr, t.expr)
    return any_of((matches, is_null(matches)))


def _union_all(p: Plans, depth: int, scans: int) -> RandomRelation | None:
    pair = p.two(depth, scans)
    if pair is None:
        return None
    first, other = pair
    if len(first.columns) > 3:
        first = p.projected(first, p.chosen(first.columns, at_least=1)[:3])
    types = [c.expr.type for c in first.columns]
    members = [first, p.conformed(other, types)] + [first] * (p.rng.random() < 0.15)
    output = tuple(
        p.fresh(column.label, column.type, any(m.node.columns[i].nullable for m in members))
        for i, column in enumerate(first.node.columns)
    )
    node = UnionAll(tuple(m.node for m in members), output)
    places = range(len(types))
    bounds = [max(m.columns[i].bound for m in members) for i in places]
    return p.named(
        node, bounds, sum(m.rows for m in members), [all(m.columns[i].exact for m in members) for i in places]
    )


def _bag_operator(
    p: Plans, depth: int, scans: int, operator: type[ExceptAll] | type[IntersectAll]
) -> RandomRelation | None:
    pair = p.two(depth, scans)
    if pair is None:
        return None
    left, right = pair
    left = p.projected(left, p.chosen(left.columns, at_least=1)[:2])
    if p.rng.random() < 0.4:
        # A part of itself: the two sides then have rows in common.
        other: Node = Filter(left.node, (Expressions(p.rng, left.columns).condition(),))
    else:
        other = p.conformed(right, [c.expr.type for c in left.columns]).node
    return replace(left, node=operator(left.node, other))


Operator = Callable[[Plans, int, int], RandomRelation | None]

# An operator is drawn as often as it stands here.
_OPERATORS: Mapping[str, tuple[Operator, ...]] = {
    "filter": (_filter, _filter),
    "project": (_project, _project),
    "join": (_join, _join, _join),
    "union": (_union_all, _union_all),
    "distinct": (_distinct,),
    "aggregate": (_aggregate, _aggregate, _aggregate),
    "outer": (partial(_join, kinds=("left", "right", "full", "left")),) * 2,
    "semi": (partial(_join, kinds=("semi", "anti")),) * 2,
    "window": (_window, _window),
    "topk": (_top_k,),
    "except": (partial(_bag_operator, operator=ExceptAll),),
    "intersect": (partial(_bag_operator, operator=IntersectAll),),
    "generate": (_generate,),
}
