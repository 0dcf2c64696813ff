"""The walk of one refresh: facts, plan, run, apply. It ends with files and entries; somebody else commits them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from nabla._cached import cached_property
from nabla.algebra.clock import Instant
from nabla.engine.apply import Applied, Computed, ViewTables
from nabla.engine.budget import Budget, OverBudget, budget_of
from nabla.engine.execute import run
from nabla.engine.queries import Queries
from nabla.engine.relations import Relations, Source
from nabla.engine.spark.frames import Sessions, Workspace, Workspaces
from nabla.engine.spark.meaning import Settings
from nabla.engine.spark.metrics import JobGroup
from nabla.lake.context import LakeContext
from nabla.lake.events import ViewPlanned, current_run
from nabla.lake.objects.graph import Unit
from nabla.lake.objects.sources import current_source, make_source
from nabla.lake.objects.view import View, enforced_key, load_view, task_of
from nabla.lake.refresh.ahead import as_change, leads_to, load_ahead, store_ahead
from nabla.lake.refresh.facts import (
    RefreshInputs,
    clock_record,
    measurement,
    moments_of,
    state_snapshots,
    view_record,
)
from nabla.lake.refresh.give_up import GivenUp, why_given_up
from nabla.lake.reports import ViewReport
from nabla.planner.steps import Mode, Plan, Size
from nabla.storage import machine
from nabla.storage.catalog import AHEAD, Entry, LakeState, Part


@dataclass(frozen=True)
class MaintainedViews:
    """Views that were computed together: a report of each, and their new entries unless the refresh was skipped."""

    reports: Mapping[str, ViewReport]
    entries: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def info(self) -> dict[str, Mapping[str, Any]]:
        """The part of the reports that the lake's history keeps."""
        kept = ("mode", "reason", "inserted", "deleted", "seconds", "version", "sources", "estimates")
        return {name: {field: getattr(self.reports[name], field) for field in kept} for name in self.entries}


@dataclass(frozen=True)
class _Work:
    """A plan to run: for views that are computed together, from these inputs in this state of the lake. `group` has the Spark
    jobs of it, `mode` is what was asked for."""

    views: Mapping[str, View]
    plan: Plan
    inputs: RefreshInputs
    state: LakeState
    group: JobGroup
    mode: Mode


