"""Recognizes queries that plain Python answers exactly as Spark does: the rounds of a recursion may run them in memory."""

from __future__ import annotations

from functools import lru_cache

from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Aggregate,
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
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
from nabla.algebra.reference.evaluator import Slot, parse_type
from nabla.algebra.reference.evaluator.exact import exact_type, is_exact, is_exact_aggregate
from nabla.calculus.stages import COPY


def is_exact_query(node: Node) -> bool:
    """Whether Python gives what Spark would give, whatever the rows."""
    return all(_exact_columns(n.columns) and n.columns and _exact_here(n) for n in node.walk())


@lru_cache(maxsize=1 << 12)
def _exact_columns(columns: tuple[Column, ...]) -> bool:
    return all(exact_type(c.type) for c in columns)


def _exact_here(node: Node) -> bool:
    match node:
        case Scan() | UnionAll() | Negate() | Weigh() | Unweigh() | Consolidate():
            return True
        case Distinct() | ExceptAll() | IntersectAll():
            return True
        case Constant():
            return all(is_exact(value, {}) for row in node.rows for value in row)
        case Filter():
            return _all_exact(node.conjuncts, node.input.columns)
        case Project():
            return _all_exact([o.expr for o in node.outputs], node.input.columns)
        case Join():
            return _all_exact(node.on, node.left.columns + node.right.columns)
        case Aggregate():
            layout = _layout(node.input.columns)
            return all(is_exact_aggregate(call, layout) for call in node.calls)
        case Generate():  # generators other than ours may give any number of rows, so their size cannot be bounded here
            return node.output == (COPY,) or is_exact(node.generator, _layout(node.input.columns))
        case TopK():
            return _all_exact([o.expr for o in node.order], node.columns)
        case Window():
            ranks = all(call.call.function == "dense_rank" and not call.frame for call in node.calls)
            return ranks and _all_exact([o.expr for c in node.calls for o in c.order], node.input.columns)
    return False


def _all_exact(expressions: tuple[Expr, ...] | list[Expr], columns: tuple[Column, ...]) -> bool:
    layout = _layout(columns)
    return all(is_exact(e, layout) for e in expressions)


@lru_cache(maxsize=1 << 10)
def _layout(columns: tuple[Column, ...]) -> dict[str, Slot]:
    return {c.name: Slot(i, parse_type(c.type)) for i, c in enumerate(columns)}
