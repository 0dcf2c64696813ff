"""The equalities of a join: conjuncts that equate an expression over its left side with one over its right side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Join

_INEXACT = ("float", "double")
"""Spark takes -0.0 and 0.0 as equal, others do not."""


@dataclass(frozen=True)
class Equality:
    """An equality. `left` reads only columns of the left side, `right` only columns of the right side; the conjunct may have
    them the other way round."""

    left: Expr
    right: Expr
    null_safe: bool

    @property
    def columns(self) -> tuple[str, str] | None:
        """The names of both columns; None unless both sides are just columns."""
        left, right = self.left.column, self.right.column
        return None if left is None or right is None else (left, right)


def equality(conjunct: Expr, left: Set[str], right: Set[str]) -> Equality | None:
    """The conjunct as an equality between relations with these columns; None if it is something else."""
    for one, other in (conjunct.sides, conjunct.sides[::-1]) if conjunct.sides else ():
        if one.columns <= left and other.columns <= right:
            return Equality(one, other, conjunct.null_safe)
    return None


def equality_of(join: Join, conjunct: Expr) -> Equality | None:
    return equality(conjunct, join.left.names, join.right.names)


def has_equality(join: Join) -> bool:
    """Whether rows of one side can be looked up by values of the other."""
    return any(equality_of(join, conjunct) for conjunct in join.on)


def equal_columns(conjuncts: Iterable[Expr]) -> Iterator[tuple[str, str]]:
    """The pairs of columns that conjuncts equate, of any relations."""
    for conjunct in conjuncts:
        if conjunct.sides is not None:
            one, other = (side.column for side in conjunct.sides)
            if one is not None and other is not None:
                yield one, other


def exactly_equal_columns(join: Join) -> Iterator[tuple[str, str]]:
    """The pairs of columns that the join equates, if they have one type that Spark and others compare alike."""
    for conjunct in join.on:
        found = equality_of(join, conjunct)
        if found is None or found.columns is None or found.left.type != found.right.type:
            continue
        if found.left.type not in _INEXACT:
            yield found.columns
