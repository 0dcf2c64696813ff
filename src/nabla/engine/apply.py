"""The results of a plan, each of which knows how it is applied: the view, its states and its feed move together.

Small results are applied on the driver by Arrow, in milliseconds. Large ones stay in Spark, which writes the view anew:
nothing passes the driver. The files that come of it are committed by the lake.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla._cached import cached_property
from nabla.algebra.expressions import quote
from nabla.calculus.recursion.fixpoint import Round
from nabla.engine import types
from nabla.engine.feed import FEED_KIND, count_kinds, feed_frame, feed_rows
from nabla.engine.relations import ComputedRows
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.bags import consolidate, repeat, weigh
from nabla.engine.spark.frames import Workspace
from nabla.errors import NablaError
from nabla.planner.steps import Size
from nabla.storage import bags, capture, files, locations, reading
from nabla.storage.bags import N
from nabla.storage.boundary import CAPTURES
from nabla.storage.files import DataFile
from nabla.storage.replace import replace_rows
from nabla.storage.rewrite import rewrite
from nabla.storage.table import Snapshot

FOLD_FILES = 24
"""A state log of so many small files is folded: reading them would cost more than the change."""
FOLD_ROWS = 2_000_000
SHOWN_ROWS = 3
"""Rows that an error message shows."""

Files = tuple[DataFile, ...]


@dataclass(frozen=True)
class ViewTables:
    """The tables of a view, for its result: `data` with its rows, the folder of its `feed`, and the logs of its
    `states`, by the names of its stages. `workspaces` are for results that Spark has to apply. A view that `captures` has
    Delta's change data feed, too: `captured` is what the commit says of it."""

    view: str
    data: Snapshot
    feed: str
    states: Mapping[str, Snapshot]
    workspaces: Callable[[Size], Workspace]
    captures: bool = False
    captured: dict[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version that the view gets."""
        return self.data.version + 1

    @cached_property
    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)

    @property
    def workspace(self) -> Workspace:
        return self.workspaces("large")

    @property
    def names(self) -> list[str]:
        """The stored names of the view's columns."""
        return [f.name for f in types.from_json(self.data.schema_json).fields]

    def frame(self) -> DataFrame:
        """The rows that the view has."""
        return snapshot_frame(self.workspace, self.data, self.names)

    def write_feed(self, signed: pa.Table) -> Files:
        if self.captures:
            self.captured.update(
                capture.capture(self.data.folder, reading.conform(signed, _weighted(self.data.schema)))
            )
        return files.write(self.feed, feed_rows(signed, self.version, self.now))

    def write_feed_frame(self, signed: DataFrame) -> Files:
        rows = feed_frame(signed, self.names, self.version, self.now)
        if self.captures:
            path = self.workspace.path()
            rows.select(*map(quote, self.names), FEED_KIND).write.parquet(path)
            self.captured.update(capture.said(files.adopt(path, self.data.folder, below=CAPTURES)))
        return self.write_frame(rows, self.feed)

    def write_frame(self, frame: DataFrame, folder: str) -> Files:
        path = self.workspace.path()
        frame.write.parquet(path)
        return files.adopt(path, folder)


@dataclass
class Applied:
    """Files to add to and remove from each table of a view, and the size of the minimal change. `rows` are those that the
    view has then. Finding rows and taking them out of the view's files took the seconds `deleting`."""

    inserted: int
    deleted: int
    rows: int
    deleting: float = 0.0
    adds: dict[str, Files] = field(default_factory=dict)
    removes: dict[str, Files] = field(default_factory=dict)

    @classmethod
    def to(cls, data: Snapshot, inserted: int, deleted: int) -> Applied:
        return cls(inserted, deleted, data.rows + inserted - deleted)

    def write(self, adds: Files, removes: Files, feed: Files) -> None:
        """Files of the view's rows and of its feed."""
        self.adds["data"], self.removes["data"], self.adds["feed"] = adds, removes, feed


@dataclass(frozen=True)
class Change:
    """The signed change of a view, consolidated, and the signed changes of its states."""

    rows: ComputedRows
    states: Mapping[str, ComputedRows] = field(default_factory=dict)

    def apply(self, tables: ViewTables) -> Applied:
        table = self.rows.table
        applied = self._apply_with_spark(tables) if table is None else apply_change(tables, table)
        for stage, rows in self.states.items():
            applied.adds[stage], applied.removes[stage] = append_to_log(tables.states[stage], rows)
        return applied

    def _apply_with_spark(self, tables: ViewTables) -> Applied:
        """Let Spark write the view anew from its old rows and the change."""
        signed = self.rows.frame(tables.workspace).cache()
        try:
            applied = Applied.to(tables.data, *_count_copies(signed))
            moved = consolidate(weigh(tables.frame(), 1).unionAll(signed), tables.names)
            rows = repeat(moved.where(f"{N} > 0"), *map(quote, tables.names))
            adds = tables.write_frame(rows, tables.data.folder)
            if sum(file.rows for file in adds) != applied.rows:
                raise drift_error(tables.view, bags.negated(moved.where(f"{N} < 0").toArrow()))
            applied.write(adds, tables.data.files, tables.write_feed_frame(signed))
        finally:
            signed.unpersist()
        return applied


@dataclass(frozen=True)
class Replacement:
    """`rows` take the place of all that a view has for the keys `touched`; `key` are the stored names of its columns."""

    key: tuple[str, ...]
    touched: pa.Table
    rows: pa.Table

    def apply(self, tables: ViewTables) -> Applied:
        """Apply the difference between the stored rows and the new rows of the touched keys."""
        done = replace_rows(tables.data, self.key, self.touched, self.rows)
        applied = Applied.to(tables.data, done.inserted.num_rows, done.deleted.num_rows)
        if applied.inserted or applied.deleted:
            signed = pa.concat_tables([bags.negated(bags.counted(done.deleted)), bags.counted(done.inserted)])
            applied.write(done.adds, done.removes, tables.write_feed(signed))
        applied.deleting = done.deleting
        return applied


@dataclass(frozen=True)
class Whole:
    """All rows of a view, and of its states: compared with the old rows for the feed, then put in their place."""

    rows: ComputedRows
    states: Mapping[str, ComputedRows] = field(default_factory=dict)

    def apply(self, tables: ViewTables) -> Applied:
        if self.rows.table is None:
            applied = self._apply_with_spark(tables)
        else:
            applied = apply_change(tables, difference(tables.data, self.rows.table))
        for stage, rows in self.states.items():
            log = tables.states[stage]
            applied.adds[stage], applied.removes[stage] = write_files(log.folder, rows), log.files
        return applied

    def _apply_with_spark(self, tables: ViewTables) -> Applied:
        signed = weigh(self.rows.frame(tables.workspace), 1).unionAll(weigh(tables.frame(), -1))
        feed = tables.write_feed_frame(consolidate(signed, tables.names))
        paths = (os.path.join(tables.feed, file.path) for file in feed)
        kinds = count_kinds([locations.read_parquet(path, [FEED_KIND]).column(0) for path in paths])
        applied = Applied.to(tables.data, kinds["insert"], kinds["delete"])
        if feed:
            applied.write(write_files(tables.data.folder, self.rows), tables.data.files, feed)
        return applied


Result = Change | Replacement | Whole


@dataclass(frozen=True)
class Computed:
    """The result of running a plan for one view, and what it took: rows of tables that the driver looked through, and
    the rounds of a recursion."""

    result: Result
    looked_at: int = 0
    rounds: tuple[Round, ...] = ()

    @property
    def whole(self) -> Whole:
        """The result of a plan that computes everything."""
        assert isinstance(self.result, Whole)
        return self.result


def _weighted(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(N, pa.int64()))


def apply_change(tables: ViewTables, change: pa.Table) -> Applied:
    """A consolidated change that is on the driver."""
    deleted, inserted = bags.split(change)
    applied = Applied.to(tables.data, bags.total(inserted), bags.total(deleted))
    if change.num_rows:
        done = rewrite(tables.data, delete=deleted, insert=bags.repeat(inserted))
        if done.missing.num_rows:
            raise drift_error(tables.view, done.missing)
        applied.deleting = done.deleting
        applied.write(done.adds, done.removes, tables.write_feed(change))
    return applied


def difference(old: Snapshot, new: pa.Table) -> pa.Table:
    """The minimal change from a stored table to new contents."""
    before = bags.negated(bags.counted(reading.read(old)))
    after = reading.conform(bags.counted(new), before.schema)
    return bags.consolidate(pa.concat_tables([after, before]))


def append_to_log(log: Snapshot, change: ComputedRows) -> tuple[Files, Files]:
    """Files to add to and remove from the log of a state: when it has many small files, they are folded into one."""
    if change.table is None or change.empty:
        return write_files(log.folder, change), ()
    small = [f for f in log.files if f.rows * 4 < files.TARGET_ROWS]
    if len(small) < FOLD_FILES or sum(f.rows for f in small) > FOLD_ROWS:
        return write_files(log.folder, change), ()
    pieces = [reading.read_file(log, f) for f in small]
    folded = bags.consolidate(pa.concat_tables([*pieces, reading.conform(change.table, log.schema)]))
    return files.write(log.folder, folded), tuple(small)


def write_files(folder: str, rows: ComputedRows) -> Files:
    """Rows as files in the folder of a table; those that Spark wrote are moved there."""
    if rows.table is None:
        return files.adopt(rows.folder or "", folder)
    return files.write(folder, rows.table)


def drift_error(view: str, missing: pa.Table) -> NablaError:
    """The error for rows (with counts) that a change deletes and the view's table does not have."""
    shown = ", ".join(str(tuple(row.values())) for row in missing.drop_columns([N]).slice(0, SHOWN_ROWS).to_pylist())
    return NablaError(
        "NABLA_DRIFT",
        f"{bags.total(missing)} rows that should be deleted are not in the view: {shown}",
        place=f'view "{view}"',
        remedy=f'Somebody wrote to the view\'s table; rebuild it with refresh("{view}", mode="full").',
    )


def _count_copies(signed: DataFrame) -> tuple[int, int]:
    """The number of copies that a change inserts and deletes."""
    inserted, deleted = (F.sum(F.greatest(F.lit(0), sign * F.col(N))) for sign in (1, -1))
    row = signed.agg(inserted, deleted).first()
    assert row is not None
    return int(row[0] or 0), int(row[1] or 0)
