"""Forms that look at NULL themselves instead of passing it on: three-valued logic, CASE, IN, COALESCE and the like."""

from __future__ import annotations

import operator
from typing import Any

from nabla.algebra.expressions import Apply
from nabla.algebra.reference.evaluator.arithmetic import half_up
from nabla.algebra.reference.evaluator.compiler import Scope, builds
from nabla.algebra.reference.evaluator.terms import Term, constant, strict, unified
from nabla.algebra.reference.evaluator.values import (
    Truth,
    Value,
    conjunction,
    disjunction,
    equal,
    null_safe_equal,
    order_key,
)
from nabla.algebra.types import ARRAY, BOOLEAN, MAX_PRECISION, VOID, SqlType, decimal


@builds("And")
def _and(e: Apply, scope: Scope) -> Term:
    left, right = (term.get for term in scope.all(e.arguments))
    return Term(lambda row: False if (x := left(row)) is False else conjunction(x, right(row)), BOOLEAN)


@builds("Or")
def _or(e: Apply, scope: Scope) -> Term:
    left, right = (term.get for term in scope.all(e.arguments))
    return Term(lambda row: True if (x := left(row)) is True else disjunction(x, right(row)), BOOLEAN)


@builds("Not")
def _not(e: Apply, scope: Scope) -> Term:
    return strict(operator.not_, scope.all(e.arguments), BOOLEAN)


@builds("IsNull")
def _is_null(e: Apply, scope: Scope) -> Term:
    operand = scope(e.arguments[0]).get
    return Term(lambda row: operand(row) is None, BOOLEAN)


@builds("IsNotNull")
def _is_not_null(e: Apply, scope: Scope) -> Term:
    operand = scope(e.arguments[0]).get
    return Term(lambda row: operand(row) is not None, BOOLEAN)


@builds("EqualNullSafe")
def _null_safe_equal(e: Apply, scope: Scope) -> Term:
    left, right = (term.get for term in scope.all(e.arguments))
    return Term(lambda row: null_safe_equal(left(row), right(row)), BOOLEAN)


@builds("In")
def _in(e: Apply, scope: Scope) -> Term:
    operand, *members = (term.get for term in scope.all(e.arguments))

    def get(row: Any) -> Truth:
        value = operand(row)
        result: Truth = False
        for member in members:
            result = disjunction(result, equal(value, member(row)))
            if result:
                break
        return result

    return Term(get, BOOLEAN)


@builds("CreateArray")
def _array(e: Apply, scope: Scope) -> Term:
    gets, _ = unified(scope.all(e.arguments))
    return Term(lambda row: tuple([get(row) for get in gets]), ARRAY)


@builds("CaseWhen")
def _case(e: Apply, scope: Scope) -> Term:
    """Conditions and values in turn, then perhaps the value that holds otherwise."""
    terms = scope.all(e.arguments)
    otherwise = terms.pop() if len(terms) % 2 else constant(None, VOID)
    gets, kind = unified([*terms[1::2], otherwise])
    cases, default = list(zip([term.get for term in terms[::2]], gets, strict=False)), gets[-1]

    def get(row: Any) -> Value:
        for condition, branch in cases:
            if condition(row):
                return branch(row)
        return default(row)

    return Term(get, kind)


@builds("Coalesce")
def _coalesce(e: Apply, scope: Scope) -> Term:
    gets, kind = unified(scope.all(e.arguments))

    def get(row: Any) -> Value:
        for branch in gets:
            if (value := branch(row)) is not None:
                return value
        return None

    return Term(get, kind)


@builds("Greatest", "Least")
def _extreme(e: Apply, scope: Scope) -> Term:
    gets, kind = unified(scope.all(e.arguments))
    extreme = max if e.function == "Greatest" else min

    def get(row: Any) -> Value:
        values = [value for branch in gets if (value := branch(row)) is not None]
        return extreme(values, key=order_key) if values else None

    return Term(get, kind)


@builds("Round")
def _round(e: Apply, scope: Scope) -> Term:
    operand, scale = scope.all(e.arguments)
    digits = scale.get(())
    return strict(lambda number: half_up(number, digits), [operand], _rounded_type(operand.type, digits))


def _rounded_type(kind: SqlType, digits: int) -> SqlType:
    if kind.kind != "decimal" or digits < 0:
        return kind
    scale = min(kind.scale, digits)
    return decimal(min(kind.precision - kind.scale + 1 + scale, MAX_PRECISION), scale)
