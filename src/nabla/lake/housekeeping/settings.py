"""The settings of a lake's housekeeping: whether it happens by itself, and how long history and feeds are kept.

They are in a small file of the lake, so that all processes that use the lake follow them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from nabla.errors import NablaError
from nabla.storage import locations
from nabla.storage.deltalog import corrupt
from nabla.storage.lakelog import LakeLog

SETTING = "NABLA_HOUSEKEEPING"
"""The environment variable that turns automatic housekeeping off for a process: "off"."""
FOREVER: Literal["forever"] = "forever"
_FILE = "_nabla/housekeeping.json"
_FORMAT = 1

Retention = timedelta | Literal["forever"]


@dataclass(frozen=True)
class Housekeeping:
    """`automatic`: refreshes and transactions do a little housekeeping now and then. `history`: how long versions of the lake
    and of its tables can be named after they were replaced. `feeds`: how long changes of views stay in their feeds."""

    automatic: bool = True
    history: Retention = timedelta(days=30)
    feeds: Retention = FOREVER

    def to_dict(self) -> dict[str, Any]:
        return {"automatic": self.automatic, "history": _in_words(self.history), "feeds": _in_words(self.feeds)}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.to_dict().items())


def load_settings(log: LakeLog) -> Housekeeping:
    """The settings of a lake. NABLA_CORRUPT where their file is damaged."""
    path = os.path.join(log.path, _FILE)
    try:
        said = json.loads(locations.read_text(path)) if locations.is_file(path) else {"format": _FORMAT}
        if said["format"] > _FORMAT:
            raise NablaError("NABLA_FORMAT", "newer settings of housekeeping", place=path, remedy="Upgrade Nabla.")
        default = Housekeeping()
        return Housekeeping(
            bool(said.get("automatic", default.automatic)),
            _read(said, "history", default.history),
            _read(said, "feeds", default.feeds),
        )
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise corrupt(path, f"the settings of housekeeping cannot be understood: {error}") from error


def change_settings(
    log: LakeLog, automatic: bool | None, history: Retention | None, feeds: Retention | None
) -> Housekeeping:
    """Change the settings that are given, and tell all of them."""
    known = load_settings(log)
    if automatic is None and history is None and feeds is None:
        return known
    wanted = replace(
        known,
        automatic=known.automatic if automatic is None else automatic,
        history=known.history if history is None else check_retention("history", history),
        feeds=known.feeds if feeds is None else check_retention("feeds", feeds),
    )
    said = {
        "format": _FORMAT,
        "automatic": wanted.automatic,
        "history": _written(wanted.history),
        "feeds": _written(wanted.feeds),
    }
    locations.put_text(os.path.join(log.path, _FILE), json.dumps(said), overwrite=True)
    return wanted


def check_retention(name: str, value: Retention) -> Retention:
    """NABLA_ARGUMENT for less than no time, and for other words than "forever"."""
    is_negative = isinstance(value, timedelta) and value < timedelta(0)
    if is_negative or not (isinstance(value, timedelta) or value == FOREVER):
        raise NablaError(
            "NABLA_ARGUMENT",
            f"{name} cannot be {value!r}",
            place=f"{name}=",
            remedy='Pass a time of zero or more, or "forever".',
        )
    return value


def cutoff(kept: Retention, now: float) -> float | None:
    """The time before which something is old; None if nothing ever is."""
    return now - kept.total_seconds() if isinstance(kept, timedelta) else None


def _read(said: dict[str, Any], name: str, default: Retention) -> Retention:
    value = said.get(name, _written(default))
    if value is not None and not float(value) >= 0:
        raise ValueError(f"{name} is {value}")
    return FOREVER if value is None else timedelta(seconds=float(value))


def _written(kept: Retention) -> float | None:
    return kept.total_seconds() if isinstance(kept, timedelta) else None


def _in_words(kept: Retention) -> str:
    return str(kept) if isinstance(kept, timedelta) else FOREVER