class Maintenance:
    """Refreshes views at one moment, for the run that it is made in. Use it as a context: names that it registers with Spark
    are dropped when it ends. Several threads may use one."""

    def __init__(self, context: LakeContext) -> None:
        self.context = context
        self.run = current_run()
        self._workspaces: dict[Settings, Workspaces] = {}
        self._lock = Lock()

    def __enter__(self) -> Maintenance:
        return self

    def __exit__(self, *_: object) -> None:
        for workspaces in self._workspaces.values():
            workspaces.__exit__()

    def workspace(self, size: Size, settings: Settings) -> Workspace:
        """A workspace that is shared by all views with these settings, made when Spark is first needed; a small refresh needs
        none."""
        with self._lock:
            if settings not in self._workspaces:
                self._workspaces[settings] = Workspaces(partial(self.context.spark.workspace, settings=settings))
        return self._workspaces[settings](size)

    def now(self, zone: str) -> Instant:
        """The present moment, the same for all views, in a time zone."""
        return replace(self._now, zone=zone)

    @cached_property
    def _now(self) -> Instant:
        return Instant.now("UTC")

    def maintain(self, names: Unit, state: LakeState, sources: Mapping[str, Source], mode: Mode) -> MaintainedViews:
        """Bring a view, or those that are computed together, to the new versions of its sources."""
        begun = time.perf_counter()
        entries = {name: state.entries[name] for name in names}
        views = {name: load_view(name, entry.definition) for name, entry in entries.items()}
        name = names[0]
        view, entry = views[name], entries[name]
        self.run.view_started(names)
        inputs = self._inputs(view, entry, sources)
        plan = inputs.plan(mode)
        if plan.mode == "skip":
            seconds = time.perf_counter() - begun
            nothing = Applied(0, 0, 0)
            return MaintainedViews(
                {n: _report(replace(plan, view=n), e, nothing, seconds, "") for n, e in entries.items()}
            )
        found = time.perf_counter()
        group = JobGroup(lambda: self.context.spark.session, f"nabla-{uuid.uuid4().hex[:8]}", f"refresh of {name}")
        with self.context.translating(f'refresh of view "{name}"'):
            plan, computed, given_up = self._continue_or_compute(_Work(views, plan, inputs, state, group, mode))
            machine.point("refresh.computed")
            costs = {"finding": found - begun, "computing": time.perf_counter() - found}
            tables = {n: self._tables(views[n], entries[n]) for n in names}
            applied = {n: computed[n].result.apply(tables[n]) for n in names}
        seconds, versions = time.perf_counter() - begun, {s: source.new for s, source in sources.items()}
        reports, changed = {}, {}
        for n in names:
            report = _report(replace(plan, view=n), entries[n], applied[n], seconds, group.name)
            report = replace(
                report,
                looked_at=computed[n].looked_at,
                rounds=computed[n].rounds,
                jobs=group.jobs if group.begun else 0,
                costs=_costs(costs, applied[n], seconds),
            )
            reports[n] = _with_sources(report, versions, applied[n])
            moved = self._new_entry(views[n], plan, entries[n], applied[n], reports[n], inputs, given_up)
            changed[n] = with_metadata(moved, tables[n].captured)
        machine.point("refresh.written")
        return MaintainedViews(reports, changed)

    def propagate(self, name: str, state: LakeState, sources: Mapping[str, Source]) -> MaintainedViews:
        """Compute the change that brings a view to the new versions of its sources, and store it beside the view."""
        begun = time.perf_counter()
        entry = state.entries[name]
        view = load_view(name, entry.definition)
        self.run.view_started([name])
        inputs = self._inputs(view, entry, sources)
        plan, versions = inputs.plan("incremental"), {s: source.new for s, source in sources.items()}
        nothing = replace(_report(plan, entry, Applied(0, 0, 0), 0.0, ""), mode="skip")
        if plan.mode == "skip" or leads_to(entry) == versions:
            return MaintainedViews({name: nothing})
        if plan.mode == "full" and view.staged.stages:
            return MaintainedViews({name: replace(nothing, reason=f"left to the refresh: {plan.reason}")})
        group = JobGroup(lambda: self.context.spark.session, f"nabla-{uuid.uuid4().hex[:8]}", f"change of {name}")
        with self.context.translating(f'change of view "{name}"'):
            work = _Work({name: view}, plan, inputs, state, group, "incremental")
            plan, computed, _ = self._continue_or_compute(work)
            change = as_change(computed[name].result, self.context.log.snapshot(entry.parts["data"]))
            machine.point("refresh.computed")
        if change is None:
            return MaintainedViews({name: replace(nothing, reason="left to the refresh: the change is too large")})
        moved = store_ahead(self.context, view, entry, change, versions, clock_record(view, inputs.moments.after))
        machine.point("refresh.written")
        report = _report(plan, entry, Applied(0, 0, 0), time.perf_counter() - begun, group.name)
        return MaintainedViews({name: replace(report, mode="ahead", sources=versions)}, {name: moved})

    def _continue_or_compute(self, work: _Work) -> tuple[Plan, dict[str, Computed], GivenUp | None]:
        """Run the plan, or only what is left to do after a change that was computed ahead."""
        inputs = work.inputs
        view, entry = inputs.view, inputs.entry
        helps = AHEAD in entry.facts and work.mode != "full"
        ahead = load_ahead(self.context.log, view, entry, inputs.sources) if helps else None
        if ahead is None:
            return self._compute(work)
        later = {
            name: make_source(self.context.log, name, work.state, ahead.sources[name], source.new)
            for name, source in inputs.sources.items()
        }
        rest = self._inputs(view, ahead.entry, later)
        plan_of_rest = rest.plan(work.mode)
        if plan_of_rest.mode == "skip":
            applied = Plan(view.name, "incremental", "its change was computed ahead", ())
            return applied, {view.name: Computed(ahead.change)}, None
        done, computed, given_up = self._compute(replace(work, plan=plan_of_rest, inputs=rest))
        both = ahead.then(computed[view.name])
        if both is None:
            return self._compute(work)
        reason = f"continues the change that was computed ahead: {done.reason}"
        return replace(done, reason=reason if done.mode == "incremental" else done.reason), {view.name: both}, given_up

    def _inputs(self, view: View, entry: Entry, sources: Mapping[str, Source]) -> RefreshInputs:
        moments = moments_of(view, entry, self.now)
        return RefreshInputs(view, entry, sources, moments, self.context.is_cold(view.name))

    def _compute(self, work: _Work) -> tuple[Plan, dict[str, Computed], GivenUp | None]:
        """Run the plan. Where maintenance takes too long or too much memory, or meets values that the query itself does not,
        the view is recomputed, and if that fails, the query does."""
        try:
            with budget_of(work.plan, work.mode) as budget, budget.interrupted_by(work.group.cancel):
                return work.plan, self._run(work, budget), None
        except (OverBudget, PySparkException, Py4JJavaError) as error:
            given_up = why_given_up(error, work.plan, budget, self.context)
            if given_up is None:
                raise
        work = replace(work, plan=replace(work.inputs.plan("full"), reason=given_up.reason))
        return work.plan, self._run(work, Budget()), given_up

    def _run(self, work: _Work, budget: Budget) -> dict[str, Computed]:
        """Run the plan of a view, or of those that are computed together."""
        inputs, plan, spark = work.inputs, work.plan, self.context.spark
        view = inputs.view
        self._tell_plan(work)
        if view.functions:
            spark.teach(view)
        makes = (self.workspace, spark.shared, spark.separate)
        sessions = Sessions(*(_in_group(work.group, partial(make, settings=view.settings)) for make in makes))
        own = {name: current_source(self.context.log, name, work.state) for name in work.views if view.recursive}
        states = state_snapshots(self.context.log, view, inputs.entry)
        sources = self._recover(inputs, work.state) if plan.mode == "incremental" else inputs.sources
        relations, tracer = Relations({**sources, **own}, states, inputs.moments), self.run.tracer(view.name)
        only_spark = self.context.only_spark
        queries = Queries(sessions, relations, plan, only_spark=only_spark, budget=budget, tracer=tracer)
        return run(task_of(work.views), queries)

    def _tell_plan(self, work: _Work) -> None:
        plan, sources = work.plan, work.inputs.sources
        before, after = {n: s.old for n, s in sources.items()}, {n: s.new for n, s in sources.items()}
        told = (plan.mode, plan.reason, max(len(plan.steps), 1), _estimates(plan), before, after, work.group.name)
        for name in work.views:
            self.run.tell(ViewPlanned, name, *told)

    def _recover(self, inputs: RefreshInputs, state: LakeState) -> Mapping[str, Source]:
        """The sources of a view, of which it reads nothing but the change where it has their rows itself. That takes keys that
        are enforced: one that was dropped while the view was made is not."""
        relies_on = inputs.view.relies_on
        if not relies_on or any(enforced_key(state, table) != key for table, key in relies_on):
            return inputs.sources
        from nabla.engine.recovery import Recovery

        own = self.context.log.snapshot(inputs.entry.parts["data"])
        found = {t.table: Recovery(own, t.places, t.present) for t in inputs.view.recovered}
        return {name: replace(source, elsewhere=found.get(name)) for name, source in inputs.sources.items()}

    def _tables(self, view: View, entry: Entry) -> ViewTables:
        """The tables of a view that the result of a plan is applied to."""
        log = self.context.log
        states = {s.table: log.snapshot(entry.parts[s.table]) for s in view.staged.stages if s.table in entry.parts}
        data, feed = log.snapshot(entry.parts["data"]), log.folder(entry.parts["feed"])
        workspaces = partial(self.workspace, settings=view.settings)
        return ViewTables(view.name, data, feed, states, workspaces, captures=view.delta_feed)

    def _new_entry(
        self,
        view: View,
        plan: Plan,
        entry: Entry,
        applied: Applied,
        report: ViewReport,
        inputs: RefreshInputs,
        given_up: GivenUp | None,
    ) -> Entry:
        known, seconds = entry.facts, report.seconds
        if given_up is not None:
            seconds -= given_up.after
        if given_up is not None and given_up.at_least is not None:
            tried = measurement("incremental", given_up.at_least, inputs.sources, inputs.cold) | {"gave_up": True}
            known = {**known, "past": [*known.get("past", ()), tried]}
        cold = self.context.note_refresh(view.name, plan.mode)
        facts = view_record(known, report, applied.rows, seconds, inputs.sources, cold)
        if (
            AHEAD in known and plan.mode == "incremental"
        ):  # others have to compute all of the change, so it is no measure
            facts["past"] = known["past"]
        return replace(
            entry, parts=_advance_parts(entry, applied, report), facts=facts | clock_record(view, inputs.moments.after)
        )


