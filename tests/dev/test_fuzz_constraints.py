"""Constraints checked from the change and from scratch. `python -m nabla.dev.testing.fuzz_constraints` does many more."""

from __future__ import annotations

import pytest

from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing import fuzz_constraints
from nabla.dev.testing.fuzz_constraints import ConstraintTally, Kept, check


@pytest.mark.parametrize("block", range(4))
def test_checks_from_the_change_equal_checks_from_scratch(block: int) -> None:
    tally = ConstraintTally()
    for seed in range(block * 25, block * 25 + 25):
        check(seed, tally)
    assert tally.committed
    assert tally.refused


def test_a_check_that_overlooks_a_change_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(self: Kept, database: Database, changed: frozenset[str]) -> object:
        return self.violations, self.states

    monkeypatch.setattr(Kept, "after", blind)
    assert fuzz_constraints.run(20, 0, ConstraintTally()) > 5
