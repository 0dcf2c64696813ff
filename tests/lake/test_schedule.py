"""How soon a view follows, in words."""

from __future__ import annotations

import pytest

from nabla.errors import NablaError
from nabla.lake.refresh.schedule import check_schedule, freshness


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 minutes", 300),
        ("1 minute", 60),
        ("30 seconds", 30),
        ("0.5 hours", 1800),
        ("1 day", 86_400),
        (" 2 Days ", 172_800),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert freshness(text) == seconds
    assert check_schedule(text) == text


@pytest.mark.parametrize("text", ["often", "5", "minutes", "5 fortnights", "", "-1 minutes", "5 minutes ago"])
def test_what_is_no_time_is_refused(text: str) -> None:
    assert freshness(text) is None
    with pytest.raises(NablaError, match="NABLA_MAINTAIN"):
        check_schedule(text)


@pytest.mark.parametrize("word", ["immediate", "deferred", "manual"])
def test_words_are_no_times(word: str) -> None:
    assert check_schedule(word) == word
    assert freshness(word) is None
