"""A view that gets another definition, and keeps what can be kept: its table, its versions and its feed.

The new content is compared with the old one, and the view, its table for others and its feed get the minimal change between
them. A column that is new was NULL before, and one that is dropped is in no row any more, as far as feed and readers
are concerned. A column whose type changes has no such past: then the view is built again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nabla.algebra.clock import Moments
from nabla.algebra.shape import shape
from nabla.engine.apply import Applied, ViewTables, Whole
from nabla.engine.execute import run
from nabla.engine.feed import feed_schema
from nabla.engine.queries import Queries
from nabla.engine.relations import Relations, Source
from nabla.engine.spark.frames import Workspaces
from nabla.engine.spark.meaning import meaning
from nabla.errors import NablaError
from nabla.lake.alter.alteration import SchemaChange
from nabla.lake.answer.over_views import read_itself_instead
from nabla.lake.context import LakeContext
from nabla.lake.events import ViewPlanned, current_run
from nabla.lake.objects.sources import current_source
from nabla.lake.objects.view import View, load_view, task_of
from nabla.lake.refresh.build import new_part, outdate_readers
from nabla.lake.refresh.create import build_views
from nabla.lake.refresh.facts import clock_record, view_record
from nabla.lake.refresh.maintain import with_metadata
from nabla.lake.refresh.views import define_view
from nabla.lake.reports import Altered, ViewReport
from nabla.lake.write.commit import Commit
from nabla.planner.choose import choose
from nabla.planner.estimates import SourceFacts, ViewFacts
from nabla.planner.steps import Plan
from nabla.storage.altered_table import Era, absent, eras_of, marked_as_added
from nabla.storage.catalog import ERAS, REDEFINED, SAME_AS, Entry, Part
from nabla.storage.files import with_names
from nabla.storage.table import Snapshot


@dataclass(frozen=True)
class Redefined:
    """What a new definition did to a view, and how its columns change for those who read it; None if they do not."""

    report: Altered
    change: SchemaChange | None


def redefine_from_text(context: LakeContext, commit: Commit, view: View, sql: str | None, can_stay: bool) -> View:
    """The definition that a text has now, with all that the view was made with. Where a view follows its table's columns, the
    text is the one that it was made from; if that is not a query any more, and the view `can_stay` as it was, it is the one
    that means the same as before."""
    if sql is None or view.sql is None:
        raise NablaError(
            "NABLA_COLUMN_IN_USE",
            f'view "{view.name}" was made from a DataFrame, and reads a column whose type changes',
            place=f'view "{view.name}"',
            remedy="Drop it first, and create it again from a DataFrame over the altered table.",
        )
    state = commit.state
    with context.spark.named_session_at(state):
        try:
            new = define_view(context, view.name, sql, state)
        except NablaError:
            if sql == view.sql or not can_stay:
                raise
            new = define_view(context, view.name, view.sql, state)
    return with_options(new, view)


def with_options(new: View, old: View) -> View:
    """A new definition of a view with everything that users said beside the query."""
    return replace(
        new,
        maintain=old.maintain,
        on_violation=old.on_violation,
        ahead=old.ahead,
        delta_feed=old.delta_feed,
        follow=old.follow,
        settings=new.settings or old.settings,
    )


def redefine(context: LakeContext, commit: Commit, entry: Entry, new: View) -> Redefined:
    """Put a view with a new definition into a commit."""
    old = load_view(entry.name, entry.definition)
    new = replace(new, settings=new.settings or meaning(context.spark.session))
    context.names(commit.state).check_view(new)
    change = columns_changed(old, new)
    if change is None and shape(new.plan) == shape(old.plan) and new.layout == old.layout:
        report = Altered(entry.name, "kept", "it means the same", 0, 0, entry.parts["data"].version)
        commit.put({entry.name: replace(entry, definition=definition_of(new, entry))}, {})
        return Redefined(report, None)
    if change is not None and change.widened:
        return _build_again(context, commit, entry, new, change)
    return Redefined(_apply_difference(context, commit, entry, old, new, change), change)


def columns_changed(old: View, new: View) -> SchemaChange | None:
    """How the columns of a view change. A column of the same name but of another type is `widened`."""
    before = dict(zip(old.outputs, old.schema.fields, strict=True))
    after = dict(zip(new.outputs, new.schema.fields, strict=True))
    alike = {n for n in before.keys() & after.keys() if before[n].dataType == after[n].dataType}
    if list(before.values()) == list(after.values()) and before.keys() == after.keys():
        return None
    return SchemaChange(
        old.name,
        {name: field.dataType.simpleString() for name, field in before.items()},
        added=tuple(name for name in after if name not in before),
        dropped=tuple(name for name in before if name not in after),
        widened=tuple(name for name in before if name in after and name not in alike),
    )


def definition_of(view: View, entry: Entry) -> dict[str, Any]:
    """What the lake stores of another definition of a view, with what it remembers of the ones before."""
    remembered = {key: entry.definition[key] for key in (ERAS, REDEFINED) if key in entry.definition}
    return {**view.to_json(), **remembered}


def _build_again(context: LakeContext, commit: Commit, entry: Entry, new: View, change: SchemaChange) -> Redefined:
    built = build_views(context, [new], commit.state, f'view "{new.name}"')
    commit.put(built.entries, built.info)
    commit.outdate(outdate_readers(commit.state, {new.name}))
    reason = f"the type of {', '.join(change.widened)} is another one: its feed begins anew"
    return Redefined(Altered(new.name, "rebuilt", reason, built.reports[new.name].inserted, 0, 0), change)


def _apply_difference(
    context: LakeContext, commit: Commit, entry: Entry, old: View, new: View, change: SchemaChange | None
) -> Altered:
    """Compute the new content, and apply its difference to the old one."""
    begun, name = time.perf_counter(), entry.name
    observed = current_run()
    observed.view_started([name])
    now = context.now(new.settings)
    own = read_itself_instead(context, new, commit.state)
    read = {*own.sources, *new.sources}
    every = {source: current_source(context.log, source, commit.state) for source in read}
    sources = {source: every[source] for source in new.sources}
    versions = {source: found.new for source, found in sources.items()}
    data, feed_json = (
        _with_new_columns(context.log.snapshot(entry.parts["data"]), old, new),
        feed_schema(new.schema).json(),
    )
    plan = _whole(own, every)
    observed.tell(ViewPlanned, name, "full", "redefined", max(len(plan.steps), 1), {}, {}, versions)
    context.spark.teach(new)
    with Workspaces(partial(context.spark.workspace, settings=new.settings)) as workspaces:
        sessions = context.spark.sessions(workspaces, new.settings)
        relations = Relations(every, {}, Moments(now, now))
        queries = Queries(sessions, relations, plan, builds=True, only_spark=context.only_spark)
        with context.translating(f'view "{name}"'):
            whole = run(task_of({name: own}), queries)[name].whole
            tables = ViewTables(
                name, data, context.log.folder(entry.parts["feed"]), {}, workspaces, captures=new.delta_feed
            )
            applied = Whole(whole.rows).apply(tables)
        states = {
            stage.table: new_part(context, f"{name}_state", whole.states[stage.table]) for stage in new.staged.stages
        }
    report = _report(name, applied, entry, versions, begun)
    parts = _parts(entry, applied, data.schema_json, feed_json, change, report) | states
    definition = definition_of(new, entry) | {REDEFINED: parts["data"].version}
    if change is not None:
        era = Era(parts["data"].version, old.outputs, old.stored, _origin(old, new), {})
        definition[ERAS] = [*(known.to_json() for known in eras_of(entry.definition)), era.to_json()]
    kept = {fact: value for fact, value in entry.facts.items() if fact != SAME_AS}
    facts = view_record(kept, report, applied.rows, report.seconds, sources, context.note_refresh(name, "full"))
    moved = Entry(name, entry.kind, definition, parts, facts | clock_record(new, now))
    commit.put({name: with_metadata(moved, tables.captured)}, {name: report.brief()})
    commit.reports[name] = replace(report, version=parts["data"].version)
    said = "its feed tells the difference" if applied.inserted or applied.deleted else "no row changes"
    said += ", computed from its own rows" if own is not new else ""
    reason = f"{said}; {change}" if change is not None else said
    return Altered(name, "difference", reason, applied.inserted, applied.deleted, parts["data"].version)


def _origin(old: View, new: View) -> dict[str, str]:
    """The columns that stay, which have the same name for users and in files."""
    before = set(zip(old.outputs, old.stored, strict=True))
    return {name: name for name, stored in zip(new.outputs, new.stored, strict=True) if (name, stored) in before}


def _with_new_columns(snapshot: Snapshot, old: View, new: View) -> Snapshot:
    """The rows that a view has, with its new columns."""
    stays = _origin(old, new)
    places = dict(zip(new.outputs, new.stored, strict=True))
    stored = {place: place if name in stays else absent(place) for name, place in places.items()}
    kept = {places[name]: places[name] for name in stays}
    return with_names(snapshot, _marked(new, stays), kept, stored)


def _marked(new: View, stays: Mapping[str, str]) -> str:
    added = [stored for name, stored in zip(new.outputs, new.stored, strict=True) if name not in stays]
    return marked_as_added(new.schema.json(), added)


def _parts(
    entry: Entry, applied: Applied, data: str, feed: str, change: SchemaChange | None, report: ViewReport
) -> dict[str, Part]:
    """The table of the view and its feed one version later, where they have another schema or other files."""
    metadata = {"sources": report.sources, "mode": report.mode, "reason": report.reason}
    found = {}
    for name, schema in (("data", data), ("feed", feed)):
        part, moved = entry.parts[name], (applied.adds.get(name, ()), applied.removes.get(name, ()))
        changes = change is not None or any(moved)
        found[name] = part.advanced(*moved, metadata, schema=schema if change is not None else "") if changes else part
    return found


def _whole(view: View, sources: Mapping[str, Source]) -> Plan:
    facts = tuple(SourceFacts(name, source.after.rows, 0, 0, False) for name, source in sources.items())
    return choose(ViewFacts(view.name, 0, facts), view.staged, "full")


def _report(name: str, applied: Applied, entry: Entry, versions: dict[str, int], begun: float) -> ViewReport:
    seconds = round(time.perf_counter() - begun, 4)
    version = entry.parts["data"].version
    return ViewReport(name, "full", "redefined", applied.inserted, applied.deleted, seconds, versions, version)
