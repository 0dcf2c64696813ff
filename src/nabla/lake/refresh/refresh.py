"""Bringing views up to date: layer by layer, one commit for each view and all that must move with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from nabla.errors import NablaError, NotIncremental
from nabla.lake.alter.follow_registered import check_readable, follow_registered
from nabla.lake.constraints.violations import Violated
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.turns import take_turn
from nabla.lake.objects.graph import Job, layers, reads_others, sources_of, with_upstream
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.facts import PinnedVersions, StaleViews
from nabla.lake.refresh.follow import follow_sources
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.reports import RefreshReport, ViewReport
from nabla.lake.trust import UNTRUSTED
from nabla.lake.write.commit import Commit, retry
from nabla.planner.steps import Mode, check_mode
from nabla.storage.catalog import LOST_COLUMNS, LakeState

PARALLEL = 4
UNREADABLE = ("NABLA_AWAY", "NABLA_SCHEMA_CHANGED")
"""Errors of a registered table that keep the views that read it from being refreshed, and no others."""

Progress = Callable[[ViewReport], None]


def views_to_refresh(state: LakeState) -> list[str]:
    """The views that `lake.refresh()` without names brings up to date, and the constraints over registered tables: other
    constraints move in the same commit as their sources."""
    views = [n for n, e in state.entries.items() if e.kind == "view" and e.definition.get("maintain") != "manual"]
    registered = {n for n, e in state.entries.items() if e.kind == "registered"}
    checked = [n for n, e in state.entries.items() if e.kind == "constraint" and registered & sources_of(e)]
    return views + checked


def refresh_views(
    context: LakeContext,
    names: Sequence[str],
    mode: Mode,
    progress: Progress | None = None,
    waiting: Mapping[str, Collection[str]] | None = None,
) -> RefreshReport:
    """Bring the views named, or all but the manual ones, up to date, and call the callbacks of those that changed. Sources
    that are `waiting`, by the name of a view, stay at the versions that it reflects."""
    check_mode(mode)
    state = context.log.state()
    wanted = [context.names(state).entry(n, "view", "constraint").name for n in names] or views_to_refresh(state)
    try:
        with context.events.run("refresh", wanted):
            follows = reads_others(state)
            away = follow_sources(context, with_upstream(wanted, state) if names else None) if follows else {}
            if registered := _registered(with_upstream(wanted, state), state):
                follow_registered(context, registered)
            refresh = Refresh(context, mode, holds_unreadable=not names, waiting=waiting, away=away)
            report = refresh.run(wanted, progress)
    finally:
        if context.subscriptions.active:
            context.subscriptions.deliver()
    take_turn(context, state.version, [r.name for r in report.values() if r.mode not in ("skip", "held")])
    return report


def _registered(views: Iterable[str], state: LakeState) -> list[str]:
    """The registered tables that views read."""
    read = {source for name in views for source in sources_of(state.entries[name])}
    return sorted(name for name in read if state.entries[name].kind == "registered")


class Refresh:
    """One call of `lake.refresh`: all views see their sources at the same versions, which are registered with Spark once.

    With `holds_unreadable`, views over a registered table that is away or has lost columns are held back as those that would
    violate a constraint are; without it, their error is raised. Sources that are `away` have an error already, by name.
    """

    def __init__(
        self,
        context: LakeContext,
        mode: Mode,
        *,
        holds_unreadable: bool,
        waiting: Mapping[str, Collection[str]] | None = None,
        away: Mapping[str, NablaError] | None = None,
    ) -> None:
        self.away = away or {}
        self.context = context
        self.log = context.log
        self.mode = mode
        self.holds_unreadable = holds_unreadable
        self.started = self.log.state()
        self.versions = PinnedVersions(self.log, self.started, waiting)
        self.maintenance = Maintenance(context)
        self.held: set[str] = set()
        self.untrusted: NablaError | None = None

    def run(self, names: Iterable[str], progress: Progress | None = None) -> RefreshReport:
        reports: dict[str, ViewReport] = {}
        wanted = with_upstream(names, self.started)
        if self.mode == "strict":
            self._refuse_obstacles(wanted)
        lease = self.log.leases.take()  # views of a layer leave files for those of the next one
        with self.maintenance, closing(lease):
            for layer in layers(wanted, self.started):
                for report in self._layer(layer):
                    reports[report.name] = report
                    if progress is not None:
                        progress(report)
        if self.untrusted is not None:  # after all views that need no code of this lake
            raise self.untrusted
        return RefreshReport({name: reports[name] for name in wanted})

    def _layer(self, layer: list[Job]) -> Iterator[ViewReport]:
        """Refresh jobs that do not read each other side by side."""
        if len(layer) == 1:
            yield from self._job(layer[0])
            return
        failure: BaseException | None = None
        with ThreadPoolExecutor(min(PARALLEL, len(layer))) as pool:
            for running in [pool.submit(self._job, job) for job in layer]:
                try:
                    yield from running.result()
                except BaseException as error:
                    failure = failure or error
        if failure is not None:  # after those that could be refreshed have been reported
            raise failure

    def _refuse_obstacles(self, names: list[str]) -> None:
        """Raise NotIncremental, before anything is written, where a view that has to be refreshed cannot be maintained."""
        stale = StaleViews(self.versions, names, self.maintenance.now)
        for name in names:
            view = load_view(name, self.started.entries[name].definition)
            if view.obstacles and name in stale:
                first = view.obstacles[0]
                raise NotIncremental(first.code, first.what, place=f'view "{name}", {first.place}', remedy=first.remedy)

    def _job(self, job: Job) -> list[ViewReport]:
        try:
            return retry(self.context, lambda: self._attempt(job))
        except BaseException as error:  # other jobs go on
            self.maintenance.run.views_failed(error, [name for unit in job for name in unit])
            raise

    def _attempt(self, job: Job) -> list[ViewReport]:
        try:
            return self._try(job)
        except NablaError as error:
            if error.code not in UNREADABLE or not self.holds_unreadable:
                raise
            return self._hold(job, self.log.state(), f"{error.code}: {error.message}")

    def _try(self, job: Job) -> list[ViewReport]:
        begun = time.perf_counter()
        state = self.log.state()
        reports: dict[str, ViewReport] = {}
        with Commit(self.context, state, self.maintenance) as commit:
            for names in job:
                now = commit.state
                entry = now.entries[names[0]]
                view = load_view(names[0], entry.definition)
                if any(now.entries[source].definition.get(LOST_COLUMNS) for source in view.sources):
                    check_readable(view, now)
                if waiting := sorted(self.held.intersection(view.sources)):
                    return self._hold(job, state, f"waits for {', '.join(waiting)}, which is held back")
                if cause := next((self.away[name] for name in sorted(view.sources) if name in self.away), None):
                    if not self.holds_unreadable:
                        raise cause
                    if cause.code == UNTRUSTED:
                        self.untrusted = self.untrusted or cause
                    return self._hold(job, state, f"{cause.code}: {cause.message} ({cause.place})")
                try:
                    reports |= commit.maintain(names, self.versions.sources(entry, now), self.mode)
                except NablaError as error:
                    if error.code != UNTRUSTED:
                        raise
                    self.untrusted = self.untrusted or error
                    return self._hold(job, state, error.message)
            if commit.changes:
                commit.follow()
                try:
                    commit.check()
                except Violated as violated:
                    return self._hold(job, state, violated.message, violated)
                commit.publish("refresh")
            seconds = round(time.perf_counter() - begun, 4)
            reports = {name: replace(report, seconds=seconds) for name, report in reports.items()}
            commit.end_views(reports)
        return [*reports.values()]

    def _hold(self, job: Job, state: LakeState, reason: str, violated: Violated | None = None) -> list[ViewReport]:
        """Report that the views of a job stay at their last good version, and remember it for the views that read them."""
        names = [name for unit in job for name in unit]
        self.held |= set(names)
        found = violated.violations if violated else ()
        entries = (state.entries[name] for name in names)
        reports = [
            ViewReport(e.name, "held", reason, 0, 0, 0.0, e.facts["sources"], e.parts["data"].version, violations=found)
            for e in entries
        ]
        for report in reports:
            self.maintenance.run.view_ended(report)
        return reports
