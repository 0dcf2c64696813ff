"""Generators: the rows that explode and its like make of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from nabla.algebra.expressions import Apply, Expr
from nabla.algebra.reference.evaluator.compiler import Scope, number_columns, slots_of
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term
from nabla.algebra.reference.evaluator.values import CannotEvaluate, Row

Generator: TypeAlias = Callable[[Any], list[Row]]


def _exploded(arguments: list[Term]) -> Generator:
    array = arguments[0].get
    return lambda row: [(element,) for element in array(row) or ()]


def _numbered(arguments: list[Term]) -> Generator:
    array = arguments[0].get
    return lambda row: list(enumerate(array(row) or ()))


def _inlined(arguments: list[Term]) -> Generator:
    array = arguments[0].get
    return lambda row: [tuple(struct) for struct in array(row) or ()]


def _stacked(arguments: list[Term]) -> Generator:
    """stack(n, …): the values in n rows; what is missing in the last one is NULL."""
    height, gets = arguments[0].get(()), [term.get for term in arguments[1:]]
    width = -(-len(gets) // height)

    def generate(row: Any) -> list[Row]:
        values = [get(row) for get in gets] + [None] * (height * width - len(gets))
        return [tuple(values[i * width : (i + 1) * width]) for i in range(height)]

    return generate


_GENERATORS: Mapping[str, Callable[[list[Term]], Generator]] = {
    "Explode": _exploded,
    "PosExplode": _numbered,
    "Inline": _inlined,
    "Stack": _stacked,
}


def compile_generator(expr: Expr, layout: Layout) -> Generator:
    shape, names = number_columns(expr)
    return _compiled(shape, slots_of(expr, names, layout))


@lru_cache(maxsize=1 << 12)
def _compiled(shape: Expr, slots: tuple[Slot, ...]) -> Generator:
    if not isinstance(shape, Apply) or shape.function not in _GENERATORS:
        raise CannotEvaluate(f"the generator {shape}")
    return _GENERATORS[shape.function](Scope(slots).all(shape.arguments))
