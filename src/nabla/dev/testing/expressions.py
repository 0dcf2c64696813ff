"""Expressions by their text, for tests."""

from __future__ import annotations

from nabla.algebra.expressions import Expr
from nabla.algebra.parse import read


def read_text(text: str, type_: str, nullable: bool = True, deterministic: bool = True) -> Expr:
    """The expression of a text whose columns have no known types."""
    return read(text, {}, type_, nullable, deterministic)
