"""Calls of aggregate and window functions, from their parts or from their text.

An aggregate may be written as a whole expression (`CAST(SUM(x) AS BIGINT)`, or percentile_cont with WITHIN GROUP): then
the functions inside are evaluated over the group first, and what is around them over their results.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from nabla.algebra.calls import Call
from nabla.algebra.reference.evaluator.aggregates import AGGREGATES, Aggregation, Weighted, aggregation
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.compiler import Scope, children, compile_expression, parse, shape_of, slots_of
from nabla.algebra.reference.evaluator.terms import Get, Layout, Slot, Term, constant
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Value
from nabla.algebra.types import BIGINT, BOOLEAN, UNKNOWN, SqlType, bounded, parse_type


class Function(NamedTuple):
    """A call as it is written, with the modifiers that stand around it."""

    name: str
    arguments: tuple[Term, ...]
    distinct: bool = False
    ignore_nulls: bool = False
    condition: Get | None = None

    def argument(self, position: int, otherwise: Value) -> Value:
        """One that must be the same for all rows."""
        return self.arguments[position].get(()) if len(self.arguments) > position else otherwise


# What Spark calls the functions that sqlglot has under another name only.
_SPARK_NAMES: dict[type[exp.Expr], str] = {exp.ArrayUniqueAgg: "collect_set", exp.Quantile: "percentile"}


def names_of(node: exp.Expr) -> tuple[str, ...]:
    """The names that a function goes by."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return (str(node.this).lower(),)
    if type(node) in _SPARK_NAMES:
        return (_SPARK_NAMES[type(node)],)
    return tuple(name.lower() for name in node.sql_names()) if isinstance(node, exp.Func) else ()


def function_of(node: exp.Expr, scope: Scope, known: frozenset[str]) -> Function | None:
    """The call that a tree is, if it is one of a known function."""
    condition, ignore_nulls, distinct, order = None, False, False, []
    if isinstance(node, exp.Filter):
        condition, node = scope(node.expression.this).get, node.this
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls, node = isinstance(node, exp.IgnoreNulls), node.this
    if isinstance(node, exp.WithinGroup):
        order, node = [item.this for item in node.expression.expressions], node.this
    name = next((name for name in names_of(node) if name in known), None)
    if name is None:
        return None
    arguments = order + [child for child in children(node) if not isinstance(child, exp.Star)]
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct, arguments = True, arguments[0].expressions
    return Function(name, tuple(scope.all(arguments)), distinct, ignore_nulls, condition)


def window_function(text: str, layout: Layout, known: frozenset[str]) -> Function:
    shape, names = shape_of(text)
    function = function_of(parse(shape), Scope(slots_of(text, names, layout)), known)
    if function is None:
        raise CannotEvaluate(f"the window function {text}")
    return function


def aggregation_of(function: Function) -> Aggregation:
    arguments = function.arguments
    if function.ignore_nulls:
        arguments = (*arguments, constant(True, BOOLEAN))
    return aggregation(function.name, arguments, function.distinct, function.condition)


def compile_aggregate(call: Call, layout: Layout) -> Aggregation:
    """A function of the rows of a group, each with its number of copies."""
    if call.template:
        return _whole_expression(call.template.format(*(a.sql for a in call.arguments)), call, layout)
    arguments = tuple(compile_expression(argument.sql, layout) for argument in call.arguments)
    arguments += (constant(True, BOOLEAN),) if call.ignore_nulls else ()
    found = aggregation(call.function.lower(), arguments, call.distinct, _condition(call, layout))
    if not call.cast:
        return found
    to_type = cast_to(parse_type(call.column.type))

    def aggregate(rows: Weighted) -> Value:
        value = found(rows)
        return None if value is None else to_type(value)

    return aggregate


def _condition(call: Call, layout: Layout) -> Get | None:
    return compile_expression(call.filter.sql, layout).get if call.filter else None


class _GroupScope(Scope):
    """Builds an expression over a group: aggregate functions read the rows, everything else reads their results."""

    def __init__(self, slots: tuple[Slot, ...], condition: Get | None) -> None:
        super().__init__(slots)
        self.rows = Scope(slots)
        self.condition = condition
        self.aggregations: list[Aggregation] = []

    def __call__(self, node: exp.Expr) -> Term:
        function = function_of(node, self.rows, AGGREGATES)
        if function is None:
            return super().__call__(node)
        place = len(self.aggregations)
        self.aggregations.append(aggregation_of(function._replace(condition=function.condition or self.condition)))
        return Term(lambda results: results[place], _result_type(function))


def _result_type(function: Function) -> SqlType:
    """That of sums and counts, which expressions around them go on computing with."""
    if function.name == "count":
        return BIGINT
    if function.name == "sum" and function.arguments[0].type.kind == "decimal":
        kind = function.arguments[0].type
        return bounded(kind.precision + 10, kind.scale)
    return function.arguments[0].type if function.name in ("min", "max") else UNKNOWN


def _whole_expression(text: str, call: Call, layout: Layout) -> Aggregation:
    shape, names = shape_of(text)
    scope = _GroupScope(slots_of(text, names, layout), _condition(call, layout))
    outer = scope(parse(shape)).get

    def aggregate(rows: Weighted) -> Value:
        group = list(rows)
        return outer([aggregation(group) for aggregation in scope.aggregations])

    return aggregate
