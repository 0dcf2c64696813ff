"""The views that may answer a query, in a state of the lake: those that reflect the versions of what they read, and those that
are behind and can be brought up to date for the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from nabla._cached import cached_property, once
from nabla.algebra.clock import Instant
from nabla.algebra.nodes import Recursion
from nabla.answer.answers import ViewIndex
from nabla.answer.reasons import Reason
from nabla.answer.stored_view import StoredView
from nabla.engine import types
from nabla.engine.spark.meaning import Settings
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import LOST, is_derived
from nabla.lake.objects.sources import current_version, table_of
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.facts import PinnedVersions, RefreshInputs, moments_of
from nabla.planner.estimates import WORK_ROWS_PER_SECOND
from nabla.storage.catalog import Entry, LakeState

MOST_FRUITLESS = 1000


@dataclass(eq=False)
class Candidates:
    """The views of one state of the lake as matching sees them."""

    context: LakeContext
    state: LakeState
    fruitless: set[str] = field(default_factory=set)
    """Texts of queries that no view answers in this state: nobody looks again."""
    _registered: dict[str, int] = field(default_factory=dict)

    def note_fruitless(self, text: str) -> None:
        if len(self.fruitless) < MOST_FRUITLESS:
            self.fruitless.add(text)

    def for_one_answer(self) -> Candidates:
        """The same candidates, with the versions that registered tables have when they are first asked for."""
        own = Candidates(self.context, self.state)
        own.__dict__.update(views=self.views, unsuited=self.unsuited, usable=self.usable)
        return own

    def version(self, name: str) -> int:
        """The version of a table or view in this state. Others write to registered tables."""
        entry = self.state.entries[name]
        if entry.kind != "registered":
            return entry.parts["data"].version
        if name not in self._registered:
            self._registered[name] = current_version(self.context.log, entry)
        return self._registered[name]

    def rows(self, name: str) -> int:
        entry = self.state.entries[name]
        known = entry.facts.get("rows")
        return int(known) if known is not None else table_of(self.context.log, entry).snapshot(self.version(name)).rows

    @cached_property
    def views(self) -> dict[str, View]:
        """All views of the state."""
        views = (load_view(e.name, e.definition) for e in self.state.entries.values() if e.kind == "view")
        return {view.name: view for view in views}

    @cached_property
    def unsuited(self) -> dict[str, str]:
        """The views whose plans do not say what their rows are, each with the reason."""
        reasons = {name: _unsuited(view) for name, view in self.views.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @cached_property
    def usable(self) -> dict[str, View]:
        """The views whose plans say what their rows are."""
        return {name: view for name, view in self.views.items() if name not in self.unsuited}

    @cached_property
    def read_by_views(self) -> frozenset[str]:
        """The names, in lower case, of all that a usable view reads."""
        return frozenset(source.lower() for view in self.usable.values() for source in view.sources)

    def is_current(self, name: str) -> bool:
        """Whether a view reflects the versions that its sources have."""
        reflected = self.state.entries[name].facts["sources"]
        try:
            return all(reflected.get(s) == self.version(s) for s in self.usable[name].sources)
        except NablaError:  # a registered table is away
            return False

    def can_catch_up(self, name: str) -> bool:
        """Whether a view that is behind can be read as it would be now. It must not read another view that is behind: the query
        may read that one as it is."""
        for source in self.usable[name].sources:
            entry = self.state.entries[source]
            if is_derived(entry) and not (
                source in self.usable and self.is_current(source) and self.can_catch_up(source)
            ):
                return False
        return True

    def stored(self, name: str) -> StoredView:
        """A view as matching sees it; kept, since reading its plan as a block takes longer than a match."""
        return once(self.usable[name], _as_stored)

    def near(self, tables: Iterable[str]) -> list[str]:
        """Usable views that may answer a query of these tables, directly or through other views."""
        return [name for name in self.reading(tables) if name in self.usable]

    def reading(self, tables: Iterable[str]) -> list[str]:
        """All views that read one of these tables, directly or through other views."""
        reached, found = set(tables), dict[str, None]()
        grown = True
        while grown:
            more = [n for n, v in self.views.items() if n not in found and not reached.isdisjoint(v.sources)]
            found |= dict.fromkeys(more)
            reached.update(more)
            grown = bool(more)
        return list(found)

    def settings_differ(self, name: str, settings: Settings) -> bool:
        return bool(self.usable[name].settings) and self.usable[name].settings != settings

    def age(self, name: str) -> float:
        """The seconds since a view was last brought up to date."""
        return time.time() - float(self.state.entries[name].facts.get("refreshed", 0.0))

    def pending_seconds(self, name: str) -> float | None:
        """The estimated time to compute what a view lacks; None if it cannot be computed now."""
        entry, view = self.state.entries[name], self.usable[name]
        if any(version == LOST for version in entry.facts["sources"].values()):
            return None
        moments = moments_of(view, entry, Instant.now)
        try:
            sources = PinnedVersions(self.context.log, self.state).sources(entry, self.state)
            plan = RefreshInputs(view, entry, sources, moments, self.context.is_cold(name)).plan("auto")
        except NablaError:
            return None
        estimate = plan.full if plan.mode == "full" else plan.incremental
        return estimate.seconds if estimate is not None else 0.0


def _unsuited(view: View) -> str | None:
    """Why the rows of a view are not compared with a query; None if they are. Those of a recursion do not follow from its plan
    alone."""
    if view.rules or view.recursive or any(isinstance(node, Recursion) for node in view.plan.walk()):
        return "it is made by rules or by recursion"
    if view.nested:
        return "it is a nested view"
    if view.functions:
        return "it calls a Python function"
    if view.clock:
        return "its rows depend on the clock"
    if view.opaque:
        return "it has a part for which there is no algebra"
    return None if _stored_as_computed(view) else "its columns are stored in other types than it computes"


def _stored_as_computed(view: View) -> bool:
    """Whether the view's columns are stored in the types that its plan has. Others, such as intervals, are stored as text."""
    stored = (field.dataType.simpleString() for field in view.schema.fields)
    return all(types.type_of(c.type).simpleString() == kind for c, kind in zip(view.plan.columns, stored, strict=True))


