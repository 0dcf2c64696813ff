"""The number of rows for each key of a table: an index that proves that a look-up is unnecessary.

When an order arrives or goes together with its lines, the change itself holds all rows that a join can meet. The counts
prove it: if as many rows had the key before as the change deletes, the deleted ones are all there were. So nothing is
ever taken on trust from declared keys and foreign keys; they only tell which columns are worth counting.

The counts of one version are kept in a file beside the table's data: sorted keys and their counts, looked up in place.
Those of a later version follow from the changes in between, which transactions recorded.
"""

from __future__ import annotations

import os
import threading
import uuid
from bisect import bisect_left
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.types as kinds

from nabla.errors import NablaError
from nabla.storage import bags, locations, reading
from nabla.storage.boundary import KEYS
from nabla.storage.changes import Change, between
from nabla.storage.table import Snapshot, StoredTable

FOLDER = KEYS
"""The folder of counts, in the table's folder; its `_` hides it from other readers and their vacuums."""
MOST_CHANGES = 0.05
"""The share of changed rows from which on counting anew is cheaper than adding up changes."""
REMEMBERED = 16
_SUFFIX = ".arrow"
_MAKING = threading.Lock()


def countable(kind: pa.DataType) -> bool:
    """Whether values are whole numbers underneath, and equal exactly where these are."""
    return bool(kinds.is_integer(kind) or kinds.is_date32(kind) or (kinds.is_timestamp(kind) and kind.unit == "us"))


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The values as whole numbers."""
    return values.cast(pa.int32()).cast(pa.int64()) if kinds.is_date32(values.type) else values.cast(pa.int64())


def from_whole(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values that whole numbers stand for."""
    return (numbers.cast(pa.int32()) if kinds.is_date32(kind) else numbers).cast(kind)


@dataclass(frozen=True)
class Difference:
    """The difference of the counts to a later version, each key once, and the number of changed rows that were added up for
    it."""

    counts: pa.Table
    rows: int


_COUNTED = pa.schema([("key", pa.int64()), ("count", pa.int64())])
NO_DIFFERENCE = Difference(_COUNTED.empty_table(), 0)
FEW_KEYS = 64
"""A key in so many is found sooner by bisection than by a look at all keys."""


