"""Which changes may still wait: a view collects those of its sources for some time, or until there are enough of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nabla.algebra.clock import Instant
from nabla.errors import NablaError
from nabla.lake.objects.graph import LOST
from nabla.lake.objects.sources import make_source, table_of
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.facts import StaleViews, moments_of
from nabla.lake.refresh.schedule import awaited_rows, freshness
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog


@dataclass(frozen=True)
class Waits:
    """The changes that wait in a state of the lake, and whether the schedules of views let them wait longer."""

    log: LakeLog
    state: LakeState
    stale: StaleViews

    def waiting_sources(self, entry: Entry) -> frozenset[str] | None:
        """The sources whose changes a view leaves for later if it is refreshed now; None if it need not be refreshed."""
        if entry.name not in self.stale:
            return None
        maintain = entry.definition.get("maintain", "deferred")
        if isinstance(maintain, str):
            return frozenset() if self._is_due(entry, maintain) else None
        sources = load_view(entry.name, entry.definition).sources
        due = {source for source in sources if self._is_source_due(entry, source, maintain.get(source, "deferred"))}
        return frozenset(sources) - due if due or self._clock_moved(entry) else None

    def _is_due(self, entry: Entry, schedule: str) -> bool:
        """Whether a view with one schedule for all of its sources has to be refreshed now."""
        if (most := awaited_rows(schedule)) is not None:
            return sum(self._changed_rows(entry, source, most) for source in entry.facts["sources"]) >= most
        target = freshness(schedule)
        return target is None or time.time() - entry.facts.get("refreshed", 0.0) >= target

    def _is_source_due(self, entry: Entry, source: str, schedule: str) -> bool:
        """Whether the change of one source may wait no longer. A view that is stale itself counts for schedules that are
        neither a time nor a number of rows: it is refreshed first."""
        if (most := awaited_rows(schedule)) is not None:
            return self._changed_rows(entry, source, most) >= most
        if (target := freshness(schedule)) is not None:
            return self._waiting_seconds(entry, source) >= target
        return source in self.stale or self.stale.version(source, entry) != entry.facts["sources"][source]

    def _changed_rows(self, entry: Entry, source: str, most: int) -> int:
        """The changed rows of a source that a view has not taken, from the logs. A view that has to be recomputed anyhow has
        nothing to wait for: `most` is the number of rows that it would wait for."""
        reflected = entry.facts["sources"][source]
        if reflected == LOST:
            return most
        try:
            return make_source(self.log, source, self.state, reflected, self.stale.version(source, entry)).changed_rows
        except NablaError as error:
            if error.code != "NABLA_VERSION_GONE":
                raise
            return most

    def _waiting_seconds(self, entry: Entry, source: str) -> float:
        """The seconds since the first change of a source that a view has not taken; -1 if there is none."""
        reflected = entry.facts["sources"][source]
        if reflected == LOST:
            return float("inf")
        if reflected == self.stale.version(source, entry):
            return -1.0
        committed = table_of(self.log, self.state.entries[source]).timestamp(reflected + 1)  # 0 if its log is gone
        return time.time() - committed / 1000

    def _clock_moved(self, entry: Entry) -> bool:
        view = load_view(entry.name, entry.definition)
        return bool(view.clock) and moments_of(view, entry, Instant.now).moved(view.clock)