def with_metadata(entry: Entry, said: Mapping[str, Any]) -> Entry:
    """An entry whose promised commit of data says something more."""
    part = entry.parts["data"]
    if not said or part.pending is None:
        return entry
    pending = replace(part.pending, metadata={**part.pending.metadata, **said})
    return replace(entry, parts={**entry.parts, "data": replace(part, pending=pending)})


def _in_group(group: JobGroup, make: Callable[[Size], Workspace]) -> Callable[[Size], Workspace]:
    """Workspaces whose first use begins the group of a refresh's jobs."""

    def begin_and_make(size: Size) -> Workspace:
        group.begin()
        return make(size)

    return begin_and_make


def _advance_parts(entry: Entry, applied: Applied, report: ViewReport) -> dict[str, Part]:
    """The tables of a view, one version later where they got or lost files, with the commits that make these versions."""
    metadata = {"sources": report.sources, "mode": report.mode, "reason": report.reason}
    return {
        name: part.advanced(applied.adds.get(name, ()), applied.removes.get(name, ()), metadata)
        if applied.adds.get(name) or applied.removes.get(name)
        else part.settled
        for name, part in entry.without_ahead.parts.items()
    }


def _report(plan: Plan, entry: Entry, applied: Applied, seconds: float, group: str) -> ViewReport:
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
        estimates=_estimates(plan),
        job_group=group,
    )


def _costs(costs: Mapping[str, float], applied: Applied, seconds: float) -> dict[str, float]:
    """The seconds of a refresh by what they were spent on (Liu, Vincent 6.2). All that is neither finding, computing nor
    deleting is inserting: new rows, the feed and the states."""
    known = {**costs, "deleting": applied.deleting}
    return {what: round(taken, 4) for what, taken in (known | {"inserting": seconds - sum(known.values())}).items()}


def _estimates(plan: Plan) -> dict[str, float]:
    return {k: e.seconds for k, e in (("incremental", plan.incremental), ("full", plan.full)) if e}


def _with_sources(report: ViewReport, sources: dict[str, int], applied: Applied) -> ViewReport:
    moved = bool(applied.adds.get("data") or applied.removes.get("data"))
    return replace(report, sources=sources, version=report.version + moved)
