"""The commits of a lake as the console shows them: refreshes with their costs, and the last change of every object.

A commit never changes, so each is read once. Looking again costs one file for every commit since.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nabla.storage.lake_history import Record
from nabla.storage.lakelog import LakeLog

MOST_COMMITS = 2000
"""Commits that are looked at, the newest ones."""


@dataclass(frozen=True)
class PastRefresh:
    """A refresh of a view or constraint that was committed. `recompute` are the seconds that the planner expected of
    recomputing it then, if it did; `at` is the time of the commit in seconds since 1970."""

    view: str
    mode: str
    reason: str
    operation: str
    inserted: int
    deleted: int
    seconds: float
    version: int
    lake_version: int
    at: float
    recompute: float | None = None

    @property
    def changed(self) -> int:
        return self.inserted + self.deleted

    @property
    def began(self) -> float:
        return self.at - self.seconds

    @property
    def is_build(self) -> bool:
        """Whether it made the view: there was nothing to maintain, and nothing to save."""
        return self.reason == "built"

    @property
    def saved(self) -> float | None:
        """The seconds that maintaining took less than recomputing was expected to, negative if more. Unknown for a view that
        was recomputed, and for commits of versions that did not note the estimate."""
        return self.recompute - self.seconds if self.mode == "incremental" and self.recompute is not None else None


@dataclass(frozen=True)
class LastChange:
    """The newest commit that changed the rows of an object: how many, and when (seconds since 1970)."""

    inserted: int
    deleted: int
    at: float

    @property
    def rows(self) -> int:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class Savings:
    """Refreshes together: how many there were, the seconds they took, and what those took less than recomputing whose
    expected cost is known (`known` of them)."""

    refreshes: int
    maintained: int
    seconds: float
    known: int
    recompute: float
    saved: float


class Commits:
    """The newest commits of a lake. Threads may share it."""

    def __init__(self, log: LakeLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        """The newest commits first."""
        with self._lock:
            known = self._records[0].version if self._records else -1
            new = []
            for record in self._log.history(None, MOST_COMMITS):
                if record.version <= known:
                    break
                new.append(record)
            self._records = (new + self._records)[:MOST_COMMITS]
            return list(self._records)

    def refreshes(self, view: str | None = None) -> list[PastRefresh]:
        """The refreshes of all views and constraints, or of one, newest first."""
        return [
            _refresh(name, said, record)
            for record in self.records()
            for name, said in record.objects.items()
            if "mode" in said and (view is None or name == view)
        ]

    def last_changes(self) -> dict[str, LastChange]:
        """The newest change of the rows of each object."""
        found: dict[str, LastChange] = {}
        for record in self.records():
            for name, said in record.objects.items():
                inserted, deleted = _count(said.get("inserted")), _count(said.get("deleted"))
                if name not in found and inserted + deleted:
                    found[name] = LastChange(inserted, deleted, record.timestamp / 1000)
        return found


def total(refreshes: Iterable[PastRefresh]) -> Savings:
    """What refreshes took, and what was saved. Views that were built are left out."""
    kept = [one for one in refreshes if not one.is_build]
    known = [one for one in kept if one.saved is not None]
    return Savings(
        len(kept),
        sum(one.mode == "incremental" for one in kept),
        sum(one.seconds for one in kept),
        len(known),
        sum(one.recompute or 0.0 for one in known),
        sum(one.saved or 0.0 for one in known),
    )


def _refresh(name: str, said: Mapping[str, Any], record: Record) -> PastRefresh:
    estimates = said.get("estimates") or {}
    return PastRefresh(
        name,
        str(said["mode"]),
        str(said.get("reason", "")),
        record.operation,
        _count(said.get("inserted")),
        _count(said.get("deleted")),
        float(said.get("seconds") or 0.0),
        int(said.get("version", -1)),
        record.version,
        record.timestamp / 1000,
        float(estimates["full"]) if "full" in estimates else None,
    )


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int) else 0
