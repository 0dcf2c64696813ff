"""The change of a table between two versions, whoever made it.

Cheapest first, commit by commit: what Nabla's own transactions recorded (a file of rows with signed counts, named in
the commit); nothing at all where a commit only rearranged rows; the change data feed of a writer that keeps one; else
the files that were added and removed, which is true for any writer. Rows that both sides of that difference hold cancel
when it is consolidated. The old version itself need not be readable for this, as long as the pieces are.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from nabla._cached import cached_property
from nabla.errors import MissingFile, NablaError
from nabla.storage import bags, boundary, files, locations, reading
from nabla.storage.boundary import CHANGES
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.deltalog import CaptureFile, gone
from nabla.storage.files import DataFile
from nabla.storage.parquet import read_columns
from nabla.storage.table import Snapshot, StoredTable

FOLDER = CHANGES
"""The folder of recorded changes, in the table's folder; its `_` hides it from other readers and their vacuums."""

KEY = "change"
"""The key in a commit's metadata that lists its recorded change. An empty list says that nothing changed."""

RECORDED_ROWS = 500_000
"""A larger change of a table need not be recorded where its added and removed files say it all."""

CHANGE_TYPE, GAINED = "_change_type", ("insert", "update_postimage")
"""The column of a change data feed that says what happened to a row, and what it says of rows that the table gained."""

SPLIT = 32_768
"""Rows a file of a recorded change: a larger one is read by several tasks."""

_Difference = tuple[tuple[DataFile, ...], tuple[DataFile, ...]]


@dataclass(frozen=True)
class ChangeFile:
    """A Parquet file with a table's columns and `_n`: `rows` rows, that insert and delete so many copies."""

    path: str
    rows: int
    inserted: int
    deleted: int

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "rows": self.rows, "inserted": self.inserted, "deleted": self.deleted}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        return cls(json["path"], json["rows"], json["inserted"], json["deleted"])


