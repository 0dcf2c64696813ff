"""Dates moved by intervals."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping
from datetime import date, timedelta

from nabla.algebra.reference.evaluator.values import SparkWouldFail


def _months(day: date, n: int) -> date:
    """The same day of another month, or its last one if that is earlier."""
    year, month = divmod(day.year * 12 + day.month - 1 + n, 12)
    if not 1 <= year <= 9999:
        raise SparkWouldFail(f"{day} moved by {n} months")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _days(day: date, n: int) -> date:
    try:
        return day + timedelta(days=n)
    except OverflowError:
        raise SparkWouldFail(f"{day} moved by {n} days") from None


MOVES: Mapping[str, Callable[[date, int], date]] = {
    "YEAR": lambda day, n: _months(day, 12 * n),
    "MONTH": _months,
    "DAY": _days,
}
