"""Facts about a view and its sources, from the logs alone: shared by refreshes, `explain`, `status` and the watch.

The decision whether there is anything to do for a view is made here, by `has_moved`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabla._cached import cached_property
from nabla.algebra.clock import EPOCH, Instant, Moments, stored_instant
from nabla.engine.relations import Source
from nabla.errors import NablaError
from nabla.lake.objects.graph import LOST, followed_at_once
from nabla.lake.objects.sources import current_version, make_source
from nabla.lake.objects.view import View, load_view
from nabla.lake.reports import ViewReport
from nabla.planner.choose import choose
from nabla.planner.estimates import Measured, SourceFacts, ViewFacts
from nabla.planner.steps import Mode, Plan
from nabla.storage.catalog import FEED_FROM, HISTORIES, SAME_AS, Entry, LakeState, Part
from nabla.storage.lakelog import LakeLog
from nabla.storage.registered_table import RegisteredTable
from nabla.storage.table import Snapshot

REMEMBERED = 16
"""The number of past refreshes of a view that the planner learns from."""

Now = Callable[[str], Instant]
"""The present moment in a time zone."""


def has_moved(view: View, entry: Entry, versions: Mapping[str, int], moments: Moments) -> bool:
    """Whether a view may differ from its query by now: a source has another version than the one it reflects, or a function
    of the clock that it uses has another value. If not, its refresh is skipped."""
    reflected = entry.facts["sources"]
    moved = any(reflected[name] != version for name, version in versions.items())
    return moved or (bool(view.clock) and moments.moved(view.clock))


def moments_of(view: View, entry: Entry, now: Now) -> Moments:
    """The moment that a view reflects and the present one. The clock is not asked for a view that does not use it."""
    if not view.clock:
        return EPOCH
    reflected = stored_instant(entry.facts.get("clock"))
    present = now(reflected.zone if reflected else "UTC")
    return Moments(reflected or present, present)


def state_snapshots(log: LakeLog, view: View, entry: Entry) -> dict[str, Snapshot]:
    """The tables of a view's hidden states, by the names under which plans scan them."""
    stages = (stage for stage in view.staged.stages if stage.table in entry.parts)
    return {stage.state_table: log.snapshot(entry.parts[stage.table]) for stage in stages}


class PinnedVersions:
    """The versions of sources that views are brought to, one for all views that read a source.

    Tables are pinned to the state `started`, registered ones to the version that they have when the first view asks. Views
    count as they are by then: they may have been refreshed since. `waiting` has, by the name of a view, sources whose changes
    it does not take yet.
    """

    def __init__(self, log: LakeLog, started: LakeState, waiting: Mapping[str, Collection[str]] | None = None) -> None:
        self.started = started
        self._log = log
        self._waiting = waiting or {}
        self._registered: dict[str, int] = {}
        self._shared: dict[tuple[str, int, int], tuple[Part, Source]] = {}

    def version(self, source: str, reader: Entry, state: LakeState) -> int:
        """The version of a source for one of its readers. Readers that follow it at once may be further than the pinned
        state."""
        entry = self.started.entries[source]
        if source in self._waiting.get(reader.name, ()) and reader.facts["sources"][source] != LOST:
            return int(reader.facts["sources"][source])
        if entry.kind == "registered":
            if source not in self._registered:
                self._registered.setdefault(source, current_version(self._log, entry))
            return self._registered[source]
        pinned = entry.kind == "table" and source not in followed_at_once(reader)
        version = (self.started if pinned else state).entries[source].parts["data"].version
        return max(version, int(reader.facts["sources"].get(source, LOST)))  # which may have followed an altered table

    def sources(self, reader: Entry, state: LakeState) -> dict[str, Source]:
        """All that a view reads, between the versions that it reflects and those that it is brought to."""
        reflected = reader.facts["sources"]
        return {
            name: self._source(name, state, reflected[name], self.version(name, reader, state))
            for name in load_view(reader.name, reader.definition).sources
        }

    def _source(self, name: str, state: LakeState, old: int, new: int) -> Source:
        """A source between two versions. Views that read the same change of a table share it, and what they read of it."""
        entry = state.entries[name]
        if entry.kind not in ("table", "registered"):
            return make_source(self._log, name, state, old, new)
        part, source = self._shared.get((name, old, new), (None, None))
        if source is None or part != entry.parts["data"]:
            source = make_source(self._log, name, state, old, new)
            self._shared[name, old, new] = entry.parts["data"], source
        return source


class StaleViews:
    """The views that have moved, or read one that has, in the state that versions are pinned to; with `among`, only these
    are looked at. Every view is looked at once, however many others read it. Copies behind their sources are `moved`."""

    def __init__(
        self,
        versions: PinnedVersions,
        among: Collection[str] | None = None,
        now: Now = Instant.now,
        moved: Collection[str] = (),
    ) -> None:
        self._versions = versions
        self._moved = moved
        self._among = among
        self._now = now
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._is_stale(self._versions.started.entries[name])
        return self._known[name]

    def _is_stale(self, entry: Entry) -> bool:
        if not entry.facts.get("sources") or (self._among is not None and entry.name not in self._among):
            return False
        view = load_view(entry.name, entry.definition)
        versions = {name: self.version(name, entry) for name in view.sources}
        if not versions.keys().isdisjoint(self._moved):
            return True
        return has_moved(view, entry, versions, moments_of(view, entry, self._now)) or any(s in self for s in versions)

    def version(self, source: str, reader: Entry) -> int:
        """The version of a source for one of its readers. A table that is away has not moved as far as anybody can tell."""
        try:
            return self._versions.version(source, reader, self._versions.started)
        except NablaError as error:
            if error.code != "NABLA_AWAY":
                raise
            return int(reader.facts["sources"][source])


