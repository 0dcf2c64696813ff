"""Functions of arrays that take a lambda: a variable is a cell that is filled before the body is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from nabla.algebra.reference.evaluator.compiler import Scope, builds
from nabla.algebra.reference.evaluator.terms import Get, Term, strict
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Struct, Truth, Value, sorting_key
from nabla.algebra.types import ARRAY, BOOLEAN, UNKNOWN


@builds(exp.Identifier)
def _variable(node: exp.Identifier, scope: Scope) -> Term:
    if node.name not in scope.variables:
        raise CannotEvaluate(f"{node.name} is not a variable of a lambda around it")
    cell = scope.variables[node.name]
    return Term(lambda row: cell[0], UNKNOWN)


def _lambda(node: exp.Expr, scope: Scope) -> Callable[[Any], Callable[[Value], Value]]:
    """A lambda of one variable, as a function of the row and then of the value."""
    if not isinstance(node, exp.Lambda) or len(node.expressions) != 1:
        raise CannotEvaluate(f"{node.sql('spark')} as a lambda of one variable")
    name, cell = node.expressions[0].name, [None]
    hidden = scope.variables.get(name)
    scope.variables[name] = cell
    body = scope(node.this).get
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


def _over_array(
    node: exp.Expr, scope: Scope, apply: Callable[[tuple[Value, ...], Callable[[Value], Value]], Value]
) -> Get:
    array, function = scope(node.this).get, _lambda(node.expression, scope)

    def get(row: Any) -> Value:
        values = array(row)
        return None if values is None else apply(values, function(row))

    return get


@builds(exp.Transform)
def _transform(node: exp.Transform, scope: Scope) -> Term:
    return Term(_over_array(node, scope, lambda values, call: tuple([call(value) for value in values])), ARRAY)


@builds(exp.ArrayFilter)
def _filter(node: exp.ArrayFilter, scope: Scope) -> Term:
    return Term(
        _over_array(node, scope, lambda values, call: tuple([v for v in values if call(v) is True])),
        ARRAY,
    )


@builds(exp.Exists)
def _exists(node: exp.Exists, scope: Scope) -> Term:
    if node.expression is None:
        raise CannotEvaluate(f"a subquery: {node.sql('spark')}")

    def some(values: tuple[Value, ...], call: Callable[[Value], Value]) -> Truth:
        found = [call(value) for value in values]
        return True if True in found else None if None in found else False

    return Term(_over_array(node, scope, some), BOOLEAN)


@builds(exp.Flatten)
def _flatten(node: exp.Flatten, scope: Scope) -> Term:
    def flat(arrays: tuple[Value, ...]) -> Value:
        return None if None in arrays else tuple([value for array in arrays for value in array])

    return strict(flat, [scope(node.this)], ARRAY)


@builds(exp.ArraySort)
def _array_sort(node: exp.ArraySort, scope: Scope) -> Term:
    """`sort_array(x)` and `array_sort(x)`; where NULLs are among the elements, the two differ in where they go."""
    nulls_first = node.args.get("nulls_first")
    if node.expression is not None or node.args.get("asc") is not None or not isinstance(nulls_first, exp.Boolean):
        raise CannotEvaluate(node.sql("spark"))
    key = sorting_key(True, bool(nulls_first.this))
    return strict(lambda values: tuple(sorted(values, key=key)), [scope(node.this)], ARRAY)


@builds(exp.ArrayDistinct)
def _array_distinct(node: exp.ArrayDistinct, scope: Scope) -> Term:
    return strict(lambda values: tuple(dict.fromkeys(values)), [scope(node.this)], ARRAY)


@builds(exp.ArraysZip)
def _arrays_zip(node: exp.ArraysZip, scope: Scope) -> Term:
    """Fields are named as the fields that the arrays are made of, or by their place."""
    names = [_field_name(array) or str(place) for place, array in enumerate(node.expressions)]

    def zipped(*arrays: tuple[Value, ...]) -> Value:
        return tuple([Struct.of(names, values) for values in zip_longest(*arrays)])

    return strict(zipped, scope.all(node.expressions), ARRAY)


def _field_name(node: exp.Expr) -> str:
    place = node.expressions[0] if isinstance(node, exp.Bracket) else None
    return place.name if isinstance(place, exp.Literal) and place.is_string else ""