def count_keys(keys: pa.Array | pa.ChunkedArray, counts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Each key once, with the sum of its counts."""
    summed = pa.table([keys, counts], _COUNTED).group_by("key").aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select(_COUNTED.names)


def align(counted: pa.Table, keys: pa.Array) -> pa.Array:
    """The count of each of the keys, 0 for those that are not counted."""
    place = pc.index_in(keys, value_set=counted["key"])
    found = counted["count"].take(place).combine_chunks() if counted.num_rows else pa.nulls(len(keys), pa.int64())
    return pc.fill_null(found, pa.scalar(0, pa.int64()))


@dataclass
class KeyCounts:
    """The counts of one column of a table with so many rows. `later` are, by version, the differences to the counted one."""

    table: StoredTable
    column: str
    version: int
    rows: int
    keys: memoryview
    counts: memoryview
    counted: pa.Table
    later: OrderedDict[int, Difference] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def outdated(self) -> bool:
        """Whether so much has changed that counting anew is cheaper than adding up."""
        return any(difference.rows > MOST_CHANGES * self.rows for difference in self.later.values())

    def of(self, version: int, keys: pa.Array) -> pa.Array | None:
        """The number of rows with each of the (different) keys in a version; None if recorded changes do not tell it."""
        with self._lock:
            difference = self._difference(version)
        return None if difference is None else pc.add(self._counted(keys), align(difference.counts, keys))

    def at_most_once(self, version: int) -> bool:
        """Whether no key occurs twice in a version. False if recorded changes do not tell it."""
        with self._lock:
            difference = self._difference(version)
        if difference is None:
            return False
        twice = self.counted.filter(pc.greater(self.counted["count"], 1))["key"]
        moved = difference.counts["key"].drop_null()
        keys = pa.chunked_array([*twice.chunks, *moved.chunks], pa.int64()).unique()
        return not pc.any(pc.greater(pc.add(self._counted(keys), align(difference.counts, keys)), 1)).as_py()

    def _counted(self, keys: pa.Array) -> pa.Array:
        if len(keys) * FEW_KEYS < len(self.keys):
            return pa.array([self._count(key) for key in keys.to_pylist()], pa.int64())
        return align(self.counted.filter(pc.is_in(self.counted["key"], value_set=keys)), keys)

    def _count(self, key: int) -> int:
        place = bisect_left(self.keys, key)
        return self.counts[place] if place < len(self.keys) and self.keys[place] == key else 0

    def _difference(self, version: int) -> Difference | None:
        if version == self.version:
            return NO_DIFFERENCE
        if version not in self.later:
            known = max((v for v in self.later if v < version), default=self.version)
            change = _recorded_change(self.table, known, version) if known < version else None
            if change is None or change.added or change.removed or change.captured:
                return None
            self.later[version] = _added(self.later.get(known, NO_DIFFERENCE), change, self.column)
            while len(self.later) > REMEMBERED:
                self.later.popitem(last=False)
        return self.later[version]


def _recorded_change(table: StoredTable, old: int, new: int) -> Change | None:
    """The change between two versions; None where the log of the old one was trimmed."""
    try:
        return between(table, old, new)
    except NablaError as error:
        if error.code != "NABLA_VERSION_GONE":
            raise
        return None


def _added(difference: Difference, change: Change, column: str) -> Difference:
    pieces, added = [difference.counts], difference.rows
    for file in change.recorded:
        rows = locations.read_parquet(os.path.join(change.new.folder, file.path), [column, bags.N])
        added += rows.num_rows
        pieces.append(pa.table([whole(rows.column(0)), rows.column(1)], _COUNTED))
    summed = pa.concat_tables(pieces)
    return Difference(count_keys(summed["key"], summed["count"]), added)


def key_counts(table: StoredTable, column: str, version: int) -> KeyCounts | None:
    """The counts from which those of a version follow, if any were made."""
    made = _versions(table, column) if not locations.is_url(table.folder) else []
    usable = [v for v in made if table.schema_since <= v <= version]
    return _load(table.folder, column, max(usable)) if usable else None


def make_key_counts(table: StoredTable, column: str, snapshot: Snapshot) -> None:
    """Count the keys of a version, once: many views find out at the same time that it is worth it.

    Counts are mapped into memory, which takes a file of this machine. They only help: without them, rows are looked up.
    """
    if locations.is_url(table.folder):
        return
    with _MAKING, suppress(OSError):
        if snapshot.version not in _versions(table, column):
            _make(table, column, snapshot)


def _make(table: StoredTable, column: str, snapshot: Snapshot) -> None:
    values = pc.value_counts(whole(reading.read(snapshot, [column])[column].drop_null()))
    keys, counts = (values.field(name).cast(pa.int64()) for name in ("values", "counts"))
    rows = pa.table({"key": keys, "count": counts}).sort_by("key").combine_chunks()
    locations.make_folder(os.path.join(table.folder, FOLDER))
    path = _path(table.folder, column, snapshot.version)
    scratch = f"{path.removesuffix(_SUFFIX)}.{uuid.uuid4().hex}"
    locations.write(scratch, partial(_write, rows))
    locations.sync([scratch])  # after a power cut a file without content must not pass for counts
    locations.move(scratch, path)
    for older in _versions(table, column)[:-2]:
        with suppress(FileNotFoundError):
            locations.remove(_path(table.folder, column, older))


def _write(rows: pa.Table, path: str) -> None:
    with ipc.new_file(path, rows.schema) as file:
        file.write_table(rows, max_chunksize=max(1, rows.num_rows))


def _path(folder: str, column: str, version: int) -> str:
    return os.path.join(folder, FOLDER, f"{quote(column, safe='')}-{version}{_SUFFIX}")


def _versions(table: StoredTable, column: str) -> list[int]:
    folder = os.path.join(table.folder, FOLDER)
    names = locations.names(folder) if locations.is_folder(folder) else []
    found = (name.removesuffix(_SUFFIX).rpartition("-") for name in names if name.endswith(_SUFFIX))
    return sorted(int(version) for name, _, version in found if name == quote(column, safe=""))


@lru_cache(maxsize=64)
def _load(folder: str, column: str, version: int) -> KeyCounts | None:
    try:
        rows = ipc.open_file(pa.memory_map(_path(folder, column, version))).read_all()
    except OSError:
        return None  # counted anew by somebody else
    keys, counts = (_numbers(rows[name]) for name in ("key", "count"))
    return KeyCounts(StoredTable(folder), column, version, pc.sum(rows["count"]).as_py() or 0, keys, counts, rows)


def _numbers(column: pa.ChunkedArray) -> memoryview:
    if column.num_chunks == 0:
        return memoryview(b"").cast("q")
    (chunk,) = column.chunks
    return memoryview(chunk.buffers()[1]).cast("q")[chunk.offset : chunk.offset + len(chunk)]


def subset_of_keys(counts: KeyCounts, others: KeyCounts) -> bool:
    """Whether every key of one column is a key of another one, in the versions that were counted."""
    found = pc.all(pc.is_in(counts.counted["key"], value_set=others.counted["key"])).as_py()
    return bool(found) or counts.counted.num_rows == 0
