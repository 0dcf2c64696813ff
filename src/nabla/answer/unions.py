"""A view that has a part of the rows that a query needs, and the rest from the tables: two queries and their union."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.build import all_of
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Ref
from nabla.algebra.names import part_name, unique_name
from nabla.algebra.nodes import Aggregate, Filter, Node, Project, UnionAll
from nabla.algebra.types import decimal_of
from nabla.answer.blocks import Block, Group, build_plan
from nabla.answer.canonical import conjuncts_of, strip
from nabla.answer.match import Matcher, failing_conjuncts
from nabla.answer.predicates import opposite, read_range
from nabla.answer.reasons import NoMatch, Reason
from nabla.answer.rollup import RollUp, signature
from nabla.answer.stored_view import Match, StoredView


@dataclass(frozen=True, eq=False)
class Added:
    """The plan of a union, and how the view came into it."""

    plan: Node
    match: Match


def add_missing(matcher: Matcher, query: Block, view: StoredView) -> Added | None:
    """The query as what the view has of it and what it lacks. None if the view lacks more than rows outside of some ranges."""
    if view.block is None:
        return None
    query = matcher.extend(query, view.block)
    lacking = failing_conjuncts(matcher, query, view)
    if not lacking or any(read_range(conjunct) is None for conjunct in lacking):
        return None
    conjunct = all_of(lacking)
    try:
        return _rows(matcher, query, view, conjunct) if query.group is None else _groups(matcher, query, view, conjunct)
    except NoMatch:
        return None


def _halves(matcher: Matcher, query: Block, view: StoredView, conjunct: Expr) -> tuple[Match, Block]:
    inside = replace(query, conjuncts=(*query.conjuncts, *conjuncts_of(conjunct)))
    made = matcher.match(inside, view)
    if isinstance(made, Reason):
        raise NoMatch(made.short, made.message)
    return made, replace(query, conjuncts=(*query.conjuncts, strip(opposite(conjunct))))


def _union(match: Match, outside: Block, columns: tuple[Column, ...], number_: int) -> UnionAll:
    members = (build_plan(match.block), build_plan(outside))
    output = tuple(
        Column(unique_name(c.label, f"u{number_}.{i}".replace(".", "_")), c.type) for i, c in enumerate(columns)
    )
    return UnionAll(members, output)


def _rows(matcher: Matcher, query: Block, view: StoredView, conjunct: Expr) -> Added:
    match, outside = _halves(matcher, query, view, conjunct)
    union = _union(match, outside, query.columns, next(matcher.numbers))
    shown = tuple(Named(c, strip(own.ref)) for c, own in zip(query.columns, union.columns, strict=True))
    return Added(Project(union, shown), match)


def _groups(matcher: Matcher, query: Block, view: StoredView, conjunct: Expr) -> Added:
    """Both halves grouped as the query is, with results that can be added up, and these added up."""
    group = query.group
    assert group is not None
    partial = _partials(group)
    columns = (*(Column(n, e.type) for n, e in group.keys.items()), *(c.column for c in partial))
    inner = replace(
        query,
        group=Group(group.keys, tuple(partial)),
        having=(),
        outputs=tuple(Named(c, strip(c.ref)) for c in columns),
    )
    match, outside = _halves(matcher, inner, view, conjunct)
    union = _union(match, outside, columns, next(matcher.numbers))
    held = dict(zip((c.name for c in columns), (strip(c.ref) for c in union.columns), strict=True))
    stored = {signature(c, lambda e: e): held[c.column.name] for c in partial}
    rollup = RollUp(stored, lambda e: e, _nothing, lambda e: False, matcher.ansi)
    values = {c.column.name: rollup.value(c) for c in group.calls}
    keys = {n: held[n].column or "" for n in group.keys}
    node: Node = Aggregate(union, tuple(keys.values()), tuple(rollup.calls))
    values |= {n: Ref(name, union.column(name).type, True) for n, name in keys.items()}
    if query.having:
        node = Filter(node, tuple(h.substitute(values) for h in query.having))
    return Added(Project(node, tuple(Named(o.column, o.expr.substitute(values)) for o in query.outputs)), match)


def _nothing(expr: Expr) -> Expr:
    raise NoMatch("COLUMN", "the groups of a union have no other columns")


def _partials(group: Group) -> list[Call]:
    """The calls whose results can be added up, for all calls of the query, each once."""
    found: dict[object, Call] = {}
    for call in group.calls:
        for part in _parts(call):
            found.setdefault(signature(part, lambda e: e), part)
    return list(found.values())


def _parts(call: Call) -> list[Call]:
    if call.distinct or call.template:
        raise NoMatch("AGGREGATE", f"{call} cannot be added up")
    if call.function not in ("avg", "mean"):
        return [replace(call, column=Column(part_name(call.column.name, "half"), call.column.type))]
    (argument,) = call.arguments
    decimal = decimal_of(argument.type)
    total = f"decimal({min(38, decimal[0] + 10)},{decimal[1]})" if decimal else "bigint"
    if not decimal and argument.type in ("float", "double"):
        raise NoMatch("AGGREGATE", f"{call} cannot be added up")
    name = call.column.name
    return [
        Call(Column(part_name(name, "halfsum"), total), "sum", call.arguments, filter=call.filter),
        Call(Column(part_name(name, "halfcount"), "bigint"), "count", call.arguments, filter=call.filter),
    ]
