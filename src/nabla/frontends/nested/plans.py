"""Nested expressions as ordinary algebra over rows with array columns, which the ordinary calculus maintains.

At the top level a relation is a table whose key is α(R): selection is a filter and a projection, and two relations meet
in a join on α(R), NULLs being equal. Below it, structured columns are computed by the expressions of `expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, JoinKind, Node, Project, Scan
from nabla.algebra.parse import read_text
from nabla.frontends.nested import expressions as sql
from nabla.frontends.nested import language
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.meaning import Sources, schema_of, source_of
from nabla.frontends.nested.schema import Schema


@dataclass(frozen=True)
class Planned:
    """A relation as a plan: the column of every attribute."""

    node: Node
    schema: Schema
    columns: Mapping[str, Column]

    @property
    def parts(self) -> dict[str, str]:
        """The texts of the structured attributes."""
        return {name: self.columns[name].ref.sql for name in self.schema.structured}


def to_plan(expression: Nested, sources: Sources) -> Node:
    """The algebra of an expression; its columns are labelled with the attributes, in the order of the schema."""
    schema_of(expression, sources)  # refuses what does not fit
    planned = Planner(sources).plan(expression)
    wanted = tuple(planned.columns[name] for name in planned.schema.names)
    if planned.node.columns == wanted:
        return planned.node
    return Project(planned.node, tuple(Named(column, column.ref) for column in wanted))


class Planner:
    """Makes one plan. Columns are numbered, so that every one of them has a name of its own."""

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
        return self._plans[type(expression)](expression)

    # Leaves

    def scan(self, table: str, schema: Schema) -> Planned:
        columns = {name: self._column(name, kind) for name, kind in schema.types.items()}
        return Planned(Scan(table, At.NEW, tuple(columns.values()), tuple(columns)), schema, columns)

    def _table(self, e: language.Table) -> Planned:
        name, source = source_of(e.name, self.sources)
        planned = self.scan(name, source.schema)
        if source.pnf:
            return planned
        pieces = {n: planned.columns[n].ref for n in planned.schema.structured}
        return self._united(planned.node, planned.columns, planned.schema, pieces)

    def _nest(self, e: language.Nest) -> Planned:
        name, source = source_of(e.name, self.sources)
        schema = schema_of(e, self.sources)
        names = list(dict.fromkeys(name for _, name, _ in schema.all_atoms))
        types = dict(source.schema.atoms)
        flat = self.scan(name, Schema(tuple((n, types[n]) for n in names)))
        texts = {n: c.ref.sql for n, c in flat.columns.items()}
        pieces = {n: read_text(_singleton(part, texts), part.array) for n, part in schema.parts}
        return self._united(flat.node, flat.columns, schema, pieces)

    def _united(self, node: Node, columns: Mapping[str, Column], schema: Schema, pieces: Mapping[str, Expr]) -> Planned:
        """The union of rows: one for each key, with the union of all that they have in their subrelations."""
        keys = {name: columns[name] for name in schema.key}
        names = tuple(column.name for column in keys.values())
        if not schema.parts:
            only = Project(node, tuple(Named(column, column.ref) for column in keys.values()))
            return Planned(Distinct(only), schema, keys)
        lists = {n: self._column(n, f"array<{part.array}>") for n, part in schema.parts}
        calls = tuple(Call(lists[n], "collect_list", (pieces[n],)) for n in schema.structured)
        grouped = Planned(Aggregate(node, names, calls), schema, keys | lists)
        parts = {n: sql.merged(f"flatten({text})", schema[n]) for n, text in grouped.parts.items()}
        return self._with_parts(grouped, schema, parts)

    # One operand

    def _select(self, e: language.Select) -> Planned:
        r = self.plan(e.input)
        c = condition(e.selection, r.schema)
        tests = [f"({c.where.over(lambda name: r.columns[name].ref.sql)})"] if c.where is not None else []
        exists = sql.existence(r.parts, c, r.schema)
        tests += [exists] if exists != "true" else []
        kept = Filter(r.node, tuple(map(_boolean, tests))) if tests else r.node
        parts = sql.selected(r.parts, c, r.schema)
        if parts == r.parts:
            return Planned(kept, r.schema, r.columns)
        return self._with_parts(Planned(kept, r.schema, r.columns), r.schema, parts)

    def _project(self, e: language.Project) -> Planned:
        r, schema = self.plan(e.input), schema_of(e, self.sources)
        return self._with_parts(r, schema, sql.projected(r.parts, r.schema, schema))

    def _expand(self, e: language.Expand) -> Planned:
        r, schema = self.plan(e.input), schema_of(e, self.sources)
        return self.expanded(r, schema)

    def expanded(self, s: Planned, schema: Schema) -> Planned:
        return self._with_parts(s, schema, sql.expanded(s.parts, s.schema, schema))

    # Two operands

    def _intersect(self, e: language.Intersect) -> Planned:
        r, s = self.plan(e.left), self.plan(e.right)
        met = self._met(r, s, "inner")
        return self._with_parts(met, r.schema, sql.intersected(r.parts, s.parts, r.schema))

    def _join(self, e: language.Join) -> Planned:
        r, s = self.plan(e.left), self.plan(e.right)
        met = self._met(r, s, "inner")
        return self._with_parts(met, schema_of(e, self.sources), sql.carried(r.parts, s.parts, r.schema, s.schema))

    def union(self, r: Planned, s: Planned) -> Planned:
        if s.schema != r.schema:  # the same attributes in another order
            s = self._with_parts(s, r.schema, sql.projected(s.parts, s.schema, r.schema))
        left, here = self._marked(r)
        right, there = self._marked(s)
        met = Join(left.node, right.node, _on(r, s), "full")
        parts = sql.united(r.parts, s.parts, r.schema)
        either = {n: _either(here, there, r.columns[n], s.columns[n]) for n in r.schema.key}
        merged = {n: _either(here, there, r.columns[n], s.columns[n], parts[n]) for n in r.schema.structured}
        return self._made(met, r.schema, either | merged)

    def difference(self, r: Planned, s: Planned) -> Planned:
        if not r.schema.parts:
            return self._met(r, s, "anti")
        right, there = self._marked(s)
        met = Planned(Join(r.node, right.node, _on(r, s), "left"), r.schema, r.columns)
        parts = {
            name: f"CASE WHEN {there} IS NULL THEN {r.parts[name]} ELSE {text} END"
            for name, text in sql.reduced(r.parts, s.parts, r.schema).items()
        }
        matched = self._column("matched", "boolean")
        reduced = self._with_parts(met, r.schema, parts, Named(matched, _boolean(f"({there} IS NOT NULL)")))
        left = _boolean(f"(NOT {matched.ref.sql}) OR {sql.nonempty(reduced.parts)}")
        kept = Planned(Filter(reduced.node, (left,)), r.schema, reduced.columns)
        return self._made(kept.node, r.schema, {n: c.ref.sql for n, c in kept.columns.items()})

    def _met(self, r: Planned, s: Planned, kind: JoinKind) -> Planned:
        return Planned(Join(r.node, s.node, _on(r, s), kind), r.schema, r.columns)

    def _marked(self, r: Planned) -> tuple[Planned, str]:
        """The relation with a column that is true, by which a row of it is known where an outer join may pad."""
        mark = self._column("present", "boolean")
        columns = [Named(c, c.ref) for c in r.columns.values()]
        node = Project(r.node, (*columns, Named(mark, read_text("true", "boolean", nullable=False))))
        return Planned(node, r.schema, r.columns), mark.ref.sql

    # Columns

    def _column(self, name: str, kind: str) -> Column:
        return Column(unique_name(name, next(self._numbers)), kind)

    def _with_parts(self, r: Planned, schema: Schema, parts: Mapping[str, str], *more: Named) -> Planned:
        """The keys as they are, and new structured attributes."""
        return self._made(r.node, schema, {n: r.columns[n].ref.sql for n in schema.key} | dict(parts), more)

    def _made(self, node: Node, schema: Schema, texts: Mapping[str, str], more: Iterable[Named] = ()) -> Planned:
        outputs, columns = [], {}
        known = {c.ref.sql: c for c in node.columns}
        for name, kind in schema.types.items():
            own = known.get(texts[name])
            columns[name] = own if own is not None and own.label == name else self._column(name, kind)
            outputs.append(Named(columns[name], read_text(texts[name], kind)))
        return Planned(Project(node, (*outputs, *more)), schema, columns)


def _boolean(text: str) -> Expr:
    return read_text(text, "boolean")


def _on(r: Planned, s: Planned) -> tuple[Expr, ...]:
    return tuple(equal(r.columns[name].ref, s.columns[name].ref, null_safe=True) for name in r.schema.key)


def _either(here: str, there: str, ours: Column, theirs: Column, both: str | None = None) -> str:
    """Of a full join: what the side that is there has, or what both make together."""
    together = f"WHEN {there} IS NOT NULL THEN {both} " if both is not None else ""
    return f"CASE WHEN {here} IS NULL THEN {theirs.ref.sql} {together}ELSE {ours.ref.sql} END"


def _singleton(schema: Schema, columns: Mapping[str, str]) -> str:
    """A relation of the one tuple that a flat row has for a subrelation, or of none where the row has only NULLs there."""
    own = [columns[name] for _, name, _ in schema.all_atoms]
    parts = {name: _singleton(part, columns) for name, part in schema.parts}
    made = sql.struct({name: columns[name] for name in schema.key} | parts)
    present = " OR ".join(f"({text} IS NOT NULL)" for text in own)
    return f"CASE WHEN {present} THEN array({made}) ELSE {sql.empty(schema)} END"
