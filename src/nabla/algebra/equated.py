"""Which columns a join equates."""

from __future__ import annotations

from collections.abc import Iterator

from nabla.algebra.nodes import Join

_INEXACT = ("float", "double")
"""Spark takes -0.0 and 0.0 as equal, others do not."""


def equated(join: Join) -> Iterator[tuple[str, str]]:
    """The columns of the left and of the right side that the join equates, if equal means the same to all."""
    for conjunct in join.on:
        if conjunct.sides is None:
            continue
        one, other = conjunct.sides[0].column, conjunct.sides[1].column
        if one is None or other is None or conjunct.sides[0].type != conjunct.sides[1].type:
            continue
        if conjunct.sides[0].type in _INEXACT:
            continue
        if one in join.left.names and other in join.right.names:
            yield one, other
        elif other in join.left.names and one in join.right.names:
            yield other, one
