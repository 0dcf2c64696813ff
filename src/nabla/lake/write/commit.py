"""What a commit would make of the lake, before it is made: tables, and all that must move together with them.

Everything is written first, as files that nobody knows of. Constraints and immediate views are maintained over the old
versions and these files, by the same plans as in any refresh. Then one commit of the lake's log makes all of it true, or
the files are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from nabla.engine.relations import Source
from nabla.errors import Conflict
from nabla.lake.constraints.violations import Violated, Violation, violation_of
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import sources_of, units
from nabla.lake.objects.sources import make_source
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.maintain import Maintenance, Moved
from nabla.storage import faults, pending_table
from nabla.storage.catalog import Entry, LakeState

_LOG = logging.getLogger("nabla")

Wanted = Callable[[Entry], bool]
T = TypeVar("T")


def retried(attempt: Callable[[], T], times: int, again: Callable[[], None] = lambda: None) -> T:
    """What an attempt gives. Where somebody else committed first it is made again, after `again`, so many times in all."""
    for _ in range(times - 1):
        try:
            return attempt()
        except Conflict:
            again()
    return attempt()


def at_once(entry: Entry) -> bool:
    """Whether something moves in the same commit as what it reads: constraints and immediate views do."""
    return entry.kind == "constraint" or (entry.kind == "view" and entry.definition.get("maintain") == "immediate")


class Proposal:
    """Changes of the lake's entries on top of the state `base`."""

    def __init__(self, context: LakeContext, base: LakeState, maintenance: Maintenance) -> None:
        self._context = context
        self._base = base
        self._maintenance = maintenance
        self._settled: set[str] = set()
        self.changes: dict[str, Entry | None] = {}
        self.info: dict[str, Mapping[str, Any]] = {}

    @property
    def state(self) -> LakeState:
        """The lake as it would be."""
        return replace(self._base, entries=self._base.changed(self.changes))

    @property
    def moved(self) -> set[str]:
        """What would have another content."""
        return {name for name, entry in self.changes.items() if entry is not None and self._differs(entry)}

    def _differs(self, entry: Entry) -> bool:
        before = self._base.entries.get(entry.name)
        new = entry.parts["data"]
        return before is None or (before.parts["data"].path, before.parts["data"].version) != (new.path, new.version)

    def put(self, entries: Mapping[str, Entry], info: Mapping[str, Mapping[str, Any]]) -> None:
        """Entries as they are to be."""
        self.changes |= entries
        self.info |= info
        self._settled |= entries.keys()

    def outdate(self, entries: Mapping[str, Entry | None]) -> None:
        """Entries that go, or whose sources were built again."""
        self.changes |= entries

    def follow(self, wanted: Wanted = at_once) -> None:
        """Bring all that is wanted and reads something that moved to where that would be, sources first."""
        state = self.state
        for names in units((n for n, e in state.entries.items() if wanted(e)), state):
            first = self.state.entries[names[0]]
            if wanted(first) and names[0] not in self._settled and not self.moved.isdisjoint(sources_of(first)):
                moved = self._brought(names)
                self.put(moved.entries, moved.info)

    def _brought(self, names: tuple[str, ...]) -> Moved:
        state = self.state
        entry = state.entries[names[0]]
        sources = {name: self._source(name, entry, state) for name in load_view(names[0], entry.definition).sources}
        return self._maintenance.bring(names, state, sources, "incremental")

    def _source(self, name: str, entry: Entry, state: LakeState) -> Source:
        """What others write does not become visible by a commit of the lake: a registered table stays where it was."""
        reflected, source = entry.facts["sources"][name], state.entries[name]
        new = reflected if source.kind == "registered" else source.parts["data"].version
        return make_source(self._context.log, name, state, reflected, new)

    def violations(self) -> tuple[Violation, ...]:
        """What the constraints that would move find, if anything."""
        state = self.state
        changed = (state.entries[name] for name in self.changes if name in state.entries)
        found = (self._violation(entry) for entry in changed if entry.kind == "constraint" and entry.facts["rows"])
        return tuple(found)

    def _violation(self, entry: Entry) -> Violation:
        names, action = tuple(entry.definition["outputs"]), entry.definition["on_violation"]
        new = int(self.info.get(entry.name, {}).get("inserted", 0))
        return violation_of(entry.name, action, names, self._context.log.snapshot(entry.parts["data"]), new)

    def check(self) -> None:
        """Raises Violated where a constraint is in the way; one that only warns is logged."""
        found = self.violations()
        if refused := tuple(v for v in found if v.action != "warn"):
            raise Violated(refused)
        for violation in found:
            if violation.new:
                _LOG.warning("%s", violation)

    def commit(self, operation: str, reads: Collection[str] = ()) -> LakeState:
        """Make it true, unless what it was computed from has changed, or something new would have to follow."""
        faults.point("proposal.ready")
        moved = self.moved

        def involved(state: LakeState) -> set[str]:
            following = [e for e in state.entries.values() if at_once(e) and not moved.isdisjoint(sources_of(e))]
            return {*reads, *(e.name for e in following), *(s for e in following for s in sources_of(e))}

        return self._context.log.commit(self.changes, self._base, operation, self.info, involved)

    def discard(self) -> None:
        """Drop the files of what will not be committed."""
        log = self._context.log
        for entry in self.changes.values():
            if entry is not None:
                pending_table.discard(entry, {name: log.folder(part) for name, part in entry.parts.items()})