@dataclass(frozen=True)
class Change:
    """The pieces whose sum is the change from `old` to `new`: rows as recorded or captured, plus `added`, less `removed`.

    A file whose deletion vector changed is among `added` or `removed` with a mask of just the rows it concerns.
    `captured` are files of a change data feed: rows of `feed`, that say in their last column what happened to them.
    """

    old: Snapshot
    new: Snapshot
    recorded: tuple[ChangeFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    captured: tuple[DataFile, ...] = ()

    @cached_property
    def feed(self) -> Snapshot:
        """The captured files as a table of their own."""
        schema = json.loads(self.new.schema_json)
        kind = {"name": CHANGE_TYPE, "type": "string", "nullable": False, "metadata": {}}
        wider = json.dumps({**schema, "fields": [*schema["fields"], kind]})
        return replace(
            self.new, schema_json=wider, stored={**self.new.stored, CHANGE_TYPE: CHANGE_TYPE}, files=self.captured
        )

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at."""
        return not (self.recorded or self.added or self.removed or self.captured)

    @property
    def rows(self) -> int:
        """The number of rows to read, an upper bound for the changed rows."""
        files = (*self.added, *self.removed, *self.captured)
        return sum(file.rows for file in self.recorded) + sum(file.rows for file in files)


def between(table: StoredTable, old: int, new: int) -> Change:
    """The change from version `old` to `new` (or back, for an older `new`: then as files)."""
    before, after = table.listed(old), table.snapshot(new)
    if new < old and has_same_rows(table, new, old):
        return Change(before, after)
    if old <= new:
        try:
            summed = _by_commit(table, before, after)
        except MissingFile:
            summed = None  # a deletion vector of a version in between was vacuumed
        except NablaError as error:
            if error.code != "NABLA_VERSION_GONE":
                raise
            summed = None  # the log of a version in between was cleaned up; both ends are still here
        if summed is not None:
            return summed
    try:
        added, removed = difference(before, after)
    except MissingFile as error:
        raise gone(table.folder, old, "its files were vacuumed") from error
    if not _present(table, removed):
        raise gone(table.folder, old, "its files were vacuumed")
    return Change(before, after, (), added, removed)


def has_same_rows(table: StoredTable, old: int, new: int) -> bool:
    """Whether all commits after version `old` and up to `new` only wrote rows into other files, as far as they tell."""
    return all(
        commit is not None and (commit.metadata.get(KEY) == [] or not commit.data_change)
        for commit in table.commits(old, new)
    )


def signed(change: Change) -> pa.Table:
    """The change in memory: its rows with their counts `_n`, consolidated."""
    schema = change.new.schema.append(pa.field(bags.N, pa.int64()))
    recorded = [read_recorded(change.new, file) for file in change.recorded]
    added = [bags.counted(reading.read_file(change.new, file)) for file in change.added]
    removed = [bags.negated(bags.counted(reading.read_file(change.old, file))) for file in change.removed]
    captured = [_weighted(reading.read_file(change.feed, file)) for file in change.captured]
    return bags.consolidate(pa.concat_tables([schema.empty_table(), *recorded, *added, *removed, *captured]))


def key_columns(change: Change, columns: list[str]) -> pa.Table:
    """Some columns of all changed rows, with repetitions."""
    schema = pa.schema([change.new.schema.field(name) for name in columns])
    recorded = [read_recorded(change.new, file, columns) for file in change.recorded]
    added = [reading.read_file(change.new, file, columns) for file in change.added]
    removed = [reading.read_file(change.old, file, columns) for file in change.removed]
    captured = [reading.read_file(change.feed, file, columns) for file in change.captured]
    return pa.concat_tables([schema.empty_table(), *recorded, *added, *removed, *captured])


def record(folder: str, change: pa.Table) -> tuple[ChangeFile, ...]:
    """Write a consolidated change (rows with `_n`) into the table's folder; nothing for an empty one.

    Insertions and deletions of a large change are in files of their own, for readers that need but one of them.
    """
    if change.num_rows <= SPLIT:
        return _recorded(folder, change)
    sign = pc.greater(change[bags.N], pa.scalar(0, pa.int64()))
    return _recorded(folder, change.filter(pc.invert(sign))) + _recorded(folder, change.filter(sign))


def _recorded(folder: str, change: pa.Table) -> tuple[ChangeFile, ...]:
    written = files.write(folder, change, rows=SPLIT, below=FOLDER)
    counts, found = change[bags.N], []
    for file in written:
        own, counts = counts.slice(0, file.rows), counts.slice(file.rows)
        inserted = pc.sum(own.filter(pc.greater(own, pa.scalar(0, pa.int64())))).as_py() or 0
        found.append(ChangeFile(file.path, file.rows, inserted, inserted - pc.sum(own).as_py()))
    return tuple(found)


def read_recorded(snapshot: Snapshot, file: ChangeFile, columns: list[str] | None = None) -> pa.Table:
    """The rows of a recorded change, or some columns of them, with the types of the table."""
    schema = snapshot.schema.append(pa.field(bags.N, pa.int64()))
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    with locations.parquet_file(os.path.join(snapshot.folder, file.path)) as parquet:
        rows = read_columns(parquet, schema.names)
    return reading.conform(rows, schema)


def _by_commit(table: StoredTable, before: Snapshot, after: Snapshot) -> Change | None:
    """The change as the sum of what each commit did, or None where that cannot be told (any more)."""
    recorded: list[ChangeFile] = []
    captured: list[DataFile] = []
    spans: list[tuple[int, int]] = []
    for commit in table.commits(before.version, after.version):
        if commit is None:
            return None
        if KEY in commit.metadata:
            found = [ChangeFile.from_json(file) for file in commit.metadata[KEY]]
            _check_places(table, found)
            recorded += found
        elif commit.captured and _understood(after) and _present(table, commit.captured):
            _check_places(table, commit.captured)
            captured += (_captured(after, file) for file in commit.captured)
        elif commit.data_change:
            if spans and spans[-1][1] == commit.version - 1:
                spans[-1] = (spans[-1][0], commit.version)
            else:
                spans.append((commit.version - 1, commit.version))
    differences = [difference(table.listed(start), table.listed(end)) for start, end in spans]
    summed = _summed(differences)
    if summed is None or not _present(table, (*recorded, *summed[0], *summed[1])):
        return None
    return Change(before, after, tuple(recorded), *summed, tuple(captured))


def _check_places(table: StoredTable, files: Sequence[ChangeFile | CaptureFile]) -> None:
    """Refuse changes of a table of the lake that are not in its folder."""
    if table.closed:
        boundary.check_files((file.path for file in files), table.folder)
        boundary.check_links((file.path for file in files), table.folder)


def _present(table: StoredTable, files: Iterable[ChangeFile | DataFile | CaptureFile]) -> bool:
    named = (file.paths if isinstance(file, DataFile) else (file.path,) for file in files)
    return all(locations.exists(os.path.join(table.folder, path)) for paths in named for path in paths)


def _understood(snapshot: Snapshot) -> bool:
    """Whether the feed's partition values can be read: only its writer knows the zone of a timestamp's text."""
    return not any(pa.types.is_timestamp(snapshot.schema.field(name).type) for name in snapshot.partitioned_by)


def _captured(snapshot: Snapshot, file: CaptureFile) -> DataFile:
    """A file of a change data feed. Of its rows the log says nothing, of partition values only what they are as text."""
    logical = {stored: name for name, stored in snapshot.stored.items()}
    texts = {logical.get(stored, stored): pa.scalar(text, pa.string()) for stored, text in file.partition.items()}
    partition = {name: text.cast(snapshot.schema.field(name).type).as_py() for name, text in texts.items()}
    rows = locations.parquet_footer(os.path.join(snapshot.folder, file.path)).num_rows
    return DataFile(file.path, rows, file.bytes, partition=partition)


def _weighted(captured: pa.Table) -> pa.Table:
    gained = pc.is_in(captured[CHANGE_TYPE], value_set=pa.array(GAINED))
    weights = pc.if_else(gained, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    return captured.drop_columns([CHANGE_TYPE]).append_column(bags.N, weights)


def difference(before: Snapshot, after: Snapshot) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """The files that only the second or only the first of two versions has, with the rows that the other one does not show."""
    old = {file.path: file for file in before.files}
    new = {file.path: file for file in after.files}
    added = [_less(after.folder, file, old.get(path)) for path, file in new.items()]
    removed = [_less(after.folder, file, new.get(path)) for path, file in old.items()]
    return tuple(file for file in added if file), tuple(file for file in removed if file)


def _less(folder: str, file: DataFile, other: DataFile | None) -> DataFile | None:
    """The rows of a file that the same file of another version does not show, or None where there are none."""
    if other is None:
        return file
    if other.hidden is None or other.hidden == file.hidden:
        return None
    own = BitMap64() if file.hidden is None else file.hidden.marked(folder)
    only_here = other.hidden.marked(folder) - own
    return file.hiding(Hidden(file.written, bitmap=only_here.flip(0, file.written))) if only_here else None


def _summed(differences: Iterable[_Difference]) -> _Difference | None:
    """The sum of several differences, without the files that came and went.

    None where a file came twice, as happens when an optimized table is restored: readers expect a file but once.
    """
    net: Counter[tuple[str, object]] = Counter()
    known: dict[tuple[str, object], DataFile] = {}
    for added, removed in differences:
        known |= {_identity(file): file for file in (*added, *removed)}
        net.update(map(_identity, added))
        net.subtract(map(_identity, removed))
    if any(abs(n) > 1 for n in net.values()):
        return None
    return tuple(known[key] for key, n in net.items() if n > 0), tuple(known[key] for key, n in net.items() if n < 0)


def _identity(file: DataFile) -> tuple[str, object]:
    if file.hidden is None or file.hidden.vector is not None:
        return file.path, file.hidden
    return file.path, None if file.hidden.bitmap is None else file.hidden.bitmap.serialize()
