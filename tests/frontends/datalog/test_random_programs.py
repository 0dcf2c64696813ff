"""Random programs, facts and changes against naive evaluation. `python -m nabla.dev.testing.fuzz_programs` does many more."""

from __future__ import annotations

from random import Random

import pytest

from nabla.dev.testing.fuzz_programs import ProgramTally, check
from nabla.dev.testing.random_programs import random_program


@pytest.mark.parametrize("block", range(4))
def test_random_programs_are_exact_and_minimal(block: int) -> None:
    tally = ProgramTally()
    for seed in range(block * 5, (block + 1) * 5):
        check(random_program(Random(seed)), Random(seed), tally)
    assert tally.programs == 5
    assert tally.changed_predicates > 0


def test_random_programs_have_what_they_are_meant_to_test() -> None:
    texts = "\n".join(random_program(Random(seed)).text for seed in range(60))
    for feature in ("not ", "!", "count : {", "sum", " mod 4", "_", '"a"', " != ", "p0b("):
        assert feature in texts
