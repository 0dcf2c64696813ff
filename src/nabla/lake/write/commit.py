"""One commit of the lake: the objects that it changes, and all that must move together with them.

Everything is written first, as files that nobody knows of. Constraints and immediate views are maintained over the old
versions and these files, by the same plans as in any refresh. Then one commit of the lake's log publishes all of it; if
anything fails before that, the files are deleted.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from nabla.engine.relations import Source
from nabla.errors import Conflict
from nabla.lake.constraints.violations import Violated, Violation, violation_of
from nabla.lake.context import LakeContext
from nabla.lake.events import Committed
from nabla.lake.objects.graph import Unit, followed_at_once, moved_with, upstream_units
from nabla.lake.objects.sources import make_source
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.reports import ViewReport
from nabla.planner.steps import Mode
from nabla.storage import locations, machine
from nabla.storage.boundary import PUBLICATIONS
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.files import DataFile
from nabla.storage.lake_commit import new_transaction
from nabla.storage.machine import current
from nabla.storage.uncommitted import Lease, Uncommitted

_LOG = logging.getLogger("nabla")

T = TypeVar("T")


MOST_ATTEMPTS = 200
"""The number of attempts to do work on top of other writers' commits. A writer can get the right to go first, so they
are enough for as many writers as a lake will ever have."""
PATIENT_ATTEMPTS = 4
"""After so many attempts a writer lets all others wait until it is through."""
LONGEST_PAUSE = 0.5


def retry(context: LakeContext, attempt: Callable[[], T], prepare: Callable[[], None] = lambda: None) -> T:
    """The result of an attempt. After a Conflict it is made again, and `prepare` is called before.

    Writers that met pause for a while, each for another one, so that they do not meet again.
    """
    for number in range(MOST_ATTEMPTS):
        try:
            with context.log.leases.turn(wanted=number >= PATIENT_ATTEMPTS):
                return attempt()
        except Conflict:
            if number == MOST_ATTEMPTS - 1:
                raise
        current().wait(random.uniform(0, min(0.005 * 2**number, LONGEST_PAUSE)))
        prepare()
    raise AssertionError("the last attempt has returned or raised")


class Commit:
    """Changes of the lake's objects on top of the state `base`; `info` is what the history will say of each.

    Use it as a context. Whoever leaves it without having published, for whatever reason, leaves no file behind. Commits of
    one refresh share a `maintenance`; any other has its own.
    """

    def __init__(self, context: LakeContext, base: LakeState, maintenance: Maintenance | None = None) -> None:
        self._context = context
        self._base = base
        self._shared = maintenance is not None
        self._maintenance = maintenance or Maintenance(context)
        self._uncommitted = Uncommitted()
        self._lease: Lease | None = None
        self._transaction = ""
        self._published = False
        self._settled: set[str] = set()
        self.changes: dict[str, Entry | None] = {}
        self.reports: dict[str, ViewReport] = {}
        """Of the views that were built or maintained for this commit."""
        self.info: dict[str, Mapping[str, Any]] = {}

    def __enter__(self) -> Commit:
        self._lease = self._context.log.leases.take()
        self._uncommitted.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._uncommitted.__exit__()
        try:
            with suppress(Exception):  # an error here must not hide the one that led here; the files are vacuumed later
                if not self._is_published():
                    self._uncommitted.discard()
        finally:
            if self._lease is not None:
                self._lease.close()
            if not self._shared:
                self._maintenance.__exit__()

    def take_over(self, uncommitted: Uncommitted) -> None:
        """Delete files that were written earlier, too, if this commit is not published."""
        self._uncommitted.take_over(uncommitted)

    def _is_published(self) -> bool:
        """Ask the log whether the commit was written, which is unknown after an interrupt."""
        tried = bool(self._transaction)
        return tried and (self._published or self._context.log.has(self._transaction, self._base.version))

    @property
    def state(self) -> LakeState:
        """The state of the lake after this commit."""
        return replace(self._base, entries=self._base.changed(self.changes))

    @property
    def moved(self) -> set[str]:
        """The objects whose content this commit changes."""
        return {name for name, entry in self.changes.items() if entry is not None and self._differs(entry)}

    def _differs(self, entry: Entry) -> bool:
        before = self._base.entries.get(entry.name)
        new = entry.parts["data"]
        return before is None or (before.parts["data"].path, before.parts["data"].version) != (new.path, new.version)

    def put(self, entries: Mapping[str, Entry], info: Mapping[str, Mapping[str, Any]]) -> None:
        """Add or replace objects."""
        self.changes |= entries
        self.info |= info
        self._settled |= entries.keys()

    def drop(self, names: Iterable[str]) -> None:
        """Remove objects, unless they are put again."""
        self.changes |= dict.fromkeys(names)

    def outdate(self, entries: Mapping[str, Entry]) -> None:
        """Note objects that stay, but whose sources are built again: those that move at once still have to follow."""
        self.changes |= entries

    def follow(self, followed: Callable[[Entry], AbstractSet[str]] = followed_at_once) -> None:
        """Maintain the views and constraints that follow something that this commit moves, sources first. `followed` gives the
        sources of an object that it follows in this commit; it stays at the versions that it reflects of the others."""
        state = self.state
        for names in upstream_units((n for n, e in state.entries.items() if followed(e)), state):
            first = self.state.entries[names[0]]
            if names[0] not in self._settled and not self.moved.isdisjoint(followed(first)):
                self.maintain(names, self._sources(first, moved_with(first, followed(first))))

    def maintain(
        self, names: Unit, sources: Mapping[str, Source], mode: Mode = "incremental"
    ) -> Mapping[str, ViewReport]:
        """Bring views that are computed together to the versions of their sources, as this commit leaves these."""
        done = self._maintenance.maintain(names, self.state, sources, mode)
        self.put(done.entries, done.info)
        self.reports |= done.reports
        return done.reports

    def _sources(self, entry: Entry, moved: AbstractSet[str]) -> dict[str, Source]:
        """The sources of a view, between the versions that it reflects and, for those that are `moved`, those of this commit. A
        registered table stays where it was: what others write does not become visible by a commit of the lake."""
        state, found = self.state, {}
        for name in load_view(entry.name, entry.definition).sources:
            reflected, source = entry.facts["sources"][name], state.entries[name]
            stays = source.kind == "registered" or name not in moved
            new = reflected if stays else source.parts["data"].version
            found[name] = make_source(self._context.log, name, state, reflected, new)
        return found

    def violations(self) -> tuple[Violation, ...]:
        """The violations of constraints that this commit moves. A new constraint was checked when it was built."""
        moved = (entry for name, entry in self.changes.items() if name in self._base.entries)
        return tuple(self._violation(e) for e in moved if e and e.kind == "constraint" and e.facts["rows"])

    def _violation(self, entry: Entry) -> Violation:
        names, action = tuple(entry.definition["outputs"]), entry.definition["on_violation"]
        new = int(self.info.get(entry.name, {}).get("inserted", 0))
        return violation_of(entry.name, action, names, self._context.log.snapshot(entry.parts["data"]), new)

    def check(self) -> None:
        """Raise Violated where a constraint would not hold; one that only warns is logged."""
        found = self.violations()
        if refused := tuple(v for v in found if v.action != "warn"):
            raise Violated(refused)
        for violation in found:
            if violation.new:
                _LOG.warning("%s", violation)

    def publish(self, operation: str, reads: Collection[str] = ()) -> None:
        """Make it visible in one step. Conflict where an object that it was computed from, those in `reads` included, has
        changed since, or where there is a new one that would have to follow."""
        machine.point("commit.ready")
        moved = self.moved

        def involved(state: LakeState) -> set[str]:
            following = [e for e in state.entries.values() if not moved.isdisjoint(followed_at_once(e))]
            read = (moved_with(e, followed_at_once(e)) for e in following)
            return {*reads, *(e.name for e in following), *(source for sources in read for source in sources)}

        self._transaction = new_transaction()
        after = self._context.log.commit(self.changes, self._base, operation, self.info, involved, self._transaction)
        self._published = True
        dropped = tuple(name for name, entry in self.changes.items() if entry is None)
        said = {name: self.info.get(name, {}) for name in self.changes if name not in dropped}
        self._maintenance.run.tell(Committed, operation, after.version, said, dropped)
        if locations.exists(os.path.join(self._context.path, PUBLICATIONS)):
            from nabla.lake.publish.publish import bring_publications  # which few lakes need

            bring_publications(self._context, self.changes)

    def end_views(self, final: Mapping[str, ViewReport] | None = None) -> None:
        """Tell whoever observes the lake that the views of this commit have their final reports: those of `final`, where it
        has one."""
        for name, report in {**self.reports, **(final or {})}.items():
            entry = self.changes.get(name)
            written = sum(file.bytes for file in _added(entry)) if entry else None
            self._maintenance.run.view_ended(report, entry.facts.get("rows") if entry else None, written)


def _added(entry: Entry) -> tuple[DataFile, ...]:
    """The files that the table of a view gets."""
    pending = entry.parts["data"].pending
    return pending.adds if pending else ()
