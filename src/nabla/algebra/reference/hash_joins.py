"""The interpreter with joins by hashing: the same results as its loops, for more rows than a handful."""

from __future__ import annotations

from collections.abc import Iterator

from nabla.algebra.equalities import equality_of
from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Join
from nabla.algebra.reference.evaluator import Row
from nabla.algebra.reference.evaluator.exact import exact_type
from nabla.algebra.reference.interpreter import Bag, Run, all_true


class HashRun(Run):
    """Looks up rows of the right side by the columns that a join equates; what else it asks is tested on each pair."""

    def pairs(self, node: Join, left: Bag, right: Bag) -> Iterator[tuple[Row, Row]]:
        keys = {conjunct: pair for conjunct in node.on if (pair := _equated(node, conjunct)) is not None}
        return self._hashed(node, left, right, keys) if keys else super().pairs(node, left, right)

    def _hashed(
        self, node: Join, left: Bag, right: Bag, keys: dict[Expr, tuple[int, int]]
    ) -> Iterator[tuple[Row, Row]]:
        ours, theirs = [i for i, _ in keys.values()], [j for _, j in keys.values()]
        never_null = [place for place, conjunct in enumerate(keys) if not conjunct.null_safe]
        matches: dict[Row, list[Row]] = {}
        for row in right:
            key = tuple([row[j] for j in theirs])
            if not any(key[place] is None for place in never_null):
                matches.setdefault(key, []).append(row)
        rest = tuple(c for c in node.on if c not in keys)
        passes = all_true(rest, node.left.columns + node.right.columns) if rest else None
        for row in left:
            for other in matches.get(tuple([row[i] for i in ours]), ()):
                if passes is None or passes(row + other):
                    yield row, other


def _equated(node: Join, conjunct: Expr) -> tuple[int, int] | None:
    """The places, left and right, of the two columns of the same type that a conjunct equates."""
    found = equality_of(node, conjunct)
    if found is None or found.columns is None or found.left.type != found.right.type:
        return None
    if not exact_type(found.left.type):
        return None  # equal for Python need not be equal for Spark
    one, other = found.columns
    return [c.name for c in node.left.columns].index(one), [c.name for c in node.right.columns].index(other)
