"""Schedules: a view follows its sources in the same commit, at the next refresh, only when asked, within some time, or once
enough of their rows have changed. It may have a schedule for each source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nabla.errors import NablaError

WORDS = ("immediate", "deferred", "manual")
OF_A_SOURCE = ("immediate", "deferred")
"""The words that a schedule of one source may be."""
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*")
_ROWS = re.compile(r"\s*([1-9]\d*)\s*rows?\s*")

Schedule = str | Mapping[str, str]
"""The schedule of a view, or one for each of its sources."""


def check_schedule(maintain: str) -> str:
    """Refuse a value of `maintain` that is neither one of the words, nor a time, nor a number of rows."""
    _check(maintain, WORDS, "maintain=")
    return maintain


def check_source_schedules(maintain: Mapping[str, str], sources: Sequence[str], detached: bool) -> dict[str, str]:
    """The schedules of single sources under the names that these have. Each has to be a source of the view."""
    if detached:
        raise NablaError(
            "NABLA_MAINTAIN",
            "a detached view reads auxiliary views instead of its sources, so that these have no schedules",
            place="maintain=",
            remedy="Give one schedule for all, or leave detached=True out.",
        )
    known = {source.casefold(): source for source in sources}
    unknown = [name for name in maintain if name.casefold() not in known]
    if unknown or not maintain:
        raise NablaError(
            "NABLA_MAINTAIN",
            f'the view does not read "{unknown[0]}"' if unknown else "there is no schedule for any source",
            place="maintain=",
            remedy=f"It reads {', '.join(sources)}." if sources else "It reads nothing that could change.",
        )
    for name, schedule in maintain.items():
        _check(schedule, OF_A_SOURCE, f'maintain={{"{name}": …}}')
    return {known[name.casefold()]: schedule for name, schedule in maintain.items()}


def _check(maintain: str, words: Sequence[str], place: str) -> None:
    if maintain not in words and freshness(maintain) is None and awaited_rows(maintain) is None:
        raise NablaError(
            "NABLA_MAINTAIN",
            f"a view cannot be maintained {maintain!r}",
            place=place,
            remedy=f'Use one of {", ".join(words)}, a time such as "5 minutes", or a number of changed rows as in "1000 rows".',
        )


def freshness(maintain: str) -> float | None:
    """The seconds that a view may be behind; None if `maintain` is no time."""
    match = _TIME.fullmatch(maintain.lower())
    unit = _SECONDS.get(match[2]) if match else None
    return float(match[1]) * unit if match and unit else None


def awaited_rows(maintain: str) -> int | None:
    """The changed rows of its sources that a view waits for; None if `maintain` is no number of rows."""
    match = _ROWS.fullmatch(maintain.lower())
    return int(match[1]) if match else None


def in_words(maintain: Schedule) -> str:
    """A schedule for people."""
    return maintain if isinstance(maintain, str) else ", ".join(f"{name}: {one}" for name, one in maintain.items())
