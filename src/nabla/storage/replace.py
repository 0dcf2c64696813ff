"""Rows replaced by key: the rows of a table that have some keys give way to new rows, file by file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from nabla.storage import bags, files, reading
from nabla.storage.equality import same_rows
from nabla.storage.files import DataFile
from nabla.storage.find_rows import may_hold
from nabla.storage.rewrite import Writer
from nabla.storage.table import Snapshot
from nabla.storage.uncommitted import in_thread

_THREADS = 4
_FALSE = pa.scalar(False, pa.bool_())

Places = Callable[[pa.Table], pa.Array]
"""For each of some keys the place where it stands, NULL where it does not."""


@dataclass(frozen=True)
class Replaced:
    """Files to add and remove in one commit, and the rows that went and came. A row that is as it was did neither. Finding the
    old rows and taking them out of their files took the seconds `deleting`."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    deleted: pa.Table
    inserted: pa.Table
    deleting: float


def replace_rows(snapshot: Snapshot, key: Sequence[str], touched: pa.Table, rows: pa.Table) -> Replaced:
    """Write what turns `snapshot` into itself with `rows` in the place of all rows that have a key in `touched`; commits
    nothing.

    `key` are columns whose values tell rows apart, in the table and in `rows`; `touched` has these columns, and the keys
    of `rows` among others. New versions of rows go where the old ones were, so that a clustered table stays one.
    """
    begun = time.perf_counter()
    writer = Writer(snapshot, files.target_rows(snapshot.rows + rows.num_rows), _sortable(snapshot, key))
    comparison = _Comparison(snapshot, key, touched, rows)
    parts = comparison.parts(lambda part: _written(part, writer))
    for part in parts:
        if part.left is not None:
            writer.replace(part.file, part.left)
        elif part.deleted.num_rows:
            writer.removed[part.file.path] = part.file
            writer.added += part.written
    deleting = time.perf_counter() - begun
    deleted, inserted, new = comparison.outcome(parts)
    writer.finish(new)
    return Replaced(tuple(writer.added), tuple(writer.removed.values()), deleted, inserted, deleting)


def compare_rows(
    snapshot: Snapshot, key: Sequence[str], touched: pa.Table, rows: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """The rows that `replace_rows` deletes and inserts. Writes nothing."""
    comparison = _Comparison(snapshot, key, touched, rows)
    return comparison.outcome(comparison.parts(lambda part: part))[:2]


@dataclass(frozen=True)
class _Part:
    """The replacement of one file: its other rows with the new versions, or the files that these were written to;
    `settled` are the places of new rows that are where they belong."""

    file: DataFile
    deleted: pa.Table
    inserted: pa.Table
    settled: pa.Array
    left: pa.Table | None = None
    written: tuple[DataFile, ...] = ()


def _written(part: _Part, writer: Writer) -> _Part:
    """Write the rows of a part, unless they are few: these are written later, together with others."""
    if part.left is None or writer.is_small(part.left.num_rows):
        return part
    return replace(part, left=None, written=writer.written(part.left))


class _Comparison:
    """New rows beside those that a table has, file by file."""

    def __init__(self, snapshot: Snapshot, key: Sequence[str], touched: pa.Table, rows: pa.Table) -> None:
        self.snapshot, self.key = snapshot, list(key)
        self.touched = reading.conform(touched, pa.schema([snapshot.schema.field(name) for name in key]))
        self.rows = reading.conform(rows, snapshot.schema)
        self.place_of = finder(self.rows.select(self.key))

    def parts(self, then: Callable[[_Part], _Part]) -> list[_Part]:
        """All files that have touched keys, several at a time."""

        def part(file: DataFile) -> _Part | None:
            found = self._part(file)
            return None if found is None else then(found)

        with ThreadPoolExecutor(_THREADS) as pool:
            return [found for found in pool.map(in_thread(part), self.snapshot.files) if found is not None]

    def outcome(self, parts: Sequence[_Part]) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The deleted rows, the inserted rows, and those of the inserted rows that no file has a place for."""
        settled = pa.chunked_array([part.settled for part in parts], pa.int64())
        new = self.rows.filter(pc.invert(pc.is_in(pa.arange(0, self.rows.num_rows), value_set=settled)))
        nothing = self.snapshot.schema.empty_table()
        deleted = pa.concat_tables([nothing, *(part.deleted for part in parts)])
        return deleted, pa.concat_tables([new, *(part.inserted for part in parts)]), new

    def _part(self, file: DataFile) -> _Part | None:
        touched = may_hold(file, self.touched)
        if touched.num_rows == 0:
            return None
        keys = reading.read_file(self.snapshot, file, self.key)
        here = pc.indices_nonzero(pc.is_valid(finder(touched)(keys)))
        if len(here) == 0:
            return None
        table = reading.read_file(self.snapshot, file)
        old, place = table.take(here), self.place_of(keys.take(here))
        stays = pc.is_valid(place)
        new = self.rows.take(place.filter(stays))
        same = same_rows(old.filter(stays), new)
        changed = new.filter(pc.invert(same))
        went = pc.invert(pc.replace_with_mask(pa.repeat(_FALSE, len(here)), stays, same))
        if not pc.any(went).as_py():
            return _Part(file, old.slice(0, 0), changed, place.filter(stays))
        gone = pc.is_in(pa.arange(0, table.num_rows), value_set=here.filter(went).cast(pa.int64()))
        left = pa.concat_tables([table.filter(pc.invert(gone)), changed])
        return _Part(file, old.filter(went), changed, place.filter(stays), left)


def finder(keys: pa.Table) -> Places:
    """The positions of distinct keys, for look-ups."""
    if keys.num_columns == 1 and not types.is_nested(keys.schema.types[0]):
        values = bags.groupable(keys.column(0)).combine_chunks()
        return lambda wanted: pc.index_in(
            bags.groupable(wanted.column(0)).combine_chunks(), value_set=values, skip_nulls=False
        ).cast(pa.int64())
    return lambda wanted: bags.positions(keys, wanted)


def _sortable(snapshot: Snapshot, key: Sequence[str]) -> list[str]:
    return [name for name in key if not types.is_nested(snapshot.schema.field(name).type)]
