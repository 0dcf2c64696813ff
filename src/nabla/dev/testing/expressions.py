"""Expressions by their text: how tests write them."""

from __future__ import annotations

from nabla.algebra.expressions import Expr
from nabla.algebra.parse import read


def read_text(text: str, type_: str, nullable: bool = True, deterministic: bool = True) -> Expr:
    """A text whose columns are not known."""
    return read(text, {}, type_, nullable, deterministic)
