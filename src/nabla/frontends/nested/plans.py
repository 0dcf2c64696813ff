"""Nested expressions as ordinary algebra over rows with array columns, which the ordinary calculus maintains.

At the top level a relation is a table whose key is α(R): a selection is a filter and a projection, and operators on two
relations are joins on α(R), with NULLs equal. Below it, the expressions of `expressions` compute structured columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from nabla.algebra.build import TRUE, any_of, call, case, coalesce, equal, is_not_null, is_null, negate, when
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Generate, Join, JoinKind, Node, Project, Scan
from nabla.frontends.nested import expressions as nested
from nabla.frontends.nested import language
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.language import Binary, Nested
from nabla.frontends.nested.levels import Path, level_schema
from nabla.frontends.nested.meaning import Sources, meetings_of, path_of, schema_of, source_of
from nabla.frontends.nested.schema import Schema
from nabla.rewrite.passes import DEFINITION, Keys, rewrite


@dataclass(frozen=True)
class Planned:
    """A relation as a plan, with the column of every attribute."""

    node: Node
    schema: Schema
    columns: Mapping[str, Column]

    @property
    def parts(self) -> dict[str, Expr]:
        """The values of the structured attributes."""
        return {name: self.columns[name].ref for name in self.schema.structured}

    @property
    def tuple(self) -> Expr:
        """A row as a tuple of a subrelation."""
        return nested.struct({name: self.columns[name].ref for name in self.schema.names})


_COMBINE: Mapping[type[Binary], Callable[[Expr, Expr, Schema, Schema, int], Expr]] = {
    language.Union: lambda u, v, r, s, depth: nested.union(u, v, r, depth),
    language.Difference: lambda u, v, r, s, depth: nested.difference(u, v, r, depth),
    language.Intersect: lambda u, v, r, s, depth: nested.intersection(u, v, r, depth),
    language.Join: nested.join,
}


def to_plan(expression: Nested, sources: Sources) -> Node:
    """The algebra of an expression; its columns are labelled with the attributes, in the order of the schema."""
    schema_of(expression, sources)  # refuses operands that do not fit
    planned = Planner(sources).plan(expression)
    wanted = tuple(planned.columns[name] for name in planned.schema.names)
    plan = Project(planned.node, tuple(Named(column, column.ref) for column in wanted))
    return rewrite(plan, DEFINITION, Keys())


class Planner:
    """Makes one plan. It numbers columns, so that their names are unique."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._numbers = count(1)
        self._plans: dict[type[Nested], Callable[[Any], Planned]] = {
            language.Table: self._table,
            language.Nest: self._nest,
            language.Select: self._select,
            language.Project: self._project,
            language.Expand: self._expand,
            language.Union: lambda e: self.union(self.plan(e.left), self.plan(e.right)),
            language.Difference: lambda e: self.difference(self.plan(e.left), self.plan(e.right)),
            language.Intersect: self._intersect,
            language.Join: self._join,
        }

    def plan(self, expression: Nested) -> Planned:
        if isinstance(expression, Binary) and expression.at:
            return self._below(expression)
        return self._plans[type(expression)](expression)

    # Leaves

    def scan(self, table: str, schema: Schema) -> Planned:
        columns = self._columns(schema)
        return Planned(Scan(table, At.NEW, tuple(columns.values()), tuple(columns)), schema, columns)

    def _table(self, e: language.Table) -> Planned:
        name, source = source_of(e.name, self.sources)
        planned = self.scan(name, source.schema)
        if source.pnf:
            return planned
        pieces = {n: planned.columns[n].ref for n in planned.schema.structured}
        return self._unite_rows(planned.node, planned.columns, planned.schema, pieces)

    def _nest(self, e: language.Nest) -> Planned:
        name, source = source_of(e.name, self.sources)
        schema = schema_of(e, self.sources)
        names = list(dict.fromkeys(name for _, name, _ in schema.all_atoms))
        types = dict(source.schema.atoms)
        flat = self.scan(name, Schema(tuple((n, types[n]) for n in names)))
        values = {n: c.ref for n, c in flat.columns.items()}
        pieces = {n: _singleton(part, values) for n, part in schema.parts}
        return self._unite_rows(flat.node, flat.columns, schema, pieces)

    def _unite_rows(
        self, node: Node, columns: Mapping[str, Column], schema: Schema, pieces: Mapping[str, Expr]
    ) -> Planned:
        """The union of rows: one row for each key, with the unions of their subrelations."""
        keys = {name: columns[name] for name in schema.key}
        names = tuple(column.name for column in keys.values())
        if not schema.parts:
            only = Project(node, tuple(Named(column, column.ref) for column in keys.values()))
            return Planned(Distinct(only), schema, keys)
        lists = {n: self._column(n, f"array<{part.array}>") for n, part in schema.parts}
        calls = tuple(Call(lists[n], "collect_list", (pieces[n],)) for n in schema.structured)
        grouped = Planned(Aggregate(node, names, calls), schema, keys | lists)
        parts = {n: nested.merge(nested.flatten(value), schema[n]) for n, value in grouped.parts.items()}
        return self._with_parts(grouped, schema, parts)

    # One operand

    def _select(self, e: language.Select) -> Planned:
        r = self.plan(e.input)
        c = condition(e.selection, r.schema)
        own = [c.where.over({name: r.columns[name].ref for name in r.schema.key})] if c.where is not None else []
        tests = [test for test in (*own, nested.existence(r.parts, c, r.schema)) if test != TRUE]
        kept = Filter(r.node, tuple(tests)) if tests else r.node
        parts = nested.select_parts(r.parts, c, r.schema)
        if parts == r.parts:
            return Planned(kept, r.schema, r.columns)
        return self._with_parts(Planned(kept, r.schema, r.columns), r.schema, parts)

    def _project(self, e: language.Project) -> Planned:
        r, schema = self.plan(e.input), schema_of(e, self.sources)  # all levels: they stay as they are but for `at`
        return self._with_parts(r, schema, nested.project_parts(r.parts, r.schema, schema))

    def _expand(self, e: language.Expand) -> Planned:
        r, schema = self.plan(e.input), schema_of(e, self.sources)
        return self.expanded(r, schema)

    def expanded(self, s: Planned, schema: Schema) -> Planned:
        return self._with_parts(s, schema, nested.expand_parts(s.parts, s.schema, schema))

    # Two operands

    def _intersect(self, e: language.Intersect) -> Planned:
        r, s = self.plan(e.left), self.plan(e.right)
        met = self._join_on_key(r, s, "inner")
        return self._with_parts(met, r.schema, nested.intersect_parts(r.parts, s.parts, r.schema))

    def _join(self, e: language.Join) -> Planned:
        r, s = self.plan(e.left), self.plan(e.right)
        met = self._join_on_key(r, s, "inner")
        tests = nested.meet(r.parts, s.parts, r.schema, s.schema, meetings_of(e, self.sources))
        if tests:
            met = Planned(Filter(met.node, tuple(tests)), r.schema, r.columns)
        return self._with_parts(
            met, schema_of(e, self.sources), nested.join_parts(r.parts, s.parts, r.schema, s.schema)
        )

    def union(self, r: Planned, s: Planned) -> Planned:
        if s.schema != r.schema:  # the same attributes in another order
            s = self._with_parts(s, r.schema, nested.project_parts(s.parts, s.schema, r.schema))
        left, here = self._mark(r)
        right, there = self._mark(s)
        met = Join(left.node, right.node, _on(r, s), "full")
        parts = nested.unite_parts(r.parts, s.parts, r.schema)
        either = {n: _either(here, there, r.columns[n], s.columns[n]) for n in r.schema.key}
        merged = {n: _either(here, there, r.columns[n], s.columns[n], parts[n]) for n in r.schema.structured}
        return self._compute(met, r.schema, either | merged)

    def difference(self, r: Planned, s: Planned) -> Planned:
        if not r.schema.parts:
            return self._join_on_key(r, s, "anti")
        right, there = self._mark(s)
        met = Planned(Join(r.node, right.node, _on(r, s), "left"), r.schema, r.columns)
        parts = {
            name: when(is_null(there), r.parts[name], value)
            for name, value in nested.subtract_parts(r.parts, s.parts, r.schema).items()
        }
        matched = self._column("matched", "boolean")
        reduced = self._with_parts(met, r.schema, parts, Named(matched, is_not_null(there)))
        left = any_of((negate(matched.ref), nested.nonempty(reduced.parts)))
        kept = Planned(Filter(reduced.node, (left,)), r.schema, reduced.columns)
        return self._compute(kept.node, r.schema, {n: c.ref for n, c in kept.columns.items()})

    # Below the top level

    def _below(self, e: Binary) -> Planned:
        """An operator with one relation s for the subrelations at a level of every tuple of r."""
        r, s, path = self.plan(e.left), self.plan(e.right), path_of(e, self.sources)
        schema, level = schema_of(e, self.sources), level_schema(r.schema, path)
        if not isinstance(e, language.Join):
            s = self._with_parts(s, level, nested.project_parts(s.parts, s.schema, level))
        if isinstance(e, language.Join | language.Intersect) and len(path) == 1:
            return self._pairs_below(e, r, s, path[0])
        whole = isinstance(e, language.Union)
        met, theirs = self._beside_all(r, s) if whole else self._beside_matches(r, s, path)
        combine = _COMBINE[type(e)]
        if isinstance(e, language.Join) and e.on:
            combine = partial(nested.join, on=meetings_of(e, self.sources))
        parts = nested.change_level(
            r.parts, path, r.schema, schema, lambda u, depth: combine(u, theirs, level, s.schema, depth)
        )
        return self._with_parts(met, schema, parts)

    def _pairs_below(self, e: language.Join | language.Intersect, r: Planned, s: Planned, name: str) -> Planned:
        """A join or an intersection on the second level: the subrelation is unnested, its tuples find those of s by their
        keys, and the pairs are nested again. That is cheaper than to search in arrays."""
        schema, level = schema_of(e, self.sources), r.schema[name]
        keys, own = self._rename_key(r), self._columns(level)
        each = self._unnest(r, keys, r.parts[name], [own[n] for n in level.names])
        ours = Planned(each, level, own)
        pairs: Node = Join(each, s.node, _on(ours, s), "inner")
        if isinstance(e, language.Join):
            tests = nested.meet(ours.parts, s.parts, level, s.schema, meetings_of(e, self.sources))
            pairs = Filter(pairs, tuple(tests)) if tests else pairs
            parts = nested.join_parts(ours.parts, s.parts, level, s.schema)
        else:
            parts = nested.intersect_parts(ours.parts, s.parts, level)
        values = {n: own[n].ref for n in level.key} | parts
        made = nested.struct({n: values[n] for n in schema[name].names})
        met, listed = self._beside_lists(r, keys, pairs, made, schema[name])
        return self._with_parts(met, schema, {**r.parts, name: nested.sort(listed)})

    def _beside_all(self, r: Planned, s: Planned) -> tuple[Planned, Expr]:
        """Every tuple of r beside the whole of s, as an array."""
        listed = self._column("theirs", f"array<{s.tuple.type}>")
        whole = Aggregate(s.node, (), (Call(listed, "collect_list", (s.tuple,)),))
        return Planned(Join(r.node, whole, (), "inner"), r.schema, r.columns), listed.ref

    def _beside_matches(self, r: Planned, s: Planned, path: Path) -> tuple[Planned, Expr]:
        """Every tuple of r beside the tuples of s whose keys it has at the path, as an array."""
        level = level_schema(r.schema, path)
        keys, own = self._rename_key(r), self._columns(Schema(level.atoms))
        each = self._unnest(r, keys, nested.level_keys(r.parts, path, r.schema), [own[n] for n in level.key])
        matches = Join(each, s.node, _on(Planned(each, level, own), s), "inner")
        return self._beside_lists(r, keys, matches, s.tuple, s.schema)

    def _rename_key(self, r: Planned) -> dict[str, Column]:
        return self._columns(Schema(r.schema.atoms))

    def _unnest(self, r: Planned, keys: Mapping[str, Column], value: Expr, columns: Iterable[Column]) -> Node:
        """A row for each tuple of an array that rows of r have, with their keys under other names."""
        array = self._column("tuples", value.type)
        outputs = [Named(keys[name], r.columns[name].ref) for name in r.schema.key]
        near = Project(r.node, (*outputs, Named(array, value)))
        return Generate(near, call("inline", array.ref, type="row"), tuple(columns))

    def _beside_lists(
        self, r: Planned, keys: Mapping[str, Column], rows: Node, made: Expr, schema: Schema
    ) -> tuple[Planned, Expr]:
        """Every tuple of r beside the tuples that rows with its key make, as an array."""
        listed, present = self._column("listed", f"array<{made.type}>"), self._column("theirs", schema.array)
        by_key = Aggregate(rows, tuple(c.name for c in keys.values()), (Call(listed, "collect_list", (made,)),))
        met = Join(r.node, by_key, _on(r, Planned(by_key, r.schema, keys)), "left")
        theirs = Named(present, coalesce(listed.ref, nested.empty(schema)))
        node = Project(met, (*(Named(c, c.ref) for c in r.columns.values()), theirs))
        return Planned(node, r.schema, r.columns), present.ref

    def _join_on_key(self, r: Planned, s: Planned, kind: JoinKind) -> Planned:
        return Planned(Join(r.node, s.node, _on(r, s), kind), r.schema, r.columns)

    def _mark(self, r: Planned) -> tuple[Planned, Expr]:
        """The relation with a column that is true, which tells its rows from rows that an outer join padded."""
        mark = self._column("present", "boolean")
        columns = [Named(c, c.ref) for c in r.columns.values()]
        node = Project(r.node, (*columns, Named(mark, TRUE)))
        return Planned(node, r.schema, r.columns), mark.ref

    # Columns

    def _columns(self, schema: Schema) -> dict[str, Column]:
        return {name: self._column(name, kind) for name, kind in schema.types.items()}

    def _column(self, name: str, kind: str) -> Column:
        return Column(unique_name(name, next(self._numbers)), kind)

    def _with_parts(self, r: Planned, schema: Schema, parts: Mapping[str, Expr], *more: Named) -> Planned:
        """The keys as they are, and new structured attributes."""
        return self._compute(r.node, schema, {n: r.columns[n].ref for n in schema.key} | dict(parts), more)

    def _compute(self, node: Node, schema: Schema, values: Mapping[str, Expr], more: Iterable[Named] = ()) -> Planned:
        outputs, columns = [], {}
        known = {c.name: c for c in node.columns}
        for name, kind in schema.types.items():
            own = known.get(values[name].column or "")
            columns[name] = own if own is not None and own.label == name else self._column(name, kind)
            outputs.append(Named(columns[name], values[name]))
        return Planned(Project(node, (*outputs, *more)), schema, columns)


def _on(r: Planned, s: Planned) -> tuple[Expr, ...]:
    return tuple(equal(r.columns[name].ref, s.columns[name].ref, null_safe=True) for name in r.schema.key)


def _either(here: Expr, there: Expr, ours: Column, theirs: Column, both: Expr | None = None) -> Expr:
    """A value of a full join: the value of the side that is present, or the combination of both."""
    together = [(is_not_null(there), both)] if both is not None else []
    return case([(is_null(here), theirs.ref), *together], ours.ref)


def _singleton(schema: Schema, values: Mapping[str, Expr]) -> Expr:
    """The subrelation of a flat row: its one tuple, or no tuple if the row has only NULLs there."""
    present = any_of(is_not_null(values[name]) for _, name, _ in schema.all_atoms)
    parts = {name: _singleton(part, values) for name, part in schema.parts}
    made = nested.struct({name: values[name] for name in schema.key} | parts)
    return when(present, nested.array(made), nested.empty(schema))
