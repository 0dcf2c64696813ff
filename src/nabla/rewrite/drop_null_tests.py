"""NOT IN between columns without NULLs is a plain equality.

`x NOT IN (SELECT y …)` joins on (x = y) OR ((x = y) IS NULL), by which no row can be looked up. Where neither column has a
NULL, the second part is never true:

    (x = y) OR ((x = y) IS NULL)  =  (x = y)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nabla.algebra.equalities import equality_of
from nabla.algebra.expressions import Apply, Expr, Literal
from nabla.algebra.nodes import (
    Aggregate,
    Consolidate,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.traverse import map_nodes

NeverNull = Callable[[Scan, str], bool]
"""Whether a field of what a scan reads has no NULL."""


def has_null_tests(node: Node) -> bool:
    """Whether a query has such a condition."""
    joins = (part for part in node.walk() if isinstance(part, Join))
    return any(_equality_in(conjunct) is not None for join in joins for conjunct in join.on)


def drop_null_tests(plan: Node, never_null: NeverNull) -> Node:
    """The plan with plain equalities in joins of columns without NULLs."""
    return map_nodes(plan, lambda node: _simplify(node, never_null) if isinstance(node, Join) else node)


def _simplify(join: Join, never_null: NeverNull) -> Join:
    conjuncts = tuple(_plain(join, conjunct, never_null) for conjunct in join.on)
    return join if conjuncts == join.on else replace(join, on=conjuncts)


def _plain(join: Join, conjunct: Expr, never_null: NeverNull) -> Expr:
    test = _equality_in(conjunct)
    found = None if test is None else equality_of(join, test)
    if test is None or found is None or found.columns is None:
        return conjunct
    left, right = found.columns
    plain = _is_never_null(join.left, left, never_null) and _is_never_null(join.right, right, never_null)
    return test if plain else conjunct


def _equality_in(conjunct: Expr) -> Expr | None:
    """The equality e of a condition e OR (e IS NULL)."""
    match conjunct:
        case Apply(
            function="Or", arguments=(Apply(function="EqualTo") as test, Apply(function="IsNull", arguments=(same,)))
        ):
            return test if same == test else None
    return None


def _is_never_null(node: Node, name: str, never_null: NeverNull) -> bool:
    """Whether a column of a query has no NULL, as far as its tables tell."""

    def inner(part: Node, column: str = name) -> bool:
        return _is_never_null(part, column, never_null)

    match node:
        case Scan():
            place = [column.name for column in node.output].index(name)
            return never_null(node, node.fields[place])
        case Filter() | Distinct() | Negate() | Consolidate() | Unweigh() | TopK():
            return inner(node.input)
        case Weigh() | Window():
            return name in node.input.names and inner(node.input)
        case Project():
            value = node.definitions[name]
            if isinstance(value, Literal):
                return value.value is not None
            return value.column is not None and inner(node.input, value.column)
        case Aggregate():
            return name in node.keys and inner(node.input)
        case UnionAll() | ExceptAll() | IntersectAll():
            place = [column.name for column in node.columns].index(name)
            parts = node.inputs if isinstance(node, UnionAll) else node.inputs[:1]
            return all(inner(part, part.columns[place].name) for part in parts)
        case Join(kind="inner"):
            return inner(node.left if name in node.left.names else node.right)
        case Join(kind="semi" | "anti"):
            return inner(node.left)
        case Join(kind="left"):
            return name in node.left.names and inner(node.left)
        case Join(kind="right"):
            return name in node.right.names and inner(node.right)
    return False
