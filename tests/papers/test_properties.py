"""A slice of what `python -m nabla.dev.testing.fuzz_papers` tries; all of it with HYPOTHESIS_PROFILE=ci."""

from __future__ import annotations

import os

import pytest

from nabla.dev.testing.fuzz_papers import CASES, main, try_property
from nabla.dev.testing.paper_properties import PROPERTIES

ALL_CASES = os.environ.get("HYPOTHESIS_PROFILE") == "ci"


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_claim_of_the_papers_holds(name: str) -> None:
    cases = CASES.get(name, 10_000) if ALL_CASES else 15
    tried = try_property(name, cases, first=0 if ALL_CASES else 20_000)
    assert not tried.failures
    assert tried.cases == cases


def test_a_false_claim_is_reported_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def even(seed: int) -> None:
        assert seed % 2 == 0, "odd"

    monkeypatch.setitem(PROPERTIES, "even", even)
    assert main(["even", "--cases", "3"]) == 1
    assert "even                   3 cases, 1 false" in (text := capsys.readouterr().out)
    assert "  seed 1: AssertionError: odd" in text
