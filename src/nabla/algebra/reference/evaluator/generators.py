"""Generators: the rows that explode and its like make of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from sqlglot import exp

from nabla.algebra.reference.evaluator.compiler import Scope, children, parse, shape_of, slots_of
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


_GENERATORS: Mapping[type[exp.Expr], Callable[[list[Term]], Generator]] = {
    exp.Explode: _exploded,
    exp.Posexplode: _numbered,
    exp.Inline: _inlined,
    exp.Stack: _stacked,
}


def compile_generator(text: str, layout: Layout) -> Generator:
    shape, names = shape_of(text)
    return _compiled(shape, slots_of(text, names, layout))


@lru_cache(maxsize=1 << 12)
def _compiled(shape: str, slots: tuple[Slot, ...]) -> Generator:
    node = parse(shape)
    # sqlglot derives posexplode from explode, and explode_outer from both: the nearest class says what it is.
    kind = next((kind for kind in type(node).__mro__ if kind in _GENERATORS), None)
    if kind is None:
        raise CannotEvaluate(f"the generator {shape}")
    return _GENERATORS[kind](Scope(slots).all(list(children(node))))
