"""Undo: the lake's tables, views and constraints with the content that they had at an earlier version of the lake.

Nothing is computed. The minimal change of a table or view since then is known; a revert records and publishes its inverse,
and the files of that time take their place again. History goes on: a revert is a
commit like any other, and can be reverted.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nabla._cached import cached_property
from nabla.engine.feed import feed_rows
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived, sources_of
from nabla.lake.objects.origins import is_copy
from nabla.lake.objects.sources import make_source
from nabla.lake.reports import Reverted, RevertReport
from nabla.lake.write.commit import Commit, retry
from nabla.storage import bags, capture, changes, files
from nabla.storage.altered_table import eras_after
from nabla.storage.catalog import DELTA_FEED, HISTORIES, REDEFINED, Entry, LakeState, Part
from nabla.storage.changes import has_same_rows


def revert(context: LakeContext, version: int) -> RevertReport:
    """Give everything the content back that it had at a version of the lake, in one commit."""
    context.log.refuse_here("undo")
    try:
        with context.events.run("revert"):
            return retry(context, lambda: _attempt(context, version))
    finally:
        context.subscriptions.deliver()


def _attempt(context: LakeContext, version: int) -> RevertReport:
    then, now = context.log.state(version), context.log.state()
    way_back = _WayBack(context, now, then)
    way_back.check_schemas()
    reports = {}
    with Commit(context, now) as commit:
        for name in way_back.names:
            entry, report = way_back.entry(name)
            commit.put({name: entry}, {name: {"inserted": report.inserted, "deleted": report.deleted}})
            reports[name] = report
        commit.follow()  # views and constraints that were made since then
        commit.check()
        if commit.changes:
            commit.publish("revert")
        commit.end_views()
    return RevertReport(reports)


@dataclass(frozen=True)
class _WayBack:
    """The way from the state `now` back to the state `then`. Objects that were made or built again since then stay."""

    context: LakeContext
    now: LakeState
    then: LakeState

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, old in self.then.entries.items() if self._same(name) and self._moved(old))

    def _same(self, name: str) -> bool:
        """Whether the table of that time is still there, or the view of that time over the same sources."""
        old, new = self.then.entries[name], self.now.entries.get(name)
        if new is None or new.parts["data"].path != old.parts["data"].path:
            return False
        if new.definition.get(REDEFINED, 0) > old.parts["data"].version:  # it stays, and follows its sources
            return False
        return all(source in self.then.entries and self._same(source) for source in sources_of(old))

    def _moved(self, old: Entry) -> bool:
        old, new = old.without_ahead, self.now.entries[old.name].without_ahead
        if old.kind == "registered" or is_copy(old):
            return False
        moved = (name for name, part in old.parts.items() if not self._has_same_rows(part, new.parts[name]))
        return any(name != "feed" for name in moved) or not self._reflects_same(old, new)

    def check_schemas(self) -> None:
        """Refuse to bring rows back into a table that has other columns now."""
        altered = next((n for n in self.names if self._other_columns(n)), None)
        if altered is not None:
            raise NablaError(
                "NABLA_SCHEMA_CHANGED",
                f'"{altered}" was altered since then, and its rows of that time have other columns',
                place="revert",
                remedy=f'Read them with lake.read("{altered}", version=…), and put them back in a transaction.',
            )

    def _other_columns(self, name: str) -> bool:
        return bool(eras_after(self.now.entries[name].definition, self.then.entries[name].parts["data"].version))

    def _reflects_same(self, old: Entry, new: Entry) -> bool:
        """Whether a view reflects the same rows of its sources as it did then."""
        now, then = new.facts.get("sources", {}), old.facts.get("sources", {})
        return now.keys() == then.keys() and all(self._version_now(name, then[name]) == now[name] for name in now)

    def _version_now(self, source: str, version: int) -> int:
        """The newest version of a source if that has the rows of an old one, else the old one."""
        entry = self.now.entries[source]
        if entry.kind == "registered" or is_copy(entry) or version < 0:
            return version
        part = entry.parts["data"]
        return part.version if self._has_same_rows(replace(part, version=version), part) else version

    def _has_same_rows(self, old: Part, new: Part) -> bool:
        """Whether a part has the rows that it had then, maybe in other files."""
        if old.version == new.version:
            return True
        return old.version < new.version and has_same_rows(self.context.log.table(new), old.version, new.version)

    def entry(self, name: str) -> tuple[Entry, Reverted]:
        old, new = self.then.entries[name].without_ahead, self.now.entries[name].without_ahead
        source = make_source(self.context.log, name, self.now, old.parts["data"].version, new.parts["data"].version)
        captures = bool(new.definition.get(DELTA_FEED))
        large = not is_derived(old) and source.changed_rows > changes.RECORDED_ROWS and not captures
        change = None if large else bags.negated(source.change_rows())
        parts = {n: self._restore(p, new.parts[n]) for n, p in old.parts.items() if n != "feed"}
        kept = {fact: value for fact, value in new.facts.items() if fact != HISTORIES}
        facts = kept | {fact: old.facts[fact] for fact in ("rows", "clock", HISTORIES) if fact in old.facts}
        if is_derived(old):
            assert change is not None
            parts["feed"] = self._publish(new.parts["feed"], change, parts["data"].version)
            if captures and change.num_rows:
                parts["data"] = _with_metadata(parts["data"], capture.capture(source.table.folder, change))
            facts["sources"] = {s: self._reflected_version(s, v) for s, v in old.facts["sources"].items()}
        elif change is not None:
            recorded = changes.record(source.table.folder, change)
            said = {changes.KEY: [file.to_json() for file in recorded]}
            if captures and change.num_rows:
                said |= capture.capture(source.table.folder, change)
            parts["data"] = _with_metadata(parts["data"], said)
        counts = [None, None] if change is None else [bags.total(rows) for rows in bags.split(change)]
        return replace(new, parts=parts, facts=facts), Reverted(name, parts["data"].version, counts[1], counts[0])

    def _restore(self, old: Part, new: Part) -> Part:
        if self._has_same_rows(old, new):
            return new
        before, after = self.context.log.snapshot(old), self.context.log.snapshot(new)
        there, wanted = ({(f.path, f.hidden) for f in version.files} for version in (after, before))
        adds = [file for file in before.files if (file.path, file.hidden) not in there]
        return new.advanced(adds, [file for file in after.files if (file.path, file.hidden) not in wanted])

    def _publish(self, feed: Part, change: pa.Table, version: int) -> Part:
        if not change.num_rows:
            return feed
        rows = feed_rows(change, version, datetime.datetime.now(datetime.UTC))
        return feed.advanced(files.write(self.context.log.folder(feed), rows))

    def _reflected_version(self, source: str, version: int) -> int:
        """The version of a source that a reverted view reflects: a view that was up to date is so again, and one that lagged
        behind lags again."""
        old, new = self.then.entries[source].parts["data"], self.now.entries[source].parts["data"]
        back = version == old.version and source in self.names and not self._has_same_rows(old, new)
        return new.version + 1 if back else self._version_now(source, version)


def _with_metadata(part: Part, metadata: Mapping[str, Any]) -> Part:
    return replace(part, pending=replace(part.pending, metadata=metadata)) if part.pending else part
