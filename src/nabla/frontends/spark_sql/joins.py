"""Joins of all kinds that Catalyst has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nabla.algebra.build import FALSE, TRUE, coalesce, compare, equal, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.clock import clock_conjuncts
from nabla.algebra.equalities import equality
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import Aggregate, Filter, Join, JoinKind, Node, Project, UnionAll
from nabla.frontends.spark_sql.expressions import Unsupported
from nabla.frontends.spark_sql.scope import Relation, with_columns
from nabla.frontends.spark_sql.tree import Expression, Operator
from nabla.frontends.spark_sql.walker import Walker, check_single

_KINDS: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}


def join(w: Walker, op: Operator) -> Relation:
    kind: Any = op.fields["joinType"]
    left, right = (w.walk(child) for child in op.children)
    if left.columns.keys() & right.columns.keys():
        raise Unsupported("a join of two sides that share columns")
    condition = op.fields["condition"]
    # Subqueries of the condition are joined to the left side: they have one row, which changes no match of any kind of join.
    both, p = w.attach_subqueries(
        Relation(left.node, {**left.columns, **right.columns}), [condition] if condition else []
    )
    left = replace(left, node=both.node)
    on = p.conjuncts(condition) if condition else ()
    if isinstance(kind, dict) and kind["kind"] == "ExistenceJoin":
        return _existence(w, left, right, on, kind["exists"])
    if kind == "LeftSingle":
        return _left_single(w, left, right, on)
    if kind not in _KINDS:
        raise Unsupported(f"a join of kind {kind}")
    later = clock_conjuncts(on) if _KINDS[kind] == "inner" else ()  # rules follow the clock in filters only
    node: Node = Join(left.node, right.node, tuple(c for c in on if c not in later), _KINDS[kind])
    node = Filter(node, later) if later else node
    return Relation(node, left.columns if _KINDS[kind] in ("semi", "anti") else both.columns)


def _existence(w: Walker, left: Relation, right: Relation, on: tuple[Expr, ...], flag: Expression) -> Relation:
    """EXISTS as a value. If the condition has only equalities, it is a left join with the distinct values that are compared;
    otherwise it is the union of the rows that match, with true, and of those that do not, with false."""
    assert flag.id is not None
    try:
        sides = [_sides(left, right, conjunct) for conjunct in on]
    except Unsupported:
        return _existence_by_cases(w, left, right, on, flag)
    node, keys = _with_columns(w, right.node, [there for _, there in sides])
    count = Call(w.names.column("rows", "bigint", nullable=False), "count")
    # An aggregate without keys has a row even for no rows; with keys, every group has rows.
    groups = Aggregate(node, _names(keys), (count,))
    conditions = tuple(equal(here, key.ref, c.null_safe) for (here, _), key, c in zip(sides, keys, on, strict=True))
    joined = Join(left.node, groups, conditions, "left" if on else "inner")
    found = w.names.of(flag)
    value = compare(coalesce(count.column.ref, number(0)), ">", number(0))
    return Relation(with_columns(joined, [(found, value)]), {**left.columns, flag.id: found})


def _existence_by_cases(w: Walker, left: Relation, right: Relation, on: tuple[Expr, ...], flag: Expression) -> Relation:
    visible = {c.name: c for c in left.columns.values()}

    def member(kind: JoinKind, value: Expr) -> Project:
        outputs = [Named(w.names.column(c.label, c.type, c.nullable), c.ref) for c in visible.values()]
        found = Named(w.names.of(flag), value)
        return Project(Join(left.node, right.node, on, kind), (*outputs, found))

    members = (member("semi", TRUE), member("anti", FALSE))
    fresh = {name: w.names.column(c.label, c.type, c.nullable) for name, c in visible.items()}
    found = w.names.of(flag)
    assert flag.id is not None
    columns = {id: fresh[c.name] for id, c in left.columns.items()}
    return Relation(UnionAll(members, (*fresh.values(), found)), {**columns, flag.id: found})


def _left_single(w: Walker, left: Relation, right: Relation, on: tuple[Expr, ...]) -> Relation:
    """A left join that fails at a second match: the right side has one row for each compared value, and a check is above."""
    sides = [_sides(left, right, conjunct) for conjunct in on]
    node, keys = _with_columns(w, right.node, [there for _, there in sides])
    conditions = [equal(here, key.ref, c.null_safe) for (here, _), key, c in zip(sides, keys, on, strict=True)]
    values = {c.name: c for c in right.columns.values()}
    single, count = w.single(node, _names(keys), values.values())
    results = {
        name: Named(w.names.column(value.label, value.type), check_single(call.column, count))
        for (name, value), call in zip(values.items(), single.calls, strict=False)
    }
    kept = (Named(c, c.ref) for c in left.node.columns)
    node = Project(Join(left.node, single, tuple(conditions), "left"), (*kept, *results.values()))
    return Relation(node, {**left.columns, **{id: results[c.name].column for id, c in right.columns.items()}})


def _with_columns(w: Walker, node: Node, expressions: list[Expr]) -> tuple[Node, list[Column]]:
    """The node with a column for each expression; an expression that is a column already gets no other."""
    additions: list[tuple[Column, Expr]] = []
    keys = []
    for e in expressions:
        if e.column:
            keys.append(node.column(e.column))
        else:
            keys.append(w.names.column("key", e.type, e.nullable))
            additions.append((keys[-1], e))
    return with_columns(node, additions), keys


def _names(columns: list[Column]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.name for c in columns))


def _sides(left: Relation, right: Relation, conjunct: Expr) -> tuple[Expr, Expr]:
    found = equality(conjunct, left.node.names, right.node.names)
    if found is None:
        raise Unsupported("a correlated subquery that is neither an aggregate nor compared by equality")
    return found.left, found.right
