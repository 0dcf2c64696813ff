"""One flow to create tables, views, rules and constraints, and to build them again.

A `Definition` is the thing to make: it checks itself against a state of the lake and builds its files over that state. The
flow builds one definition after the other, lets immediate views and constraints follow, checks the constraints, and
commits all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import sources_of
from nabla.lake.objects.view import View
from nabla.lake.refresh.build import build, outdate_readers
from nabla.lake.reports import ViewReport
from nabla.lake.write.commit import Commit
from nabla.storage.catalog import Entry, LakeState


@dataclass(frozen=True)
class Built:
    """New objects whose files are written: their entries, what the history says of them, and reports of those that were
    computed."""

    entries: Mapping[str, Entry]
    info: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reports: Mapping[str, ViewReport] = field(default_factory=dict)


class Definition(Protocol):
    """An object of the lake that can be created."""

    def build(self, context: LakeContext, state: LakeState) -> Built:
        """Write its files, over the lake in this state. The names of the new objects have to be free there."""


@dataclass(frozen=True)
class ViewDefinition:
    """A view, or views that are computed together. `place` says where errors of Spark come from."""

    views: tuple[View, ...]
    place: str

    def build(self, context: LakeContext, state: LakeState) -> Built:
        for view in self.views:
            context.names(state).check_new(view.name)
        return build_views(context, self.views, state, self.place)


def build_views(context: LakeContext, views: Iterable[View], state: LakeState, place: str) -> Built:
    """The files of views that are computed together. Errors of Spark come back as errors of Nabla."""
    with context.translating(place):
        built = build(context, {view.name: view for view in views}, state)
    reports = {name: report for name, (_, report) in built.items()}
    info = {name: report.brief() for name, report in reports.items()}
    return Built({name: entry for name, (entry, _) in built.items()}, info, reports)


def create(
    context: LakeContext,
    state: LakeState,
    operation: str,
    definitions: Iterable[Definition],
    replaced: AbstractSet[str] = frozenset(),
    dropped: AbstractSet[str] = frozenset(),
) -> dict[str, ViewReport]:
    """Build definitions in order, each over what the ones before it made, and commit them together.

    Objects that are `replaced` make room for new ones of the same names, or go; views that read them follow, at once or at
    their next refresh. Those that are `dropped` go, and nobody else reads them.
    """
    reports: dict[str, ViewReport] = {}
    made: set[str] = set()
    read: set[str] = set()
    with context.events.run("create"), Commit(context, state) as commit:
        commit.drop([*replaced, *dropped])
        commit.outdate(outdate_readers(commit.state, replaced))
        for definition in definitions:
            built = definition.build(context, commit.state)
            commit.put(built.entries, built.info)
            commit.reports |= built.reports
            reports |= built.reports
            made |= built.entries.keys()
            read |= {source for entry in built.entries.values() for source in sources_of(entry)}
        commit.follow()
        commit.check()
        commit.publish(operation, reads=read - made)
        commit.end_views()
    return reports
