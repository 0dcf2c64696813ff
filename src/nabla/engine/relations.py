"""The relations that a refresh scans (tables and upstream views before and after, their changes, a view's own state), and the
rows that its queries give."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nabla._cached import cached_property
from nabla.algebra.clock import Moments
from nabla.algebra.expressions import Column, quote
from nabla.algebra.names import stored_fields
from nabla.algebra.nodes import At, Scan
from nabla.engine import types
from nabla.engine.driver.file_scan import FileScan, scan_change, scan_feed, scan_version
from nabla.engine.driver.key_lookup import MOST_LOOKED_UP, StoredScan
from nabla.engine.driver.row_search import MOST_ROWS
from nabla.engine.feed import FEED_COLUMNS, FEED_VERSION, changed_columns, signed_frame, signed_rows
from nabla.engine.sources import change_frame, inserted_frame, past_frame, snapshot_frame
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.errors import NablaError
from nabla.storage import bags, locations, reading
from nabla.storage.bags import N
from nabla.storage.changes import Change, between, key_columns, signed
from nabla.storage.files import DataFile
from nabla.storage.key_counts import align, count_keys, countable, from_whole, key_counts, make_key_counts, whole
from nabla.storage.table import Snapshot, StoredTable

if TYPE_CHECKING:
    from nabla.engine.recovery import Recovery

MOST_BYTES = 64 << 20
"""Rows that take more are not fetched."""
FEW_WRITTEN = 5_000
"""So many rows that Spark wrote are fetched to the driver, which computes with them sooner than Spark starts to."""
FEW = 100_000
"""Changed rows of which the driver looks up what they join."""


@dataclass(eq=False)
class Source:
    """A relation that a view reads, between the version it reflects and the one it is brought to.

    `names` are the columns as queries see them. `feed` is set for a view: its change is what it published, and the feed has all
    of that after version `feed_from`. `counted` are the stored columns whose keys are counted. Where `elsewhere` is set, only
    the change is read here, and rows from there.
    """

    name: str
    names: tuple[str, ...]
    table: StoredTable
    old: int
    new: int
    feed: Snapshot | None = None
    counted: frozenset[str] = frozenset()
    feed_from: int = 0
    elsewhere: Recovery | None = None

    @cached_property
    def before(self) -> Snapshot:
        """The old version as the log has it."""
        return self.table.listed(self.old)

    @cached_property
    def past_is_gone(self) -> bool:
        """Whether the old version cannot be read: others may have vacuumed what views still refer to. Its rows are then
        those of the new version less the change, which is the post-update form of the papers."""
        here = {path for file in self.after.files for path in file.paths}
        needed = {path for file in self.before.files for path in file.paths} - here
        return not all(locations.exists(os.path.join(self.before.folder, path)) for path in needed)

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
        return sum(f.rows for f in self.published_files())

    def published_files(self) -> tuple[DataFile, ...]:
        """The files of a view's feed that may hold what changed. NABLA_VERSION_GONE where the feed has lost some of it."""
        assert self.feed is not None
        if self.old < self.feed_from:
            raise shortened_feed(self.name, self.old, self.feed_from)
        return tuple(f for f in self.feed.files if self._published(f.minimum, f.maximum))

    def _published(self, minimum: Mapping[str, object], maximum: Mapping[str, object]) -> bool:
        low, high = minimum.get(FEED_VERSION, self.new), maximum.get(FEED_VERSION, self.new)
        return int(str(high)) > self.old and int(str(low)) <= self.new

    def change_rows(self) -> pa.Table:
        """The signed change under the stored names, consolidated, in memory."""
        if self.feed is None:
            return signed(self.change)
        feed = self.feed
        pieces = (reading.read_file(feed, file) for file in self.published_files())
        rows = pa.concat_tables([feed.schema.empty_table(), *pieces])
        return signed_rows(rows, self.after.schema.names, self.old, self.new)

    @cached_property
    def _change_rows(self) -> pa.Table | None:
        """The signed change, its columns in order and their weights last, if it is small enough to look at."""
        if self.changed_rows > MOST_LOOKED_UP:
            return None
        return self.change_rows()

    def changed_keys(self, fields: Sequence[str]) -> pa.Table:
        """The values of some columns in all changed rows, with repetitions; no other columns are read."""
        stored = [self.after.schema.names[self.names.index(f)] for f in fields]
        if self.feed is None:
            return key_columns(self.change, stored)
        empty = pa.schema([self.feed.schema.field(name) for name in stored]).empty_table()
        return pa.concat_tables([empty, *(self._published_keys(f, stored) for f in self.published_files())])

    def _published_keys(self, file: DataFile, columns: list[str]) -> pa.Table:
        assert self.feed is not None
        rows = reading.read_file(self.feed, file, [*columns, FEED_VERSION])
        return changed_columns(rows, columns, self.old, self.new)

    @property
    def one_commit(self) -> bool:
        """Whether the change is what one commit did: then nothing that it inserts was deleted again."""
        return self.new == self.old + 1 and (self.feed is not None or not (self.change.removed or self.change.captured))

    def held_insertions(self) -> pa.Table | None:
        """The inserted rows, if there are few enough to look at."""
        if self.changed_rows > FEW or self._change_rows is None:
            return None
        return self._change_rows.filter(pc.greater(self._change_rows[N], pa.scalar(0, pa.int64()))).drop_columns([N])

    def insertions(self, workspace: Workspace) -> DataFrame:
        """The inserted rows of a change that is one commit's."""
        if self.feed is None:
            return inserted_frame(workspace, self.change, self.names)
        return self._published_frame(workspace, self.feed).where(f"{N} > 0").drop(N)

    def never_null(self, field: str) -> bool:
        """Whether statistics tell that a column has no NULL in either version. Those of others are not relied on."""
        if self.elsewhere or not self.table.closed:
            return False
        stored = self.after.schema.names[self.names.index(field)]
        return all(file.nulls.get(stored) == 0 for version in (self.before, self.after) for file in version.files)

    def held_change(self, fields: tuple[str, ...]) -> pa.Table | None:
        """The columns of the changed rows, if there are few enough to look at."""
        if self._change_rows is None:
            return None
        places = [self.names.index(f) for f in fields]
        return self._change_rows.select(places).rename_columns(list(fields))

    @property
    def change_weights(self) -> pa.ChunkedArray:
        """The weights of the rows of `held_change`."""
        assert self._change_rows is not None
        return self._change_rows[N]

    def shown(self, at: At, column: str, values: pa.Array, alone: bool) -> tuple[pa.Table, pa.Array]:
        """The rows with values of a stored column for which the change shows all there are, and the values that are left.

        Where no other column is asked for (`alone`), the counts are all that there is to know.
        """
        change, kind = self._change_rows, self.after.schema.field(column).type
        nothing = self.after.schema.empty_table(), values
        if column not in self.counted or change is None or not countable(kind) or self.elsewhere:
            return nothing
        counts = key_counts(self.table, column, self.old)
        keys = pc.unique(whole(values.cast(kind).drop_null()))
        before = counts.of(self.old, keys) if counts else None
        if counts is None or before is None:
            return nothing
        if counts.outdated and self.table.is_made(self.new):
            make_key_counts(self.table, column, self.after)
        deleted, inserted = bags.split(change)
        here, gone = (deleted, inserted) if at is At.OLD else (inserted, deleted)
        shown, other = (align(count_keys(whole(rows[column]), rows[N]), keys) for rows in (here, gone))
        now = before if at is At.OLD else pc.subtract(pc.add(before, shown), other)
        if alone and (pc.sum(now).as_py() or 0) <= MOST_ROWS:
            copied = keys.take(bags.repeat_places(pc.max_element_wise(now, pa.scalar(0, pa.int64()))))
            return pa.table({column: from_whole(copied, kind)}), values.filter(values.is_null())
        settled = keys.filter(pc.equal(now, shown))
        rows = here.filter(pc.is_in(whole(here[column]), value_set=settled))
        left = values.filter(pc.invert(pc.is_in(whole(values.cast(kind)), value_set=settled)))
        return bags.repeat(rows), left

    def key(self, at: At) -> Hashable:
        if self.elsewhere and at is not At.DELTA:
            return (self.elsewhere.key, at, self.key(At.DELTA))
        versions = {At.OLD: (self.old,), At.NEW: (self.new,), At.DELTA: (self.old, self.new)}[at]
        if at is At.OLD and self.past_is_gone:
            return ("past", self.key(At.DELTA))
        return (self.table.folder, tuple(map(self.table.identity, versions)))

    def frame(self, workspace: Workspace, at: At) -> DataFrame:
        if self.elsewhere and at is not At.DELTA:
            return self.elsewhere.frame(workspace, self, at)
        if at is At.OLD and self.past_is_gone:
            return past_frame(workspace, self.change, self.names)
        if at is not At.DELTA:
            return snapshot_frame(workspace, self.at(at), self.names)
        if self.feed is None:
            return change_frame(workspace, self.change, self.names)
        return self._published_frame(workspace, self.feed)

    def _published_frame(self, workspace: Workspace, feed: Snapshot) -> DataFrame:
        only = replace(feed, files=self.published_files())
        rows = snapshot_frame(workspace, only, [*self.names, *FEED_COLUMNS])
        return signed_frame(rows, self.names, self.old, self.new)


