"""Which queries plain Python answers exactly as Spark does.

The interpreter knows much of Spark's SQL, and tests trust it. Results that are stored are held to more: here are the types
and expressions whose meaning leaves no room, whatever the settings of the session. Whole numbers, text, dates and truth
values are compared with their like; whole numbers are added, subtracted, multiplied and divided with remainder, and what
overflows is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from nabla.algebra.evaluator import CannotEvaluate, Slot, SqlType, parse_type
from nabla.algebra.evaluator.compiler import children, parse, shape_of, slots_of
from nabla.algebra.evaluator.types import BIGINT, BOOLEAN, DATE, INT, INTEGRAL, PLAIN, STRING, UNKNOWN, VOID, wider
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    UnionAll,
    Unweigh,
    Weigh,
)

_OPERATORS = (Scan, Constant, Filter, Project, Join, UnionAll, Distinct, Negate, Consolidate, Weigh, Unweigh)
_BAG_OPERATORS = (ExceptAll, IntersectAll)
_TYPES = frozenset(str(kind) for kind in PLAIN)


def is_plain(node: Node) -> bool:
    """Whether all of a query is plain."""
    return all(map(_plain_operator, node.walk()))


def _plain_operator(node: Node) -> bool:
    if not isinstance(node, (*_OPERATORS, *_BAG_OPERATORS)) or not all(c.type in _TYPES for c in node.columns):
        return False
    match node:
        case Constant():
            return all(
                plain_expression(v, (), c.type) for row in node.rows for v, c in zip(row, node.output, strict=True)
            )
        case Filter():
            return all(plain_expression(c, node.input.columns) for c in node.conjuncts)
        case Project():
            return all(plain_expression(o.expr, node.input.columns, o.column.type) for o in node.outputs)
        case Join():
            return all(plain_expression(c, node.left.columns + node.right.columns) for c in node.on)
        case UnionAll():
            return all(_alike(m.columns, node.output) for m in node.members)
        case ExceptAll() | IntersectAll():
            return _alike(node.left.columns, node.right.columns)
    return True


def _alike(columns: Iterable[Column], others: Iterable[Column]) -> bool:
    return all(_comparable(parse_type(c.type), parse_type(o.type)) for c, o in zip(columns, others, strict=True))


def plain_expression(expr: Expr, columns: Iterable[Column], kind: str = "boolean") -> bool:
    """Whether an expression is plain, and its value of that type or of a narrower one."""
    if not expr.deterministic or "\\" in expr.sql:  # an escape in a text
        return False
    layout = {c.name: Slot(c.name, parse_type(c.type) if c.type in _TYPES else UNKNOWN) for c in columns}
    try:
        shape, names = shape_of(expr.sql)
        found = _type_of(parse(shape), slots_of(expr.sql, names, layout))
    except CannotEvaluate:
        return False
    return found is not None and _comparable(found, parse_type(kind))


_Slots: TypeAlias = tuple[Slot, ...]
_Result: TypeAlias = SqlType | None


def _type_of(node: exp.Expr, slots: _Slots) -> _Result:
    """The type of a plain expression; None for any other."""
    rule = _RULES.get(type(node))
    return rule(node, slots) if rule is not None else None


def _column(node: exp.Expr, slots: _Slots) -> _Result:
    assert isinstance(node, exp.Column)
    head, *fields = [part.name for part in node.parts]
    if fields or not head.isdecimal():
        return None
    kind = slots[int(head)].type
    return kind if kind in PLAIN else None


def _literal(node: exp.Expr, slots: _Slots) -> _Result:
    text: str = node.this
    if node.is_string:
        return STRING
    if not text.isdecimal():
        return None
    return INT if int(text) < 1 << 31 else BIGINT if int(text) < 1 << 63 else None


def _negative(node: exp.Expr, slots: _Slots) -> _Result:
    return _literal(node.this, slots) if isinstance(node.this, exp.Literal) and not node.this.is_string else None


def _arithmetic(node: exp.Expr, slots: _Slots) -> _Result:
    left, right = (_type_of(part, slots) for part in (node.this, node.expression))
    return wider(left, right) if left in INTEGRAL and right in INTEGRAL else None  # type: ignore[arg-type]


def _comparison(node: exp.Expr, slots: _Slots) -> _Result:
    left, right = (_type_of(part, slots) for part in (node.this, node.expression))
    return BOOLEAN if left is not None and right is not None and _comparable(left, right) else None


def _logic(node: exp.Expr, slots: _Slots) -> _Result:
    return BOOLEAN if all(_type_of(part, slots) in (BOOLEAN, VOID) for part in children(node)) else None


def _is_null(node: exp.Expr, slots: _Slots) -> _Result:
    tested = _type_of(node.this, slots)
    return BOOLEAN if tested is not None and isinstance(node.expression, exp.Null) else None


def _cast(node: exp.Expr, slots: _Slots) -> _Result:
    given, kind = _type_of(node.this, slots), parse_type(node.args["to"].sql("spark"))
    if given == VOID and kind in PLAIN:
        return kind
    if given in INTEGRAL and kind in INTEGRAL:
        return kind if INTEGRAL[kind] >= INTEGRAL[given] else None  # type: ignore[index]
    return kind if given == kind and kind in (STRING, BOOLEAN, DATE) else None


def _paren(node: exp.Expr, slots: _Slots) -> _Result:
    return _type_of(node.this, slots)


def _comparable(left: SqlType, right: SqlType) -> bool:
    return left == right or VOID in (left, right) or (left in INTEGRAL and right in INTEGRAL)


_RULES: Mapping[type[exp.Expr], Callable[[exp.Expr, _Slots], _Result]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, slots: BOOLEAN,
    exp.Null: lambda node, slots: VOID,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,  # as which CAST is read; what is allowed here never fails
    exp.Is: _is_null,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _comparison),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logic),
}
