"""The benchmark of deferral policies gives a line for each, over views that are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from nabla.dev.bench.deferral import Load, Outcome, Round, compare, section


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_policy_is_measured_over_an_exact_view(tmp_path: Path) -> None:
    said: list[str] = []
    [found] = compare(Load(orders=1_000, transactions=2, rows=10, rounds=1), tmp_path, said.append, ["ahead"])
    assert found.ahead > 0
    assert found.total > found.ahead + found.refresh
    assert len(said) == 2


def test_the_rounds_are_shown_by_their_medians() -> None:
    rounds = [Round(0.1, 0.2, 0.3, 0.6), Round(0.2, 0.0, 0.1, 0.3), Round(0.3, 0.1, 0.2, 0.6)]
    outcome = Outcome.of("ahead", rounds)
    assert (outcome.transaction, outcome.ahead, outcome.refresh, outcome.total) == (0.2, 0.1, 0.2, 0.6)
    assert "ahead" in section([outcome]).text()
