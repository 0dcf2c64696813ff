"""Bringing views up to date: facts, the planner's choice, Spark, and one commit a view."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from nabla.algebra.clock import EPOCH, Instant, Moments, stored_instant
from nabla.building import LOST, clock_record, run_opaque, run_recursive, view_record
from nabla.engine.apply import (
    Applied,
    apply_change,
    apply_large,
    apply_replacement,
    apply_state,
    difference,
    replace_large,
)
from nabla.engine.execute import Execution
from nabla.engine.frames import Sessions, Workspaces
from nabla.engine.metrics import JobGroup
from nabla.engine.relations import Relations, Source
from nabla.engine.results import Result, Rows
from nabla.engine.rounds import sized
from nabla.errors import Conflict, NablaError, NotIncremental
from nabla.planner.choose import Measured, SourceFacts, ViewFacts, choose
from nabla.planner.steps import Mode, Plan
from nabla.results import RefreshReport, ViewReport
from nabla.sources import current_source, make_source, snapshot_of
from nabla.storage import faults, files
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.files import DataFile
from nabla.storage.table import Snapshot
from nabla.views import View, load_view

if TYPE_CHECKING:
    from nabla.lake import Lake

PARALLEL = 4
RETRIES = 5

Progress = Callable[[ViewReport], None]


class Refresh:
    """One call of lake.refresh: the sources are pinned to their versions at its start, and registered with Spark once."""

    def __init__(self, lake: Lake, mode: Mode) -> None:
        self.lake = lake
        self.log = lake._log
        self.mode = mode
        self.started = self.log.state()
        self.pinned = {name: self.log.table(e.parts["data"]).latest() for name, e in self._registered().items()}
        self.workspace = Workspaces(lake._workspace)

    def _registered(self) -> Mapping[str, Entry]:
        return {name: e for name, e in self.started.entries.items() if e.kind == "registered"}

    def run(self, names: Iterable[str], progress: Progress | None = None) -> RefreshReport:
        reports: dict[str, ViewReport] = {}
        wanted = with_upstream(names, self.started)
        if self.mode == "strict":
            self._refuse_obstacles(wanted)
        try:
            for layer in _layers(wanted, self.started):
                for report in self._layer(layer):
                    reports[report.name] = report
                    if progress is not None:
                        progress(report)
        finally:
            self.workspace.__exit__()
        return RefreshReport({name: reports[name] for name in wanted})

    def _layer(self, layer: list[str]) -> Iterator[ViewReport]:
        """Views that do not depend on each other go side by side, views that do in a circle go together."""
        units = _units(layer, self.started)
        if len(units) == 1:
            yield from self.unit(units[0])
            return
        failure: BaseException | None = None
        with ThreadPoolExecutor(min(PARALLEL, len(units))) as pool:
            for running in [pool.submit(self.unit, unit) for unit in units]:
                try:
                    yield from running.result()
                except BaseException as error:
                    failure = failure or error
        if failure is not None:  # after those that could be refreshed have been reported
            raise failure

    def _refuse_obstacles(self, names: list[str]) -> None:
        stale: set[str] = set()
        for name in names:
            entry = self.started.entries[name]
            view = load_view(name, entry.definition)
            if not any(s in stale or self._moved(s, entry) for s in view.sources) and not clock_moved(
                self, view, entry
            ):
                continue
            stale.add(name)
            if view.obstacles:
                first = view.obstacles[0]
                raise NotIncremental(first.code, first.what, place=f'view "{name}", {first.place}', remedy=first.remedy)

    def _moved(self, source: str, entry: Entry) -> bool:
        return self._version(source, self.started) != entry.facts["sources"][source]

    def _version(self, source: str, state: LakeState) -> int:
        """The version of a source that this refresh brings views to: tables as pinned, views as they are by now."""
        if source in self.pinned:
            return self.pinned[source]
        entries = (self.started if self.started.entries[source].kind == "table" else state).entries
        return entries[source].parts["data"].version

    def unit(self, names: tuple[str, ...]) -> list[ViewReport]:
        for attempt in range(RETRIES):
            try:
                return self._attempt(names)
            except Conflict:
                if attempt == RETRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _attempt(self, names: tuple[str, ...]) -> list[ViewReport]:
        begun = time.perf_counter()
        state = self.log.state()
        entries = {name: state.entries[name] for name in names}
        views = {name: load_view(name, entry.definition) for name, entry in entries.items()}
        name = names[0]
        view, entry = views[name], entries[name]
        sources = {s: self.source(s, entry, state) for s in view.sources}
        plan = choose(view_facts(self, view, entry, sources), view.staged, self.mode)
        if plan.mode == "skip":
            seconds = time.perf_counter() - begun
            return [_report(replace(plan, view=n), e, Applied(), seconds, "") for n, e in entries.items()]
        group = JobGroup(lambda: self.lake._spark, f"nabla-{uuid.uuid4().hex[:8]}", f"refresh of {name}")
        try:
            results = self._execute(views, plan, sources, state, group)
            faults.point("refresh.computed")
            applied = {n: self._apply(views[n], plan, results[n], entries[n]) for n in names}
        except PySparkException as error:
            raise self.lake._translated(error, f'refresh of view "{name}"') from None
        seconds, versions = time.perf_counter() - begun, {s: source.new for s, source in sources.items()}
        reports = {}
        for n in names:
            report = _report(replace(plan, view=n), entries[n], applied[n], seconds, group.name)
            report = replace(report, looked_at=results[n].looked_at, rounds=results[n].rounds)
            reports[n] = _with_sources(report, versions, applied[n])
        faults.point("refresh.written")
        self._commit(views, plan, state, applied, reports, sources)
        seconds, jobs = round(time.perf_counter() - begun, 4), group.jobs
        return [replace(report, seconds=seconds, jobs=jobs) for report in reports.values()]

    @cached_property
    def now(self) -> Instant:
        """One moment for all views of this refresh."""
        return Instant.now(self.lake._zone)

    def moments(self, view: View, entry: Entry) -> Moments:
        """Spark's time zone is not asked for where time does not matter."""
        return Moments(stored_instant(entry.facts.get("clock")) or self.now, self.now) if view.clock else EPOCH

    def source(self, name: str, entry: Entry, state: LakeState) -> Source:
        return make_source(self.lake, name, state, entry.facts["sources"][name], self._version(name, state))

    def _execute(
        self,
        views: Mapping[str, View],
        plan: Plan,
        sources: Mapping[str, Source],
        state: LakeState,
        group: JobGroup,
    ) -> dict[str, Result]:
        view = views[plan.view]
        entry = state.entries[view.name]
        if view.opaque:
            group.begin()
            return {view.name: run_opaque(self.lake, view, plan, sources)}
        sessions = Sessions(group.before(self.workspace), group.before(self.lake._shared))
        if view.recursive:
            own = {name: current_source(self.lake, name, state) for name in views}
            relations = Relations({**sources, **own}, {}, self.moments(view, entry))
            plan = sized(plan, relations.sources.values())
            return run_recursive(self.lake, views, Execution(sessions, relations, plan, view.schema))
        relations = Relations(sources, self.states(view, entry), self.moments(view, entry))
        return {view.name: Execution(sessions, relations, plan, view.schema).run()}

    def states(self, view: View, entry: Entry) -> dict[str, Snapshot]:
        return {
            stage.state_table: snapshot_of(self.lake, entry.parts[stage.table])
            for stage in view.staged.stages
            if stage.table in entry.parts
        }

    def _apply(self, view: View, plan: Plan, result: Result, entry: Entry) -> Applied:
        data, feed = snapshot_of(self.lake, entry.parts["data"]), self.log.folder(entry.parts["feed"])
        version, now = data.version + 1, datetime.datetime.now(datetime.UTC)
        if result.whole is not None:
            if result.whole.table is None:
                applied = replace_large(self.workspace("large"), data, feed, result.whole, version, now)
            else:
                applied = apply_change(view.name, data, feed, difference(data, result.whole.table), version, now)
        elif result.replacement is not None:
            applied = apply_replacement(data, feed, result.replacement, version, now)
        elif result.change is None:
            applied = Applied(rows=data.rows)
        elif result.change.table is None:
            applied = apply_large(self.workspace("large"), data, feed, result.change, version, now)
        else:
            applied = apply_change(view.name, data, feed, result.change.table, version, now)
        for table, rows in result.states.items():
            applied.adds[table], applied.removes[table] = self._state_files(plan, entry, table, rows)
        return applied

    def _state_files(
        self, plan: Plan, entry: Entry, table: str, rows: Rows
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        log = snapshot_of(self.lake, entry.parts[table])
        if rows.table is None:
            written = files.adopt(rows.folder or "", log.folder)
        elif plan.mode == "full":
            written = files.write(log.folder, rows.table)
        elif rows.table.num_rows == 0:
            written = ()
        else:
            return apply_state(log, rows.table)
        return written, (log.files if plan.mode == "full" else ())

    def _commit(
        self,
        views: Mapping[str, View],
        plan: Plan,
        state: LakeState,
        applied: Mapping[str, Applied],
        reports: Mapping[str, ViewReport],
        sources: Mapping[str, Source],
    ) -> None:
        new: dict[str, Entry | None] = {}
        info = {}
        for name, view in views.items():
            report, entry = reports[name], state.entries[name]
            facts = view_record(entry.facts, report, applied[name].rows, sources, self.lake._warm(name, plan.mode))
            parts = _advanced(entry, applied[name], report)
            new[name] = Entry(
                name, "view", entry.definition, parts, facts | clock_record(view, self.moments(view, entry).after)
            )
            info[name] = {"mode": report.mode, "reason": report.reason, "inserted": report.inserted}
            info[name] |= {"deleted": report.deleted, "seconds": report.seconds, "version": report.version}
            info[name] |= {"sources": report.sources}
        self.log.commit(new, state, "refresh", info)


def _advanced(entry: Entry, applied: Applied, report: ViewReport) -> dict[str, Part]:
    said = {"sources": report.sources, "mode": report.mode, "reason": report.reason}
    return {
        name: part.advanced(applied.adds.get(name, ()), applied.removes.get(name, ()), said)
        if applied.adds.get(name) or applied.removes.get(name)
        else part.settled
        for name, part in entry.parts.items()
    }


def clock_moved(refresh: Refresh, view: View, entry: Entry) -> bool:
    """Whether time alone may have changed the view."""
    return bool(view.clock) and refresh.moments(view, entry).moved(view.clock)


def view_facts(refresh: Refresh, view: View, entry: Entry, sources: Mapping[str, Source]) -> ViewFacts:
    must_rebuild = ""
    found = []
    for name, source in sources.items():
        changed = 0
        if source.old == LOST:
            must_rebuild = f"{name} was built again"
            found.append(SourceFacts(name, source.after.rows, 0, 0, True))
            continue
        try:
            changed = source.changed_rows
            if source.feed is None and source.old != source.new and source.change.schema_changed:
                raise _schema_changed(name)
        except NablaError as error:
            if error.code != "NABLA_VERSION_GONE":
                raise
            must_rebuild = f"{error.code}: {error.message} (source {name})"
        found.append(SourceFacts(name, source.after.rows, changed, 0, source.old != source.new, source.after.bytes))
    if entry.definition["layout"] != view.layout:
        raise NablaError(
            "NABLA_LAYOUT",
            "this version of Nabla keeps the view's hidden state in another form",
            place=f'view "{view.name}"',
            remedy="Create the view again with rebuild=True.",
        )
    past = tuple(Measured(**p) for p in entry.facts.get("past", ()))
    rows, cold = entry.facts.get("rows", 0), refresh.lake._cold(view.name)
    moved = clock_moved(refresh, view, entry)
    return ViewFacts(view.name, rows, tuple(found), past, view.obstacles, must_rebuild, cold, moved)


def _schema_changed(source: str) -> NablaError:
    return NablaError(
        "NABLA_SCHEMA_CHANGED",
        f'the columns of "{source}" have changed since the view was made',
        place=f'table "{source}"',
        remedy="Register the table again and create the views that read it again, with rebuild=True.",
    )


def _report(plan: Plan, entry: Entry, applied: Applied, seconds: float, group: str) -> ViewReport:
    estimates = {k: e.seconds for k, e in (("incremental", plan.incremental), ("full", plan.full)) if e}
    version = entry.parts["data"].version
    return ViewReport(
        plan.view,
        plan.mode,
        plan.reason,
        applied.inserted,
        applied.deleted,
        round(seconds, 4),
        dict(entry.facts.get("sources", {})),
        version,
        estimates=estimates,
        job_group=group,
    )


def _with_sources(report: ViewReport, sources: dict[str, int], applied: Applied) -> ViewReport:
    moved = bool(applied.adds.get("data") or applied.removes.get("data"))
    return replace(report, sources=sources, version=report.version + moved)


def with_upstream(names: Iterable[str], state: LakeState) -> list[str]:
    """The views and all views they read, sources first."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        entry = state.entries[name]
        if entry.kind != "view" or name in order:
            return
        view = load_view(name, entry.definition)
        for source in view.sources:
            visit(source)
        order.update(dict.fromkeys(view.group))

    for name in names:
        visit(name)
    return list(order)


def _layers(names: list[str], state: LakeState) -> list[list[str]]:
    depth: dict[str, int] = {}
    for name in names:  # sources come first
        sources = load_view(name, state.entries[name].definition).sources
        depth[name] = 1 + max((depth.get(s, -1) for s in sources), default=-1)
    return [[n for n in names if depth[n] == d] for d in sorted(set(depth.values()))]


def _units(layer: list[str], state: LakeState) -> list[tuple[str, ...]]:
    """The views of a layer by what is refreshed together."""
    return list(dict.fromkeys(load_view(name, state.entries[name].definition).group for name in layer))