def _as_stored(view: View) -> StoredView:
    return StoredView(view.name, view.plan, view.outputs)


_LAST: WeakKeyDictionary[LakeContext, Candidates] = WeakKeyDictionary()


def candidates_in(context: LakeContext, state: LakeState) -> Candidates:
    """The candidates of a state; those of the last state that was asked for are kept."""
    last = _LAST.get(context)
    if last is None or last.state is not state:
        last = _LAST[context] = Candidates(context, state)
    return last


@dataclass(frozen=True)
class Offered:
    """The views that take part in the search for one answer. `pending` has those that are behind, with the rows that could be
    read in the time that it takes to compute what they lack; `refused` has the reasons why others take no part."""

    index: ViewIndex
    pending: Mapping[str, float]
    refused: tuple[Reason, ...]


def offer(
    candidates: Candidates, tables: Iterable[str], settings: Settings, within: float | None, allow_pending: bool
) -> Offered:
    """The views near some tables that can be read now, or at an age that the caller allows."""
    chosen: list[StoredView] = []
    pending: dict[str, float] = {}
    refused: list[Reason] = []
    for name in candidates.reading(tables):
        if name in candidates.unsuited:
            refused.append(Reason(name, "VIEW", candidates.unsuited[name]))
            continue
        if candidates.settings_differ(name, settings):
            refused.append(Reason(name, "SETTINGS", "it was made under other settings of Spark than the session has"))
            continue
        if not candidates.is_current(name) and not (within is not None and candidates.age(name) <= within):
            seconds = candidates.pending_seconds(name) if allow_pending and candidates.can_catch_up(name) else None
            if seconds is None:
                refused.append(Reason(name, "BEHIND", "its sources have changed since its last refresh"))
                continue
            pending[name] = seconds * WORK_ROWS_PER_SECOND
        chosen.append(candidates.stored(name))
    return Offered(ViewIndex(chosen), pending, tuple(refused))


def versions_of(candidates: Candidates, entry: Entry, fresh: bool) -> dict[str, int]:
    """The versions of tables that a view's rows reflect."""
    found: dict[str, int] = {}
    for source, version in entry.facts.get("sources", {}).items():
        below = candidates.state.entries[source]
        if is_derived(below):
            found |= versions_of(candidates, below, fresh)
        else:
            found[source] = candidates.version(source) if fresh else version
    return found
