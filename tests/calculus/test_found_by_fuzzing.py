"""Cases that the fuzzer found and made small: each was a fault once."""

from __future__ import annotations

from collections import Counter

import pytest

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, ExceptAll, IntersectAll, Project, Scan
from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import check


@pytest.mark.parametrize("operator", [IntersectAll, ExceptAll])
def test_a_row_that_one_side_gains_and_the_other_loses_is_touched(
    operator: type[IntersectAll] | type[ExceptAll],
) -> None:
    """The two changes cancel as bags, the two sides do not."""
    left = Scan("s", At.NEW, (Column("x#1", "int"),), ("x",))
    right = Project(
        Scan("r", At.NEW, (Column("y#2", "int"),), ("y",)), (Named(Column("one#3", "int"), read_text("1", "int")),)
    )
    before = {"s": Counter[tuple[int]](), "r": Counter({(7,): 2})}
    database = Database.changed({"s": ("x",), "r": ("y",)}, before, {"s": Counter({(1,): 1}), "r": Counter({(7,): -1})})
    check(operator(left, right), database, frozenset(("s", "r")))
