"""Forms that look at NULL themselves instead of passing it on: three-valued logic, CASE, IN, COALESCE and the like."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from nabla.algebra.reference.evaluator.compiler import BETWEEN, Scope, builds, builds_named, compared, field_of
from nabla.algebra.reference.evaluator.functions import element_at, half_up, item, like
from nabla.algebra.reference.evaluator.terms import Get, Term, strict, unified
from nabla.algebra.reference.evaluator.values import (
    CannotEvaluate,
    Truth,
    Value,
    conjunction,
    disjunction,
    equal,
    null_safe_equal,
    order_key,
)
from nabla.algebra.types import ARRAY, BOOLEAN, MAX_PRECISION, STRING, UNKNOWN, SqlType, decimal


@builds(exp.And)
def _and(node: exp.And, scope: Scope) -> Term:
    left, right = scope(node.left).get, scope(node.right).get
    return Term(lambda row: False if (x := left(row)) is False else conjunction(x, right(row)), BOOLEAN)


@builds(exp.Or)
def _or(node: exp.Or, scope: Scope) -> Term:
    left, right = scope(node.left).get, scope(node.right).get
    return Term(lambda row: True if (x := left(row)) is True else disjunction(x, right(row)), BOOLEAN)


@builds(exp.Not)
def _not(node: exp.Not, scope: Scope) -> Term:
    return strict(lambda truth: not truth, [scope(node.this)], BOOLEAN)


@builds(exp.Is)
def _is(node: exp.Is, scope: Scope) -> Term:
    operand, wanted = scope(node.this).get, scope(node.expression).get(())
    return Term(lambda row: operand(row) is wanted, BOOLEAN)


@builds_named(BETWEEN)
def _is_between(arguments: list[exp.Expr], scope: Scope) -> Term:
    value, low, high = scope.all(arguments)
    above, below = compared(">=", value, low).get, compared("<=", value, high).get
    return Term(lambda row: conjunction(above(row), below(row)), BOOLEAN)


@builds_named("isnull")
def _isnull(arguments: list[exp.Expr], scope: Scope) -> Term:
    operand = scope(arguments[0]).get
    return Term(lambda row: operand(row) is None, BOOLEAN)


@builds_named("isnotnull")
def _isnotnull(arguments: list[exp.Expr], scope: Scope) -> Term:
    operand = scope(arguments[0]).get
    return Term(lambda row: operand(row) is not None, BOOLEAN)


@builds(exp.NullSafeEQ, exp.EqualNull)
def _null_safe_equal(node: exp.Expr, scope: Scope) -> Term:
    left, right = scope(node.this).get, scope(node.expression).get
    return Term(lambda row: null_safe_equal(left(row), right(row)), BOOLEAN)


@builds(exp.NullSafeNEQ)
def _null_safe_unequal(node: exp.NullSafeNEQ, scope: Scope) -> Term:
    left, right = scope(node.this).get, scope(node.expression).get
    return Term(lambda row: not null_safe_equal(left(row), right(row)), BOOLEAN)


@builds(exp.Between)
def _between(node: exp.Between, scope: Scope) -> Term:
    operand = scope(node.this)
    low = compared(">=", operand, scope(node.args["low"])).get
    high = compared("<=", operand, scope(node.args["high"])).get
    return Term(lambda row: conjunction(low(row), high(row)), BOOLEAN)


@builds(exp.In)
def _in(node: exp.In, scope: Scope) -> Term:
    if not node.expressions or node.args.get("query"):
        raise CannotEvaluate(f"a subquery: {node.sql('spark')}")
    operand, members = scope(node.this).get, [term.get for term in scope.all(node.expressions)]

    def get(row: Any) -> Truth:
        value = operand(row)
        result: Truth = False
        for member in members:
            result = disjunction(result, equal(value, member(row)))
            if result:
                break
        return result

    return Term(get, BOOLEAN)


@builds(exp.Tuple)
def _tuple(node: exp.Tuple, scope: Scope) -> Term:
    gets = [term.get for term in scope.all(node.expressions)]
    return Term(lambda row: tuple([get(row) for get in gets]), UNKNOWN)


@builds(exp.Array)
def _array(node: exp.Array, scope: Scope) -> Term:
    gets, _ = unified(scope.all(node.expressions))
    return Term(lambda row: tuple([get(row) for get in gets]), ARRAY)


def _choice(conditions: list[Get], branches: list[Term], otherwise: Term) -> Term:
    gets, kind = unified([*branches, otherwise])
    cases, default = list(zip(conditions, gets, strict=False)), gets[-1]

    def get(row: Any) -> Value:
        for condition, branch in cases:
            if condition(row):
                return branch(row)
        return default(row)

    return Term(get, kind)


@builds(exp.Case)
def _case(node: exp.Case, scope: Scope) -> Term:
    branches = node.args["ifs"]
    if node.this is None:
        conditions = [scope(branch.this).get for branch in branches]
    else:
        operand = scope(node.this)
        conditions = [compared("=", operand, scope(branch.this)).get for branch in branches]
    otherwise = scope(node.args.get("default") or exp.Null())
    return _choice(conditions, [scope(branch.args["true"]) for branch in branches], otherwise)


@builds(exp.If)
def _if(node: exp.If, scope: Scope) -> Term:
    otherwise = scope(node.args.get("false") or exp.Null())
    return _choice([scope(node.this).get], [scope(node.args["true"])], otherwise)


@builds_named("iff")
def _iff(arguments: list[exp.Expr], scope: Scope) -> Term:
    condition, then, otherwise = scope.all(arguments)
    return _choice([condition.get], [then], otherwise)


@builds(exp.Nvl2)
def _nvl2(node: exp.Nvl2, scope: Scope) -> Term:
    operand = scope(node.this).get
    return _choice([lambda row: operand(row) is not None], [scope(node.args["true"])], scope(node.args["false"]))


@builds(exp.Nullif)
def _nullif(node: exp.Nullif, scope: Scope) -> Term:
    left, right = scope(node.this), scope(node.expression).get
    return Term(lambda row: None if equal(x := left.get(row), right(row)) else x, left.type)


@builds(exp.Coalesce)
def _coalesce(node: exp.Coalesce, scope: Scope) -> Term:
    gets, kind = unified(scope.all([node.this, *node.expressions]))

    def get(row: Any) -> Value:
        for branch in gets:
            if (value := branch(row)) is not None:
                return value
        return None

    return Term(get, kind)


@builds(exp.Greatest, exp.Least)
def _extreme(node: exp.Func, scope: Scope) -> Term:
    gets, kind = unified(scope.all([node.this, *node.expressions]))
    extreme = max if isinstance(node, exp.Greatest) else min

    def get(row: Any) -> Value:
        values = [value for branch in gets if (value := branch(row)) is not None]
        return extreme(values, key=order_key) if values else None

    return Term(get, kind)


@builds(exp.Escape)
def _escaped_like(node: exp.Escape, scope: Scope) -> Term:
    inner, escape = node.this, node.expression.name
    if not isinstance(inner, exp.Like):
        raise CannotEvaluate(node.sql("spark"))
    wanted = not inner.args.get("negate")
    operands = scope.all([inner.this, inner.expression])
    return strict(lambda text, pattern: like(text, pattern, escape) is wanted, operands, BOOLEAN)


@builds(exp.Trim)
def _trim(node: exp.Trim, scope: Scope) -> Term:
    strip = {"LEADING": str.lstrip, "TRAILING": str.rstrip}.get(str(node.args.get("position")), str.strip)
    operands = [node.this, node.expression or exp.Literal.string(" ")]
    return strict(strip, scope.all(operands), STRING)


@builds(exp.Round)
def _round(node: exp.Round, scope: Scope) -> Term:
    operand, digits = scope(node.this), scope(node.args.get("decimals") or exp.Literal.number(0)).get(())
    return strict(lambda number: half_up(number, digits), [operand], _rounded_type(operand.type, digits))


def _rounded_type(kind: SqlType, digits: int) -> SqlType:
    if kind.kind != "decimal" or digits < 0:
        return kind
    scale = min(kind.scale, digits)
    return decimal(min(kind.precision - kind.scale + 1 + scale, MAX_PRECISION), scale)


@builds(exp.Bracket)
def _bracket(node: exp.Bracket, scope: Scope) -> Term:
    place = node.expressions[0]
    if isinstance(place, exp.Literal) and place.is_string:
        return field_of(scope(node.this), place.name)
    pick = element_at if node.args.get("offset") == 1 else item
    return strict(pick, [scope(node.this), scope(place)], UNKNOWN)
