"""The status of everything in a lake, and the history of its commits."""

from __future__ import annotations

import datetime

from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.explain import last_refresh
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.origins import behind, is_copy, last_copied
from nabla.lake.objects.sources import table_of
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.facts import PinnedVersions, StaleViews
from nabla.lake.refresh.schedule import in_words
from nabla.lake.reports import Event, History, LakeStatus, Status
from nabla.storage.catalog import Entry


def lake_status(context: LakeContext) -> LakeStatus:
    """The status of all tables, views and constraints."""
    state = context.log.state()
    moved, problems = behind(context, state)
    stale = StaleViews(PinnedVersions(context.log, state), moved=moved)
    found = {n: _status(context, e, n in stale or n in moved, problems.get(n, "")) for n, e in state.entries.items()}
    return LakeStatus(found)


def _status(context: LakeContext, entry: Entry, stale: bool, problem: str) -> Status:
    part = entry.parts["data"]
    version = part.version
    rows = entry.facts.get("rows")
    if entry.kind == "registered":
        try:
            snapshot = table_of(context.log, entry).snapshot()
            version, rows = snapshot.version, snapshot.rows
        except NablaError as error:
            problem = f"{error.code}: {error.message}"
    obstacles: tuple[str, ...] = ()
    when = ""
    if is_derived(entry):
        view = load_view(entry.name, entry.definition)
        obstacles = tuple(str(o) for o in view.obstacles)
        when = view.on_violation or in_words(view.maintain) + ", computed ahead" * view.ahead
    updated = datetime.datetime.fromtimestamp(context.log.table(part).timestamp(part.version) / 1000, datetime.UTC)
    sources = dict(entry.facts.get("sources", {}))
    last = problem or (last_copied(entry) if is_copy(entry) else last_refresh(entry))
    kind = "registered" if is_copy(entry) else entry.kind
    return Status(entry.name, kind, version, rows, stale, sources, last, updated, obstacles, when, problem)


def read_history(context: LakeContext, name: str | None, limit: int | None) -> History:
    """The commits of a table or view, or of the lake with the versions of the lake, newest first."""
    if limit is not None and limit < 0:
        raise NablaError("NABLA_ARGUMENT", f"limit cannot be {limit}", place="limit=", remedy="Pass 0 or more.")
    entry = None if name is None else context.names(context.log.state()).entry(name)
    events = []
    for record in context.log.history(entry.name if entry else None, limit):
        said = record.objects[entry.name] if entry else {}
        reason = said.get("reason", "") if entry else ", ".join(record.objects)
        events.append(
            Event(
                int(said.get("version", -1)) if entry else record.version,
                datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC),
                f"{record.operation} ({said['mode']})" if "mode" in said else record.operation,
                said.get("inserted"),
                said.get("deleted"),
                said.get("seconds"),
                reason,
            )
        )
    return History(events)
