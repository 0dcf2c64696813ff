"""Functions of arrays that take a lambda: a variable is a cell that is filled before the body is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from nabla.algebra.expressions import Apply, Expr, Lambda
from nabla.algebra.reference.evaluator.compiler import Scope, builds, field_name
from nabla.algebra.reference.evaluator.terms import Get, Term, strict
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Struct, Truth, Value
from nabla.algebra.types import ARRAY, BOOLEAN


def _lambda(e: Expr, scope: Scope) -> Callable[[Any], Callable[[Value], Value]]:
    """A lambda of one variable, as a function of the row and then of the value."""
    if not isinstance(e, Lambda) or len(e.variables) != 1:
        raise CannotEvaluate(f"{e} as a lambda of one variable")
    name, cell = e.variables[0].name, [None]
    hidden = scope.variables.get(name)
    scope.variables[name] = cell
    body = scope(e.body).get
    if hidden is None:
        del scope.variables[name]
    else:
        scope.variables[name] = hidden

    def bound(row: Any) -> Callable[[Value], Value]:
        def call(value: Value) -> Value:
            cell[0] = value
            return body(row)

        return call

    return bound


def _over_array(e: Apply, scope: Scope, apply: Callable[[tuple[Value, ...], Callable[[Value], Value]], Value]) -> Get:
    array, function = scope(e.arguments[0]).get, _lambda(e.arguments[1], scope)

    def get(row: Any) -> Value:
        values = array(row)
        return None if values is None else apply(values, function(row))

    return get


@builds("ArrayTransform")
def _transform(e: Apply, scope: Scope) -> Term:
    return Term(_over_array(e, scope, lambda values, call: tuple([call(value) for value in values])), ARRAY)


@builds("ArrayFilter")
def _filter(e: Apply, scope: Scope) -> Term:
    return Term(_over_array(e, scope, lambda values, call: tuple([v for v in values if call(v) is True])), ARRAY)


@builds("ArrayExists")
def _exists(e: Apply, scope: Scope) -> Term:
    def some(values: tuple[Value, ...], call: Callable[[Value], Value]) -> Truth:
        found = [call(value) for value in values]
        return True if True in found else None if None in found else False

    return Term(_over_array(e, scope, some), BOOLEAN)


@builds("ArraysZip")
def _arrays_zip(e: Apply, scope: Scope) -> Term:
    """Fields are named as the fields that the arrays are made of, or by their place."""
    names = [field_name(array) or str(place) for place, array in enumerate(e.arguments)]

    def zipped(*arrays: tuple[Value, ...]) -> Value:
        return tuple([Struct.of(names, values) for values in zip_longest(*arrays)])

    return strict(zipped, scope.all(e.arguments), ARRAY)
