"""Expressions evaluated in plain Python as Spark does it, for the interpreter and for small questions of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from nabla.algebra.expressions import Expr
from nabla.algebra.parse import parse
from nabla.algebra.parse.reader import Unreadable
from nabla.algebra.reference.evaluator import lambdas as _lambdas  # noqa: F401  (registers its forms)
from nabla.algebra.reference.evaluator import logic as _logic  # noqa: F401  (registers its forms)
from nabla.algebra.reference.evaluator.calls import compile_aggregate
from nabla.algebra.reference.evaluator.compiler import compile_expression
from nabla.algebra.reference.evaluator.generators import compile_generator
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term
from nabla.algebra.reference.evaluator.values import NAN, CannotEvaluate, Row, SparkWouldFail, Struct, Value, row_key
from nabla.algebra.reference.evaluator.windows import compile_window, sorted_places
from nabla.algebra.types import UNKNOWN, SqlType, parse_type

__all__ = [
    "NAN",
    "CannotEvaluate",
    "Layout",
    "Row",
    "Slot",
    "SparkWouldFail",
    "SqlType",
    "Struct",
    "Term",
    "Value",
    "compile_aggregate",
    "compile_expression",
    "compile_generator",
    "compile_window",
    "evaluate_expression",
    "named_layout",
    "parse_type",
    "read_expression",
    "row_key",
    "sorted_places",
]


def named_layout(row: Mapping[str, Value], types: Mapping[str, str] | None = None) -> dict[str, Slot]:
    """The layout of rows that are dicts. Types matter where they decide a value: the digits of a decimal quotient."""
    known = types or {}
    return {name: Slot(name, parse_type(known[name]) if name in known else UNKNOWN) for name in row}


def read_expression(text: str, types: Mapping[str, str] | None = None) -> Expr:
    """Spark SQL text as a tree that the evaluator knows."""
    return _read(text, tuple((types or {}).items()))


@lru_cache(maxsize=1 << 14)
def _read(text: str, types: tuple[tuple[str, str], ...]) -> Expr:
    try:
        return parse(text, {name: (kind, True) for name, kind in types})
    except Unreadable as error:
        raise CannotEvaluate(str(error)) from None


def evaluate_expression(text: str, row: Mapping[str, Value], types: Mapping[str, str] | None = None) -> Value:
    """The value of Spark SQL text for a row."""
    return compile_expression(read_expression(text, types), named_layout(row, types)).get(row)
