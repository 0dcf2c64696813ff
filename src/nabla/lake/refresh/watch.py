"""The loop of `nabla watch`: looks at the sources of a lake, refreshes stale views, and calls subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nabla._arguments import accepts
from nabla.errors import NablaError, wrong_argument
from nabla.lake.constraints.violations import Violated
from nabla.lake.context import HasContext
from nabla.lake.objects.graph import read_through, with_upstream
from nabla.lake.objects.origins import copies_in
from nabla.lake.refresh.facts import PinnedVersions, StaleViews
from nabla.lake.refresh.follow import follow_sources
from nabla.lake.refresh.propagate import propagate_views, propagating_views
from nabla.lake.refresh.refresh import refresh_views, views_to_refresh
from nabla.lake.refresh.waits import Waits
from nabla.lake.reports import ViewReport
from nabla.planner.steps import Mode, check_mode
from nabla.storage.catalog import ORIGIN, Entry, LakeState
from nabla.storage.copied_table import PIECES

PATIENCE = 60.0
"""A refresh that fails is tried again after a while that doubles up to so many seconds."""

COMPARED_EVERY = 60.0
"""Seconds between two comparisons of a source that does not tell its changes; more, where one takes long."""

Wait = Callable[[float], bool]
"""Waits for so many seconds, or until somebody wants the watch to end: then the answer is true."""


def _nothing(_: object) -> None:
    pass


@dataclass
class Watch:
    """Watches the views named, with all views that they read, or all. One view that cannot be refreshed stops no other."""

    lake: HasContext
    views: Sequence[str] = ()
    mode: Mode = "auto"
    interval: float = 1.0
    refreshed: Callable[[ViewReport], object] = _nothing
    failed: Callable[[NablaError], object] = _nothing
    _failures: int = field(default=0, init=False)
    _looked: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not hasattr(self.lake, "context"):
            raise wrong_argument("lake", self.lake, "a lake that nabla.open gave")
        if not accepts(Sequence[str], self.views):
            raise wrong_argument("views", self.views, "a list of names")
        for name in ("refreshed", "failed"):
            if not callable(getattr(self, name)):
                raise wrong_argument(name, getattr(self, name), "a function")
        if not accepts(int | float, self.interval) or not self.interval >= 0:
            raise wrong_argument("interval", self.interval, "a number of seconds")
        check_mode(self.mode)

    def run(self, wait: Wait, seconds: float | None = None) -> None:
        """Watch until `wait` ends it, or for a number of seconds; a refresh that has begun is finished."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            self.turn()
            pause = min(self.interval * 2.0 ** min(self._failures, 16), max(self.interval, PATIENCE))
            if end is not None:
                pause = min(pause, end - time.monotonic())
            if pause <= 0 or wait(pause):
                return

    def turn(self) -> bool:
        """Look once and refresh the stale views; true if all of that worked."""
        try:
            followed = self._follow()
            due = self._due()
            worked = not due or self._refresh(tuple(due), due)
            worked = self._propagate(due) and worked and followed
            self.lake.context.subscriptions.deliver()  # somebody else may have refreshed
        except NablaError as error:
            self.failed(error)
            worked = False
        self._failures = 0 if worked else self._failures + 1
        return worked

    def _follow(self) -> bool:
        """Bring copies of sources up to date; true if all of that worked."""
        context = self.lake.context
        state = context.log.state()
        copies = copies_in(state, read_through(self._watched(state), state))
        with context.events.run("refresh"):
            errors = follow_sources(context, [entry.name for entry in copies if self._is_looked_at(entry)])
        for error in errors.values():
            self.failed(error)
        return not errors

    def _is_looked_at(self, entry: Entry) -> bool:
        """Whether to look at a source now: one that takes all rows to compare is looked at now and then."""
        now = time.monotonic()
        pause = 0.0 if PIECES in entry.parts else max(COMPARED_EVERY, 20 * entry.facts[ORIGIN]["last"]["seconds"])
        if now - self._looked.get(entry.name, -pause) < pause:
            return False
        self._looked[entry.name] = now
        return True

    def _due(self) -> dict[str, frozenset[str]]:
        """The stale views that have to be refreshed now, each with the sources whose changes wait for another time."""
        context = self.lake.context
        state = context.log.state()
        waits = Waits(context.log, state, StaleViews(PinnedVersions(context.log, state)))
        found = {name: waits.waiting_sources(state.entries[name]) for name in self._watched(state)}
        return {name: waiting for name, waiting in found.items() if waiting is not None}

    def _refresh(self, names: tuple[str, ...], waiting: Mapping[str, frozenset[str]]) -> bool:
        try:
            reports = refresh_views(self.lake.context, names, self.mode, self._progress, waiting)
            for report in reports.held:
                if report.violations:
                    self.failed(Violated(report.violations, remedy=f"{report.name} stays as it was."))
        except NablaError as error:
            if len(names) > 1:
                worked = [self._refresh((name,), waiting) for name in names]
                return all(worked)
            self.failed(error)
            return False
        return not reports.held

    def _propagate(self, due: Collection[str]) -> bool:
        """Compute ahead the changes of views that may still wait; true if all of that worked."""
        context, worked = self.lake.context, True
        state = context.log.state()
        stale = StaleViews(PinnedVersions(context.log, state))
        for name in propagating_views(state):
            if name in due or name not in stale or (self.views and name not in self._watched(state)):
                continue
            try:
                for report in propagate_views(context, (name,)).values():
                    self._progress(report)
            except NablaError as error:
                self.failed(error)
                worked = False
        return worked

    def _watched(self, state: LakeState) -> list[str]:
        """The views that were named with all that they read, or all that a refresh would bring up to date."""
        named = [self.lake.context.names(state).entry(n, "view").name for n in self.views]
        return with_upstream(named, state) if named else views_to_refresh(state)

    def _progress(self, report: ViewReport) -> None:
        if report.mode not in ("skip", "held"):
            self.refreshed(report)
