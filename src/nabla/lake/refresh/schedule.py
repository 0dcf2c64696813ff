"""Schedules: a view follows its sources in the same commit, at the next refresh, only when asked, or within some time."""

from __future__ import annotations

import re

from nabla.errors import NablaError

WORDS = ("immediate", "deferred", "manual")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*")


def check_schedule(maintain: str) -> str:
    """Refuse a value of `maintain` that is neither one of the words nor a time."""
    if maintain not in WORDS and freshness(maintain) is None:
        raise NablaError(
            "NABLA_MAINTAIN",
            f"a view cannot be maintained {maintain!r}",
            place="maintain=",
            remedy=f'Use one of {", ".join(WORDS)}, or a time such as "30 seconds" or "5 minutes".',
        )
    return maintain


def freshness(maintain: str) -> float | None:
    """The seconds that a view may be behind; None if `maintain` is a word."""
    match = _TIME.fullmatch(maintain.lower())
    unit = _SECONDS.get(match[2]) if match else None
    return float(match[1]) * unit if match and unit else None
