"""Random histories of writes keep the laws; more of them with `python -m nabla.dev.testing.fuzz_writes`."""

from __future__ import annotations

import pytest

from nabla.dev.testing.fuzz_writes import check
from nabla.dev.testing.write_histories import Tally


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_tables_are_what_was_written_and_changes_what_they_differ_by() -> None:
    tally = Tally()
    for seed in range(5):
        check(seed, tally, operations=5)
    assert tally.histories == 5
    assert min(tally.commits, tally.refused, tally.deaths, tally.reverts, tally.marked) > 0, tally
