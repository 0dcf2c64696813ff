"""Building new views: the plan that computes a view whole, and the tables that its rows are written to."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from nabla.algebra.clock import Moments
from nabla.engine.apply import Whole, write_files
from nabla.engine.execute import run
from nabla.engine.feed import feed_schema
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, Relations
from nabla.engine.spark.frames import Workspaces
from nabla.engine.spark.meaning import meaning
from nabla.lake.context import LakeContext
from nabla.lake.events import ViewPlanned, current_run
from nabla.lake.objects.graph import LOST
from nabla.lake.objects.sources import current_source
from nabla.lake.objects.view import View, task_of
from nabla.lake.refresh.facts import clock_record, view_record
from nabla.lake.reports import ViewReport
from nabla.planner.choose import TINY_TABLES, choose
from nabla.planner.estimates import SourceFacts, ViewFacts
from nabla.storage import machine
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.table import StoredTable
from nabla.storage.uncommitted import in_thread


def build(context: LakeContext, views: Mapping[str, View], state: LakeState) -> dict[str, tuple[Entry, ViewReport]]:
    """Compute a new view, or those that are computed together, over the lake in a state, and write their tables: data, hidden
    states and an empty feed, ready to be committed."""
    begun, observed = time.perf_counter(), current_run()
    observed.view_started([*views])
    if not all(view.settings for view in views.values()):
        settings = meaning(context.spark.session)
        views = {name: replace(view, settings=view.settings or settings) for name, view in views.items()}
    view = next(iter(views.values()))
    now = context.now(view.settings)
    sources = {name: current_source(context.log, name, state) for name in view.sources}
    facts = ViewFacts(view.name, 0, tuple(SourceFacts(n, s.after.rows, 0, 0, False) for n, s in sources.items()))
    plan = choose(facts, view.staged, "full")
    context.spark.teach(view)
    versions = {name: source.new for name, source in sources.items()}
    for name in views:
        observed.tell(ViewPlanned, name, "full", "built", max(len(plan.steps), 1), {}, {}, versions)
    with Workspaces(partial(context.spark.workspace, settings=view.settings)) as workspaces:
        sessions = context.spark.sessions(workspaces, view.settings)
        relations, tracer = Relations(sources, {}, Moments(now, now)), observed.tracer(view.name)
        queries = Queries(sessions, relations, plan, builds=True, only_spark=context.only_spark, tracer=tracer)
        computed = run(task_of(views), queries)
        machine.point("build.computed")
        parts = {name: _new_parts(context, views[name], own.whole) for name, own in computed.items()}
    seconds = round(time.perf_counter() - begun, 4)
    made = {}
    for name, own in views.items():
        rows = context.log.snapshot(parts[name]["data"]).rows
        report = ViewReport(name, "full", "built", rows, 0, seconds, versions, 0, rounds=computed[name].rounds)
        record = view_record({}, report, rows, seconds, sources, context.note_refresh(name, "full")) | clock_record(
            own, now
        )
        if not queries.ran and not own.recursive and facts.all_rows < TINY_TABLES:
            record["past"] = []  # a few milliseconds say nothing of what recomputing takes when there are rows
        made[name] = Entry(name, own.kind, own.to_json(), parts[name], record), report
    return made


def outdate_readers(state: LakeState, rebuilt: Collection[str]) -> dict[str, Entry]:
    """The entries of views that read others which are built again: the versions that they reflect are no more."""
    found: dict[str, Entry] = {}
    for name, entry in state.entries.items():
        sources = entry.facts.get("sources", {})
        if name not in rebuilt and not sources.keys().isdisjoint(rebuilt):
            lost = dict.fromkeys(sources.keys() & set(rebuilt), LOST)
            found[name] = replace(entry, facts={**entry.facts, "sources": {**sources, **lost}})
    return found


def _new_parts(context: LakeContext, view: View, whole: Whole) -> dict[str, Part]:
    """Tables of a view, made side by side: most of the time they wait for the disk."""
    feed = ComputedRows.none(feed_schema(view.schema))
    wanted = {"data": (view.name, whole.rows), "feed": (f"{view.name}_feed", feed)}
    wanted |= {s.table: (f"{view.name}_state", whole.states[s.table]) for s in view.staged.stages}
    with ThreadPoolExecutor(len(wanted)) as pool:
        made = {
            part: pool.submit(in_thread(new_part), context, name, rows, part == "data" and view.delta_feed)
            for part, (name, rows) in wanted.items()
        }
    return {part: running.result() for part, running in made.items()}


def new_part(context: LakeContext, name: str, rows: ComputedRows, captures: bool = False) -> Part:
    """A new table of a view, with these rows; it may have Delta's change data feed."""
    path = context.log.new_path(name)
    folder = context.log.folder(path)
    StoredTable.create(folder, rows.schema.json(), write_files(folder, rows), captures=captures)
    return Part(path, 0)
