"""Letting all who read a table or view follow a change of its columns, within a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nabla.errors import NablaError
from nabla.lake.alter.alteration import SchemaChange
from nabla.lake.alter.follow import column_in_use, follow, is_read, readers, refuse_loss
from nabla.lake.alter.redefine import definition_of, redefine, redefine_from_text
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import upstream_units
from nabla.lake.objects.view import View, load_view
from nabla.lake.reports import Altered
from nabla.lake.write.commit import Commit
from nabla.storage.catalog import Entry


def follow_change(
    context: LakeContext, commit: Commit, change: SchemaChange, version: int | None, keys: Mapping[str, str]
) -> dict[str, Altered]:
    """Let all views and constraints that read an object follow the change of its columns: in their stored definitions if that
    is enough, and else by a new definition. `version` is the first one with the new columns, if that has the rows of the one
    before; `keys` has new texts of constraints that were made from declared keys."""
    reports: dict[str, Altered] = {}
    waiting = [entry.name for entry in readers(commit.state, change.name)]
    for name in (n for unit in upstream_units(waiting, commit.state) for n in unit if n in waiting):
        entry = _moved_on(commit.state.entries[name], change.name, version)
        view = load_view(name, entry.definition)
        refuse_loss(view, change)
        new = follow(view, change, keys)
        if _reads_anew(view, change):
            lost = next((c for c in change.dropped if is_read(view, change.name, c)), None)
            try:
                anew = redefine_from_text(context, commit, new, view.sql, can_stay=lost is None)
            except NablaError as error:
                raise (error if lost is None else column_in_use(view, change, lost)) from error
            done = redefine(context, commit, entry, anew)
            reports[name] = done.report
            if done.change is not None:
                reports |= follow_change(context, commit, done.change, None, {})
            continue
        if new.to_json() != view.to_json():
            entry = replace(entry, definition=definition_of(new, entry))
        commit.outdate({name: entry})
        reports[name] = Altered(name, "kept", "it means the same", 0, 0, entry.parts["data"].version)
    return reports


def _reads_anew(view: View, change: SchemaChange) -> bool:
    """Whether the query of a view has to be read anew: it follows the columns, or one that it reads has another type."""
    changes = bool(change.added or change.renamed or change.dropped)
    return (view.follow and changes) or any(is_read(view, change.name, column) for column in change.widened)


def _moved_on(entry: Entry, source: str, version: int | None) -> Entry:
    """A view that was up to date with a source is so with the version that only has other columns, too."""
    entry = entry.without_ahead
    sources = entry.facts.get("sources", {})
    if version is None or sources.get(source) != version - 1:
        return entry
    return replace(entry, facts={**entry.facts, "sources": {**sources, source: version}})
