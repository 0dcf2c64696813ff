"""Random views over a small star of tables, and queries that are derived from them: weaker ones, which the view has to answer,
and changed ones, which it may answer only if that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from nabla.algebra.build import any_of, compare, equal, is_not_null
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Apply, Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, Node, Project, Scan
from nabla.dev.testing.random_data import DOMAINS, Schema, Table
from nabla.dev.testing.random_expressions import Expressions
from nabla.dev.testing.random_groups import RESULTS, summable
from nabla.dev.testing.random_star import KEYS, REFERENCES
from nabla.dev.testing.random_terms import Sample, constant, kind_of

_Item = TypeVar("_Item")
_EXACT_SUMS = ("int", "bigint", "decimal(10,2)")


@dataclass(frozen=True)
class Spec:
    """A query as it is written: tables with the conditions of their joins, filters, groups and what is shown. The first table
    has no join."""

    tables: tuple[str, ...]
    joins: tuple[tuple[Expr, ...], ...]
    outer: tuple[bool, ...]
    filters: tuple[Expr, ...]
    keys: tuple[Named, ...] | None = None
    calls: tuple[Call, ...] = ()
    having: tuple[Expr, ...] = ()
    shown: tuple[Named, ...] = ()
    distinct: bool = False

    def plan(self, schema: Schema) -> Node:
        node: Node = scan_of(schema, self.tables[0])
        for table, on, outer in zip(self.tables[1:], self.joins, self.outer, strict=True):
            node = Join(node, scan_of(schema, table), on, "left" if outer else "inner")
        if self.filters:
            node = Filter(node, self.filters)
        if self.keys is not None:
            kept = tuple(Named(c, c.ref) for c in node.columns)
            node = Aggregate(Project(node, (*self.keys, *kept)), tuple(k.column.name for k in self.keys), self.calls)
            if self.having:
                node = Filter(node, self.having)
        node = Project(node, self.shown)
        return Distinct(node) if self.distinct else node


def scan_of(schema: Schema, table: str) -> Scan:
    (own,) = (t for t in schema if t.name == table)
    columns = tuple(Column(unique_name(c.name, i), c.type, c.nullable) for i, c in enumerate(own.columns))
    return Scan(table, At.NEW, columns, own.fields)


@dataclass
class Answers:
    """Makes views and queries over a schema."""

    rng: Random
    schema: Schema
    _last: int = field(default=100)

    def fresh(self, label: str, type_: str, nullable: bool = True) -> Column:
        self._last += 1
        return Column(unique_name(label, self._last), type_, nullable)

    def column(self, table: str, name: str) -> Column:
        scan = scan_of(self.schema, table)
        return scan.output[scan.fields.index(name)]

    def columns(self, spec: Spec) -> list[Column]:
        return [c for t in spec.tables for c in scan_of(self.schema, t).output]

    # ------------------------------------------------------------ parts

    def view(self) -> Spec:
        tables = self.rng.choice((("f",), ("f", "d"), ("f", "d"), ("f", "e"), ("f", "d", "e"), ("d", "e"), ("d",)))
        spec = self.joined(tables)
        filters = tuple(self.condition(self.columns(spec)) for _ in range(self.rng.choice((0, 1, 1, 2))))
        spec = replace(spec, filters=filters)
        if self.rng.random() < 0.6:
            return self.grouped(spec)
        return self.showing(spec, self.columns(spec), self.rng.random() < 0.1)

    def joined(self, tables: Sequence[str]) -> Spec:
        joins, outer = [], []
        for place, table in enumerate(tables[1:], start=1):
            pairs = [(a, b) for a, b in REFERENCES.items() if b[0] == table and a[0] in tables[:place]]
            (own, column), (_, key) = self.rng.choice(pairs)
            on = [equal(self.column(own, column).ref, self.column(table, key).ref)]
            if self.rng.random() < 0.08:
                on.append(self.condition(list(scan_of(self.schema, table).output)))
            joins.append(tuple(on))
            outer.append(self.rng.random() < 0.25)
        return Spec(tuple(tables), tuple(joins), tuple(outer), ())

    def condition(self, columns: Sequence[Column]) -> Expr:
        """A range, a list, a test for NULL, a disjunction, or anything."""
        column = self.rng.choice(columns)
        form = self.rng.random()
        if form < 0.5:
            return self.range(column)
        if form < 0.6:
            values = self.rng.sample(DOMAINS[column.type], min(len(DOMAINS[column.type]), self.rng.choice((2, 3))))
            literals = tuple(constant(v, column.type) for v in values)
            return Apply("In", (column.ref, *literals), "boolean", column.nullable)
        if form < 0.68:
            return is_not_null(column.ref)
        if form < 0.8:
            return any_of((self.range(column), self.range(self.rng.choice(columns))))
        return Expressions(self.rng, self.samples(columns)).condition()

    def range(self, column: Column) -> Expr:
        value = constant(self.rng.choice(DOMAINS[column.type]), column.type)
        return compare(column.ref, self.rng.choice(("<", "<=", ">", ">=", ">=", "<=", "=", "<>")), value)

    def samples(self, columns: Sequence[Column]) -> list[Sample]:
        return [Sample(c.ref, _bound(c.type)) for c in columns]

    def showing(self, spec: Spec, columns: Sequence[Column], distinct: bool = False) -> Spec:
        """The spec with most of the columns shown, and sometimes a computed one."""
        count = self.rng.randint(max(1, len(columns) // 2), len(columns))
        kept = [Named(c, c.ref) for c in self.rng.sample(list(columns), count)]
        if self.rng.random() < 0.3:
            made = Expressions(self.rng, self.samples(columns)).any(1).expr
            if made.columns:
                kept.append(Named(self.fresh("x", made.type), made))
        return replace(spec, shown=tuple(kept), distinct=distinct)

    def grouped(self, spec: Spec, columns: Sequence[Column] | None = None) -> Spec:
        found = list(columns or self.columns(spec))
        keys = []
        for c in self.rng.sample(found, min(len(found), self.rng.choice((0, 1, 2, 2, 3, 3)))):
            expr: Expr = c.ref
            if self.rng.random() < 0.15:
                made = Expressions(self.rng, self.samples([c])).any(1).expr
                expr = made if made.columns else expr
            keys.append(Named(self.fresh(c.label, expr.type), expr))
        calls = [self.call(found) for _ in range(self.rng.choice((0, 1, 2, 3)) if keys else self.rng.choice((1, 2)))]
        if calls and self.rng.random() < 0.8:
            calls.append(Call(self.fresh("n", "bigint", False), "count"))
        shown = [Named(k.column, k.column.ref) for k in keys] + [Named(c.column, c.column.ref) for c in calls]
        having = self._having(calls) if self.rng.random() < 0.08 else ()
        return replace(spec, keys=tuple(keys), calls=tuple(calls), having=having, shown=tuple(shown))

    def call(self, columns: Sequence[Column]) -> Call:
        function = self.rng.choice(("count", "sum", "sum", "sum", "avg", "min", "max", "max"))
        usable = [s for s in self.samples(columns) if function not in ("sum", "avg") or self._adds(s)]
        if not usable:
            function, usable = "count", self.samples(columns)
        sample = self.rng.choice(usable)
        if self.rng.random() < 0.15:
            drawn = Expressions(self.rng, [sample]).of(sample.kind, 1)
            sample = drawn if function not in ("sum", "avg") or self._adds(drawn) else sample
        result = RESULTS[function](sample)
        test = self.range(self.rng.choice(columns)) if self.rng.random() < 0.1 else None
        distinct = function == "count" and self.rng.random() < 0.2
        return Call(self.fresh(function, result.type, result.nullable), function, (sample.expr,), distinct, test)

    def _adds(self, sample: Sample) -> bool:
        return sample.kind in ("int", "decimal", "double") and summable(sample)

    # ------------------------------------------------------------ queries that a view has to answer

    def weaker(self, view: Spec) -> Spec:
        """A query with coarser groups, stronger filters or fewer columns than the view, from what it shows."""
        if view.keys is None or view.distinct:
            visible = [o.column for o in view.shown if o.expr.column == o.column.name]
            query = self._stronger(view, [(c, c.ref) for c in visible], 0.6)
            if visible and not view.distinct and self.rng.random() < 0.5:
                return self.grouped(replace(query, distinct=False), visible)
            return replace(query, shown=self._some(query.shown), distinct=view.distinct or self.rng.random() < 0.1)
        query = self._stronger(view, [(k.column, k.expr) for k in view.keys if k.expr.column], 0.5)
        keys = view.keys if self.rng.random() < 0.3 else self._some(view.keys, least=0)
        derived = [self._derived(view, c, keys) for c in self._some(view.calls, least=0)]
        made = [c for c in derived if c is not None]
        if not keys and not made:
            keys = view.keys
        if not keys and not made:
            return view
        if not view.keys:
            return replace(view, shown=self._some(view.shown))
        shown = [Named(k.column, k.column.ref) for k in keys] + [Named(c.column, c.column.ref) for c in made]
        if view.having:
            return replace(query, shown=self._some(view.shown))
        if self.rng.random() < 0.1:
            made += self._distinct(view)
            shown = [Named(k.column, k.column.ref) for k in keys] + [Named(c.column, c.column.ref) for c in made]
        having = self._having(made) if self.rng.random() < 0.15 else ()
        return replace(query, keys=tuple(keys), calls=tuple(made), shown=tuple(shown), having=having)

    def _distinct(self, view: Spec) -> list[Call]:
        """The number of values of a key that the view groups by."""
        keys = [k for k in view.keys or () if k.expr.type not in ("float", "double")]
        column = self.fresh("values", "bigint", False)
        return [Call(column, "count", (self.rng.choice(keys).expr,), distinct=True)] if keys else []

    def over(self, table: Table) -> Spec | None:
        """A view over another one, which is a table here: groups of its columns."""
        columns = [c for c in scan_of((table,), table.name).output if c.type in DOMAINS]
        if not columns:
            return None
        return replace(self.grouped(Spec((table.name,), (), (), ()), columns), having=())

    def _having(self, calls: Sequence[Call]) -> tuple[Expr, ...]:
        counts = [c for c in calls if c.column.type == "bigint"]
        return (compare(counts[0].column.ref, ">", constant(1, "bigint")),) if counts else ()

    def _stronger(self, view: Spec, visible: Sequence[tuple[Column, Expr]], share: float) -> Spec:
        usable = [c for _, e in visible for c in self.columns(view) if c.name == e.column]
        if not usable or self.rng.random() > share:
            return view
        return replace(
            view, filters=(*view.filters, *(self.condition(usable) for _ in range(self.rng.choice((1, 1, 2)))))
        )

    def _some(self, items: Sequence[_Item], least: int = 1) -> tuple[_Item, ...]:
        count = self.rng.randint(min(least, len(items)), len(items))
        return tuple(items[i] for i in sorted(self.rng.sample(range(len(items)), count)))

    def _derived(self, view: Spec, call: Call, keys: Sequence[Named]) -> Call | None:
        """A call that follows from one of the view for coarser groups, too."""
        if {k.column.name for k in keys} == {k.column.name for k in view.keys or ()}:
            return call
        if call.distinct:
            shown = [k.expr for k in view.keys or () if k.expr.type not in ("float", "double")]
            return call if call.filter is None and call.arguments[0] in shown else None
        if call.function in ("sum", "avg") and call.arguments[0].type not in _EXACT_SUMS:
            return None
        if call.function != "avg":
            return call
        parts = {(c.function, c.arguments, c.filter) for c in view.calls if not c.distinct}
        both = all((f, call.arguments, call.filter) in parts for f in ("sum", "count"))
        return call if both else None

    # ------------------------------------------------------------ queries that a view may answer

    def changed(self, view: Spec) -> Spec:
        """A query that differs from the view in one or two ways."""
        query = self.weaker(view) if self.rng.random() < 0.5 else view
        for _ in range(self.rng.choice((1, 1, 2))):
            query = self.rng.choice(_CHANGES)(self, query)
        return query


def _drop_filter(a: Answers, spec: Spec) -> Spec:
    return replace(spec, filters=tuple(f for f in spec.filters if a.rng.random() < 0.5))


def _other_filter(a: Answers, spec: Spec) -> Spec:
    kept = [f for f in spec.filters if a.rng.random() < 0.7]
    return replace(spec, filters=(*kept, a.condition(a.columns(spec))))


def _more_tables(a: Answers, spec: Spec) -> Spec:
    missing = [t for t in ("d", "e") if t not in spec.tables and any(r[0] in spec.tables for r in _referring(t))]
    if not missing:
        return spec
    table = a.rng.choice(missing)
    own, name = a.rng.choice([r for r in _referring(table) if r[0] in spec.tables])
    on = (equal(a.column(own, name).ref, a.column(table, KEYS[table]).ref),)
    more = replace(
        spec, tables=(*spec.tables, table), joins=(*spec.joins, on), outer=(*spec.outer, a.rng.random() < 0.2)
    )
    return _show_other(a, more) if a.rng.random() < 0.5 else more


def _referring(table: str) -> list[tuple[str, str]]:
    return [own for own, other in REFERENCES.items() if other[0] == table]


def _fewer_tables(a: Answers, spec: Spec) -> Spec:
    """Without the last table, and without everything that reads it."""
    if len(spec.tables) == 1:
        return spec
    gone = scan_of(a.schema, spec.tables[-1]).names
    left = [n for n in spec.shown if n.expr.columns.isdisjoint(gone)]
    keys = None if spec.keys is None else tuple(k for k in spec.keys if k.expr.columns.isdisjoint(gone))
    calls = tuple(c for c in spec.calls if all(e.columns.isdisjoint(gone) for e in c.inputs))
    if spec.keys is not None:
        if not keys and not calls:
            return spec
        names = {k.column.name for k in keys or ()} | {c.column.name for c in calls}
        left = [n for n in spec.shown if n.expr.columns <= names]
        if any(not h.columns <= names for h in spec.having):
            spec = replace(spec, having=())
    if not left:
        return spec
    filters = tuple(f for f in spec.filters if f.columns.isdisjoint(gone))
    return replace(
        spec,
        tables=spec.tables[:-1],
        joins=spec.joins[:-1],
        outer=spec.outer[:-1],
        filters=filters,
        keys=keys,
        calls=calls,
        shown=tuple(left),
    )


def _flip_outer(a: Answers, spec: Spec) -> Spec:
    return replace(spec, outer=tuple(o != (a.rng.random() < 0.6) for o in spec.outer))


def _show_other(a: Answers, spec: Spec) -> Spec:
    if spec.keys is None:
        return a.showing(spec, a.columns(spec), spec.distinct)
    return a.grouped(replace(spec, having=()))


def _swap_equal(a: Answers, spec: Spec) -> Spec:
    """The other column of an equality of a join, in the outputs, keys and filters."""
    pairs = [c.sides for on, outer in zip(spec.joins, spec.outer, strict=True) for c in on if not outer and c.sides]
    if not pairs:
        return spec
    one, other = a.rng.choice(pairs)
    swapped = {one.column or "": other} if a.rng.random() < 0.5 else {other.column or "": one}

    def swap(named: Sequence[Named]) -> tuple[Named, ...]:
        return tuple(Named(n.column, n.expr.substitute(swapped)) for n in named)

    filters = tuple(f.substitute(swapped) for f in spec.filters)
    if spec.keys is None:
        return replace(spec, filters=filters, shown=swap(spec.shown))
    return replace(spec, filters=filters, keys=swap(spec.keys), calls=tuple(c.substitute(swapped) for c in spec.calls))


_CHANGES: tuple[Callable[[Answers, Spec], Spec], ...] = (
    _drop_filter,
    _other_filter,
    _more_tables,
    _more_tables,
    _fewer_tables,
    _fewer_tables,
    _flip_outer,
    _show_other,
    _swap_equal,
)


def _bound(type_: str) -> float:
    return max(float(abs(v)) for v in DOMAINS[type_]) if kind_of(type_) in ("int", "decimal", "double") else 2.0
