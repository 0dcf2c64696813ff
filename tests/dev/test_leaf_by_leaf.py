"""The measurement of one table after the other against all at once."""

from __future__ import annotations

import pytest

from nabla.algebra.nodes import JoinKind
from nabla.dev.bench.leaf_by_leaf import measure


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_both_ways_give_the_same_rows_and_leaf_by_leaf_has_a_pair_for_each_table(kind: JoinKind) -> None:
    at_once, by_leaf = measure(kind, tables=3, rows=40, changes=10, rounds=1)
    assert (at_once.pairs, by_leaf.pairs) == (1, 3)
    assert by_leaf.rows >= at_once.rows > 0
