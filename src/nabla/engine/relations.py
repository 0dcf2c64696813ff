"""What the scans of a refresh read: tables and upstream views before and after, their changes, and a view's own state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from nabla.algebra.clock import Moments
from nabla.algebra.expressions import quote
from nabla.algebra.nodes import At, Scan
from nabla.engine.frames import Workspace
from nabla.engine.lookup import MOST_VALUES
from nabla.engine.sources import change_frame, snapshot_frame
from nabla.storage.bags import N
from nabla.storage.changes import Change, between, signed
from nabla.storage.table import Snapshot, StoredTable


@dataclass(eq=False)
class Source:
    """A relation that a view reads, between the version it reflects and the one it is brought to.

    `names` are the columns as queries see them. `feed` is set for a view: its change is what it published.
    """

    name: str
    names: tuple[str, ...]
    table: StoredTable
    old: int
    new: int
    feed: Snapshot | None = None

    @cached_property
    def before(self) -> Snapshot:
        return self.table.snapshot(self.old)

    @cached_property
    def after(self) -> Snapshot:
        return self.table.snapshot(self.new)

    def at(self, at: At) -> Snapshot:
        return self.before if at is At.OLD else self.after

    @cached_property
    def change(self) -> Change:
        return between(self.table, self.old, self.new)

    @cached_property
    def changed_rows(self) -> int:
        if self.old == self.new:
            return 0
        if self.feed is None:
            return self.change.rows
        return sum(f.rows for f in self.feed.files if self._published(f.minimum, f.maximum))

    def _published(self, minimum: Mapping[str, object], maximum: Mapping[str, object]) -> bool:
        low, high = minimum.get("_version", self.new), maximum.get("_version", self.new)
        return int(str(high)) > self.old and int(str(low)) <= self.new

    @cached_property
    def _change_rows(self) -> pa.Table | None:
        small = self.feed is None and self.changed_rows <= MOST_VALUES
        return signed(self.change).drop_columns([N]).rename_columns(list(self.names)) if small else None

    def held_change(self, fields: tuple[str, ...]) -> pa.Table | None:
        """The columns of the changed rows, if there are few enough to look at."""
        rows = self._change_rows
        return None if rows is None else rows.select(list(fields))

    def key(self, at: At) -> Hashable:
        return (self.table.folder, {At.OLD: (self.old,), At.NEW: (self.new,), At.DELTA: (self.old, self.new)}[at])

    def frame(self, workspace: Workspace, at: At) -> DataFrame:
        if at is not At.DELTA:
            return snapshot_frame(workspace, self.at(at), self.names)
        if self.feed is None:
            return change_frame(workspace, self.change, self.names)
        return self._published_frame(workspace, self.feed)

    def _published_frame(self, workspace: Workspace, feed: Snapshot) -> DataFrame:
        files = tuple(f for f in feed.files if self._published(f.minimum, f.maximum))
        only = Snapshot(feed.folder, feed.version, feed.schema_json, feed.stored, feed.partitioned_by, files)
        rows = snapshot_frame(workspace, only, [*self.names, "_change_type", "_version", "_timestamp"])
        rows = rows.where(f"_version > {self.old} AND _version <= {self.new}")
        weight = f"CASE WHEN _change_type = 'insert' THEN 1L ELSE -1L END AS {N}"
        return rows.selectExpr(*[quote(n) for n in self.names], weight)


@dataclass(eq=False)
class Relations:
    """All relations of one view's refresh. `states` are the logs of its stages, by the name under which plans scan them."""

    sources: Mapping[str, Source]
    states: Mapping[str, Snapshot]
    moments: Moments

    def stored(self, scan: Scan) -> tuple[Snapshot, dict[str, str]] | None:
        """The version of a table that a scan reads, and what its columns are called there."""
        source = self.sources.get(scan.table)
        if source is None or scan.at is At.DELTA:
            return None
        snapshot = source.at(scan.at)
        return snapshot, dict(zip(source.names, snapshot.schema.names, strict=True))

    def frame(self, workspace: Workspace, table: str, at: At) -> DataFrame:
        if table in self.states:
            state = self.states[table]
            return snapshot_frame(workspace, state, [f"c{i}" for i in range(len(state.stored) - 1)] + [N])
        return self.sources[table].frame(workspace, at)
