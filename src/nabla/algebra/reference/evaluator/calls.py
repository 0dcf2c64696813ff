"""Calls of aggregate and window functions."""

from __future__ import annotations

from typing import NamedTuple

from nabla.algebra.calls import Call
from nabla.algebra.reference.evaluator.aggregates import Aggregation, aggregation
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.compiler import compile_expression
from nabla.algebra.reference.evaluator.terms import Get, Layout, Term, constant
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Value
from nabla.algebra.types import BOOLEAN, parse_type

_TEMPLATES = {"percentile_cont": "percentile_cont({1}) WITHIN GROUP (ORDER BY {0})"}
"""How calls are written that say no more than their functions and arguments do."""


class CompiledCall(NamedTuple):
    """A call over rows: the parts of a `Call`, compiled."""

    name: str
    arguments: tuple[Term, ...]
    distinct: bool = False
    ignore_nulls: bool = False
    condition: Get | None = None

    def argument(self, position: int, otherwise: Value) -> Value:
        """One that must be the same for all rows."""
        return self.arguments[position].get(()) if len(self.arguments) > position else otherwise

    @property
    def aggregation(self) -> Aggregation:
        arguments = self.arguments
        if self.ignore_nulls:
            arguments = (*arguments, constant(True, BOOLEAN))
        return aggregation(self.name, arguments, self.distinct, self.condition)


def compile_call(call: Call, layout: Layout) -> CompiledCall:
    name = call.function.lower()
    if call.template not in ("", _TEMPLATES.get(name)):
        raise CannotEvaluate(f"a call that is written {call}")
    arguments = tuple(compile_expression(argument, layout) for argument in call.arguments)
    condition = compile_expression(call.filter, layout).get if call.filter else None
    return CompiledCall(name, arguments, call.distinct, call.ignore_nulls, condition)


def compile_aggregate(call: Call, layout: Layout) -> Aggregation:
    """A function of the rows of a group, each with its number of copies."""
    found = compile_call(call, layout).aggregation
    if not call.cast:
        return found
    to_type = cast_to(parse_type(call.column.type))
    return lambda rows: to_type(found(rows))