def shortened_feed(view: str, version: int, begins: int) -> NablaError:
    """The error for changes that a feed does not have any more."""
    return NablaError(
        "NABLA_VERSION_GONE",
        f"the changes after version {version} are older than the feed is kept",
        place=f'feed of "{view}"',
        remedy=f"Changes after version {begins} are there. Read the view as it is, and its changes from then on.",
    )


@dataclass(eq=False)
class Relations:
    """All relations of one view's refresh. `states` are the logs of its stages, by the name under which plans scan them."""

    sources: Mapping[str, Source]
    states: Mapping[str, Snapshot]
    moments: Moments

    def shown(self, scan: Scan, column: str, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        if scan.table in self.states:
            return self.states[scan.table].schema.empty_table(), values
        return self.sources[scan.table].shown(scan.at, column, values, alone=len(scan.fields) == 1)

    def stored(self, scan: Scan, change: pa.Table | None = None) -> StoredScan | None:
        """The stored table that a scan reads; `change` are rows that a state has gained since it was stored."""
        if scan.at is At.DELTA:
            return None
        if scan.table in self.states:
            state = self.states[scan.table]
            names = state.schema.names
            fields = dict(zip([*(f"c{i}" for i in range(len(names) - 1)), N], names, strict=True))
            return StoredScan(state, fields, None if change is None else change.rename_columns(names), own=True)
        if scan.table not in self.sources:
            return None
        source = self.sources[scan.table]
        if source.elsewhere or (scan.at is At.OLD and source.past_is_gone):
            return None
        snapshot = source.at(scan.at)
        fields = dict(zip(source.names, snapshot.schema.names, strict=True))
        return StoredScan(snapshot, fields, own=source.table.closed)

    def files(self, scan: Scan, stored: StoredScan) -> FileScan | None:
        """The files of the table that a scan reads, where DuckDB can read them."""
        fields = {f: stored.fields[f] for f in scan.fields}
        return scan_version(stored.snapshot, fields, scan.table, stored.more) if stored.own else None

    def change_files(self, scan: Scan) -> FileScan | None:
        """The files with the change of a table or view, where DuckDB can read them."""
        source = self.sources.get(scan.table)
        if source is None or not source.table.closed:
            return None
        stored = dict(zip(source.names, source.after.schema.names, strict=True))
        fields = {f: stored[f] for f in scan.fields}
        if source.feed is None:
            return scan_change(source.change, fields, scan.table)
        published = replace(source.feed, files=source.published_files())
        places = dict(zip(source.names, published.schema.names, strict=False))
        return scan_feed(published, {f: places[f] for f in scan.fields}, source.old, source.new, scan.table)

    def frame(self, workspace: Workspace, table: str, at: At) -> DataFrame:
        if table in self.states:
            state = self.states[table]
            return snapshot_frame(workspace, state, [f"c{i}" for i in range(len(state.stored) - 1)] + [N])
        return self.sources[table].frame(workspace, at)


@dataclass(frozen=True)
class ComputedRows:
    """The result of a query: an Arrow table on the driver, or Parquet files that Spark wrote."""

    schema: StructType
    table: pa.Table | None = None
    folder: str | None = None

    @classmethod
    def none(cls, schema: StructType) -> ComputedRows:
        return cls(schema, table=types.arrow_schema(schema).empty_table())

    @property
    def empty(self) -> bool:
        return self.count == 0

    @property
    def count(self) -> int:
        if self.table is not None:
            return int(self.table.num_rows)
        return sum(locations.parquet_footer(p).num_rows for p in self.files())

    def files(self) -> list[str]:
        return locations.parquet_files(self.folder or "")

    def fetch(self, most: int) -> ComputedRows:
        """The same rows, on the driver if they are no more than that, and plain."""
        if self.table is not None or types.has_nested(self.schema):
            return self
        footers = [locations.parquet_footer(path) for path in self.files()]
        size = sum(f.row_group(i).total_byte_size for f in footers for i in range(f.num_row_groups))
        few = sum(f.num_rows for f in footers) <= most and size <= MOST_BYTES
        return ComputedRows(self.schema, table=self.read()) if few else self

    def read(self) -> pa.Table:
        """The rows on the driver, wherever they are."""
        if self.table is not None:
            return self.table
        pieces = [types.conform(locations.read_parquet(path), self.schema) for path in self.files()]
        return pa.concat_tables([types.arrow_schema(self.schema).empty_table(), *pieces])

    def frame(self, workspace: Workspace) -> DataFrame:
        if self.table is not None:
            return workspace.hold(self.table, self.schema)
        return read_parquet(workspace.session, self.files(), self.schema)


def write_rows(frame: DataFrame, schema: StructType, path: str) -> ComputedRows:
    """Lets Spark write the rows of a query. They pass the driver only if they are few."""
    fit(frame, schema).write.parquet(path)
    return ComputedRows(schema, folder=path).fetch(FEW_WRITTEN)


def fit(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with the stored names and types, column by column."""
    renamed = frame.toDF(*schema.names)
    if [f.dataType for f in renamed.schema.fields] == [f.dataType for f in schema.fields]:
        return renamed
    return renamed.select(*[renamed[quote(f.name)].cast(f.dataType).alias(f.name) for f in schema.fields])


def hidden_schema(columns: Sequence[Column]) -> StructType:
    """The schema of a hidden relation with these columns, which are stored by position."""
    return _hidden_schema(tuple(columns))


@lru_cache(maxsize=1024)
def _hidden_schema(columns: tuple[Column, ...]) -> StructType:
    names = stored_fields(columns)
    raw = StructType([StructField(n, types.type_of(c.type)) for n, c in zip(names, columns, strict=True)])
    return types.to_stored(raw, names)
