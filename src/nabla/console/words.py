"""Numbers, times and sizes as people read them."""

from __future__ import annotations

import datetime
import time
from typing import SupportsFloat

from nabla.explain.text import size

_STEPS = ((60, "second"), (60, "minute"), (24, "hour"), (7, "day"), (52, "week"))

__all__ = ["ago", "moment", "number", "plural_of", "seconds", "short", "size", "times"]


def number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def short(value: int | None) -> str:
    """A number in at most four characters or so: 1.2 M."""
    if value is None:
        return "–"
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if abs(value) >= limit:
            scaled = value / (1000 if unit == "k" else limit)
            return f"{scaled:.0f} {unit}" if abs(scaled) >= 10 else f"{scaled:.1f} {unit}"
    return f"{value:,}"


def seconds(value: SupportsFloat | None) -> str:
    """A duration with two significant digits or so."""
    if value is None:
        return "–"
    amount = float(value)
    if abs(amount) < 1:
        return f"{amount * 1000:.0f} ms"
    if abs(amount) < 60:
        return f"{amount:.1f} s" if abs(amount) < 10 else f"{amount:.0f} s"
    minutes, rest = divmod(round(abs(amount)), 60)
    sign = "−" if amount < 0 else ""
    return f"{sign}{minutes} min {rest} s" if minutes < 60 else f"{sign}{minutes // 60} h {minutes % 60} min"


def ago(at: float | None, now: float | None = None) -> str:
    """How long ago a moment was."""
    if at is None:
        return "never"
    past = max(0.0, (time.time() if now is None else now) - at)
    if past < 5:
        return "just now"
    amount, unit = past, "second"
    for step, name in _STEPS:
        unit = name
        if amount < step:
            break
        amount /= step
    else:
        unit = "year"
    whole = int(amount)
    return f"{whole} {unit}{'' if whole == 1 else 's'} ago"


def moment(at: float | None) -> str:
    """A moment for a machine and for a tooltip: ISO 8601, UTC."""
    if at is None:
        return ""
    return (
        datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    )


def times(recompute: float | None, taken: float | None) -> str:
    """How many times faster a refresh was than recomputing."""
    if not recompute or not taken:
        return ""
    factor = recompute / taken
    return f"{factor:,.0f}×" if factor >= 10 else f"{factor:.1f}×"


def plural_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