@dataclass(frozen=True, eq=False)
class RefreshInputs:
    """All that the refresh of a view depends on: its stored entry, its sources between two versions, and the clock.

    `cold` says that this process has not computed the view yet.
    """

    view: View
    entry: Entry
    sources: Mapping[str, Source]
    moments: Moments
    cold: bool

    def plan(self, mode: Mode) -> Plan:
        """The plan of the refresh. Where nothing has moved, the sources are not looked at: they may not be there."""
        if self.entry.definition["layout"] != self.view.layout:
            raise _other_layout(self.view)
        versions = {name: source.new for name, source in self.sources.items()}
        if mode != "full" and not has_moved(self.view, self.entry, versions, self.moments):
            return Plan(self.view.name, "skip", "no source changed", ())
        return choose(self.facts, self.view.staged, mode, self.view.derive)

    @cached_property
    def facts(self) -> ViewFacts:
        """The sizes of sources and changes and the past measurements, from which the planner chooses."""
        found, must_rebuild = [], ""
        for name, source in self.sources.items():
            facts, reason = _source_facts(name, source)
            found.append(facts)
            must_rebuild = reason or must_rebuild
        stored = self.entry.facts
        past = past_refreshes(self.entry)
        rows, clock_moved = stored.get("rows", 0), bool(self.view.clock) and self.moments.moved(self.view.clock)
        if self.view.asked and rows:
            must_rebuild = must_rebuild or "it is violated already, and violations may have gone"
        obstacles = self.view.obstacles
        return ViewFacts(self.view.name, rows, tuple(found), past, obstacles, must_rebuild, self.cold, clock_moved)


def past_refreshes(entry: Entry) -> tuple[Measured, ...]:
    """The refreshes of a view that the planner learns from, oldest first."""
    past = entry.facts.get("past", ())
    return tuple(Measured(**{**one, "changed": tuple(one.get("changed", ()))}) for one in past)


def _source_facts(name: str, source: Source) -> tuple[SourceFacts, str]:
    """The facts of a source, and why a view that reads it must be recomputed, if it must."""
    if source.old == LOST:
        foreign = isinstance(source.table, RegisteredTable)
        why = "NABLA_REPLACED: {} was replaced by another table" if foreign else "{} was built again"
        return SourceFacts(name, source.after.rows, 0, 0, True), why.format(name)
    if source.feed is None and source.old < source.table.schema_since:
        return SourceFacts(name, source.after.rows, 0, 0, True), f"{name} was altered"
    changed, deleted, gone, must_rebuild = 0, 0, False, ""
    try:
        changed = source.changed_rows
        gone = source.past_is_gone
        # Changes are counted without their signs; the growth of the table tells how many of them are deletions.
        deleted = min(changed, max(0, changed - (source.after.rows - source.before.rows) + 1) // 2)
    except NablaError as error:
        if error.code != "NABLA_VERSION_GONE":
            raise
        must_rebuild = f"{error.code}: {error.message} (source {name})"
    moved = source.old != source.new
    facts = SourceFacts(name, source.after.rows, changed - deleted, deleted, moved, source.after.bytes, gone)
    return facts, must_rebuild


def _other_layout(view: View) -> NablaError:
    return NablaError(
        "NABLA_LAYOUT",
        "this version of Nabla keeps the view's hidden state in another form",
        place=f'view "{view.name}"',
        remedy="Create the view again with rebuild=True.",
    )


def view_record(
    facts: Mapping[str, Any],
    report: ViewReport,
    rows: int,
    seconds: float,
    sources: Mapping[str, Source],
    cold: bool,
) -> dict[str, Any]:
    """The facts that the lake stores with a view after a refresh, the measurement of that refresh among them: `seconds` are
    those that its mode has taken."""
    past = _latest([*facts.get("past", ()), measurement(report.mode, seconds, sources, cold)])
    lasting = {fact: facts[fact] for fact in (FEED_FROM, SAME_AS) if fact in facts}
    if histories := {n: s.table.fingerprint(s.new) for n, s in sources.items() if isinstance(s.table, RegisteredTable)}:
        lasting[HISTORIES] = histories
    new = {"sources": report.sources, "rows": rows, "last": report.brief(), "past": past, "refreshed": time.time()}
    return lasting | new


def measurement(mode: str, seconds: float, sources: Mapping[str, Source], cold: bool) -> dict[str, Any]:
    """A refresh as the planner remembers it."""
    return {
        "mode": mode,
        "seconds": seconds,
        "changed_rows": sum(s.changed_rows for s in sources.values()) if mode != "full" else 0,
        "source_rows": sum(s.after.rows for s in sources.values()),
        "cold": cold,
        "changed": sorted(name for name, s in sources.items() if s.changed_rows) if mode != "full" else [],
    }


def _latest(past: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last full refreshes and the last others, in the order in which they were made."""
    places: dict[bool, list[int]] = {True: [], False: []}
    for place, one in enumerate(past):
        places[one["mode"] == "full"].append(place)
    return [past[place] for place in sorted(places[True][-REMEMBERED:] + places[False][-REMEMBERED:])]


def clock_record(view: View, now: Instant) -> dict[str, Any]:
    """The moment that a view reflects, if it reads the clock."""
    return {"clock": now.to_json()} if view.clock else {}
