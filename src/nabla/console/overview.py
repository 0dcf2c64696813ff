"""The lake at a glance: every table, view, rule and constraint with its freshness, size and costs. From logs alone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from nabla.console.commits import Commits
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import sources_of
from nabla.lake.reports import Status
from nabla.lake.status import lake_status
from nabla.storage.catalog import Entry

Freshness = Literal["source", "fresh", "stale", "problem"]
LOOK_AGAIN = 3.0
"""Seconds after which the lake is looked at again although it has no new version: registered tables and the clock move on
without one."""


@dataclass(frozen=True)
class LakeObject:
    """A table, view, rule or constraint. `freshness` is its colour. `mode`, `seconds` and `recompute` are those of the last
    refresh; `inserted` and `deleted` those of the last change; times are in seconds since 1970."""

    name: str
    kind: str
    program: str
    freshness: Freshness
    rows: int | None
    version: int
    updated: float | None
    when: str
    mode: str
    reason: str
    seconds: float | None
    recompute: float | None
    inserted: int
    deleted: int
    sources: tuple[str, ...]
    obstacles: tuple[str, ...]
    problem: str

    @property
    def is_derived(self) -> bool:
        return self.kind in ("view", "rule", "constraint")

    @property
    def state(self) -> str:
        """Its freshness in words."""
        if self.kind == "constraint":
            return "violated" if self.freshness == "problem" else "holds"
        return {"source": "table", "fresh": "fresh", "stale": "stale", "problem": "cannot be read"}[self.freshness]

    def to_dict(self) -> dict[str, Any]:
        """The object for the browser, which has its reason on its own page."""
        return {**vars(self), "state": self.state, "reason": ""}


@dataclass(frozen=True)
class Overview:
    """A lake at one of its versions."""

    path: str
    version: int
    objects: Mapping[str, LakeObject]

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(one.kind for one in self.objects.values()))

    @property
    def stale(self) -> list[LakeObject]:
        return [one for one in self.objects.values() if one.freshness == "stale"]

    def readers(self, name: str) -> list[str]:
        """The objects that read an object."""
        return [one.name for one in self.objects.values() if name in one.sources]

    def to_dict(self) -> dict[str, Any]:
        """The graph for the browser: nodes, and edges from what is read to its readers."""
        return {
            "version": self.version,
            "nodes": [one.to_dict() for one in self.objects.values()],
            "edges": [
                {"from": source, "to": one.name, "rows": self.objects[source].inserted + self.objects[source].deleted}
                for one in self.objects.values()
                for source in one.sources
                if source in self.objects
            ],
        }


class Overviews:
    """Gives the newest overview, and looks again only if the lake may have changed. Threads may share it."""

    def __init__(self, context: LakeContext, commits: Commits) -> None:
        self._context = context
        self._commits = commits
        self._lock = threading.Lock()
        self._known: Overview | None = None
        self._looked = 0.0
        self._stays = False

    def now(self) -> Overview:
        with self._lock:
            version = self._context.log.state().version
            known = self._known
            young = self._stays or time.monotonic() - self._looked < LOOK_AGAIN
            if known is None or known.version != version or not young:
                known = self._known = self._look()
                self._looked = time.monotonic()
            return known

    def _look(self) -> Overview:
        state = self._context.log.state()
        statuses = lake_status(self._context)
        self._stays = not any(entry.kind == "registered" or "clock" in entry.facts for entry in state.entries.values())
        changes = self._commits.last_changes()
        changed = {name: (change.inserted, change.deleted) for name, change in changes.items()}
        make = partial(_object, changed=changed)
        found = {name: make(state.entries[name], one) for name, one in statuses.items() if name in state.entries}
        return Overview(self._context.path, state.version, found)


def _object(entry: Entry, status: Status, changed: Mapping[str, tuple[int, int]]) -> LakeObject:
    last = entry.facts.get("last") or {}
    rules = entry.definition.get("rules") or {}
    inserted, deleted = changed.get(entry.name, (0, 0))
    refreshed = entry.facts.get("refreshed")
    made = status.updated.timestamp() if status.updated else None
    return LakeObject(
        name=entry.name,
        kind="rule" if rules and entry.kind == "view" else entry.kind,
        program=str(rules.get("name", "")),
        freshness=_freshness(entry, status),
        rows=status.rows,
        version=status.version,
        updated=max((t for t in (made, refreshed) if t), default=None),
        when=status.when,
        mode=str(last.get("mode", "")),
        reason=str(last.get("reason", "")),
        seconds=last.get("seconds"),
        recompute=(last.get("estimates") or {}).get("full"),
        inserted=inserted,
        deleted=deleted,
        sources=tuple(sorted(sources_of(entry))),
        obstacles=status.obstacles,
        problem=status.problem,
    )


def _freshness(entry: Entry, status: Status) -> Freshness:
    if status.problem or (entry.kind == "constraint" and status.rows):
        return "problem"
    if entry.kind in ("table", "registered"):
        return "source"
    return "stale" if status.stale else "fresh"
