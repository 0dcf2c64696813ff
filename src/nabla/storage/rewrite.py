"""A change applied to a table's files: deleted rows are marked, or their files written anew; small files are folded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from nabla.storage import deletion_vectors, files, machine, reading
from nabla.storage.deletion_vectors import Hidden, bitmap_of
from nabla.storage.files import DataFile
from nabla.storage.find_rows import Located, find_rows
from nabla.storage.table import Snapshot

_MANY = 16  # small files that a table may have before they are folded
MARKED_FROM = 4096
"""Rows of a file from which on deleted rows are marked. Writing a smaller file anew takes no longer than marking."""
MOST_HIDDEN = 1 / 3
"""The share of hidden rows up to which a file stays."""
MOST_MARKED = 2 / 3
"""The same for changes of millions of rows: what is left of a file is read and written again by whoever cleans up later."""


@dataclass(frozen=True)
class Rewrite:
    """Files to add and remove in one commit, and the rows (with counts) that were to be deleted but are not there. Finding the
    deleted rows and taking them out of their files took the seconds `deleting`."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    missing: pa.Table
    deleting: float = 0.0


def rewrite(
    snapshot: Snapshot,
    delete: pa.Table | None = None,
    insert: pa.Table | None = None,
    *,
    key: Sequence[str] = (),
    rows: int | None = None,
    known: Located | None = None,
) -> Rewrite:
    """Write what turns `snapshot` into itself less `delete` plus `insert`; commits nothing.

    `delete` holds rows, or rows with counts `_n`; so many copies go, from whichever files hold them. `known` are places
    where some of them stand. `key` are columns that tell rows apart: deletions are looked for there first, and folded files
    are sorted by them. Holds a few files in memory at a time, and `rows` rows beside them, which is also the size of the files
    it writes.
    """
    begun = time.perf_counter()
    rows = files.target_rows(snapshot.rows) if rows is None else rows
    writer = Writer(snapshot, rows, key)
    found = find_rows(snapshot, delete, key, known)
    for file in snapshot.files:
        if file.path in found.places:
            writer.hide(file, found.places[file.path])
    deleting = time.perf_counter() - begun
    writer.finish(insert)
    return Rewrite(tuple(writer.added), tuple(writer.removed.values()), found.missing, deleting)


def absent(snapshot: Snapshot, wanted: pa.Table, key: Sequence[str] = ()) -> pa.Table:
    """The rows of `wanted` (with counts) that a table does not hold so often. Writes nothing."""
    return find_rows(snapshot, wanted, key).missing


def pays_to_rewrite(file: DataFile, hidden: int) -> bool:
    """Whether a file of which so many rows would be hidden is written anew without them.

    Every reader reads hidden rows, too, only to leave them out. So a file that is small, or has many of them, is cheaper
    written once.
    """
    return file.written < MARKED_FROM or hidden > MOST_HIDDEN * file.written


@dataclass(frozen=True)
class Marked:
    """Files to add and remove in one commit, so that rows are gone; `rest` are those of the removed files of which somebody
    has to write the other rows, with these hidden."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    rest: tuple[DataFile, ...]


def mark(snapshot: Snapshot, places: Mapping[str, BitMap64]) -> Marked:
    """Take the rows at places of files out of a table, none of them hidden. Reads no data, however many rows there are."""
    hidden: list[tuple[DataFile, BitMap64]] = []
    removes, rest = [], []
    for file in snapshot.files:
        if file.path not in places:
            continue
        removes.append(file)
        gone = places[file.path]
        gone = gone if file.hidden is None else gone | file.hidden.marked(snapshot.folder)
        if snapshot.marks_rows and file.written >= MARKED_FROM and len(gone) <= MOST_MARKED * file.written:
            hidden.append((file, gone))
        elif len(gone) < file.written:
            rest.append(file.hiding(Hidden(file.written, bitmap=gone)))
    stored = deletion_vectors.store(snapshot.folder, [(file.written, rows) for file, rows in hidden]) if hidden else []
    adds = tuple(file.hiding(vector) for (file, _), vector in zip(hidden, stored, strict=True))
    machine.point("rewrite.done")
    return Marked(adds, tuple(removes), tuple(rest))


@dataclass
class Writer:
    """Collects rows and writes them as files of the right size."""

    snapshot: Snapshot
    rows: int
    key: Sequence[str]
    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, DataFile] = field(default_factory=dict)
    _waiting: list[pa.Table] = field(default_factory=list)
    _hidden: list[tuple[DataFile, BitMap64]] = field(default_factory=list)

    def hide(self, file: DataFile, places: pa.Array) -> None:
        """Take the rows at some places out of a file, none of them hidden: mark them, or write the file without them."""
        left = file.rows - len(places)
        if self.snapshot.marks_rows and not pays_to_rewrite(file, file.written - left):
            rows = bitmap_of(places)
            self.removed[file.path] = file
            self._hidden.append(
                (file, rows if file.hidden is None else rows | file.hidden.marked(self.snapshot.folder))
            )
            return
        self.replace(file, self._without(file, places) if left else self.snapshot.schema.empty_table())

    def _without(self, file: DataFile, places: pa.Array) -> pa.Table:
        """The rows of a file that are not at these places."""
        keep = pc.invert(pc.is_in(pa.arange(0, file.written), value_set=places))
        if file.hidden is not None:
            keep = pc.and_(keep, self.snapshot.keep(file))
        return reading.read_file(self.snapshot, replace(file, hidden=None, rows=file.written)).filter(keep)

    def replace(self, file: DataFile, remaining: pa.Table) -> None:
        """Remove a file in favour of rows. Those of a large file stay together, since files may be clustered."""
        self.removed[file.path] = file
        if self.is_small(remaining.num_rows):
            self.write(remaining)
        else:
            self.added += self.written(remaining)

    def is_small(self, count: int) -> bool:
        return count * 4 < self.rows

    def written(self, rows: pa.Table) -> tuple[DataFile, ...]:
        """Write the rows that are left of a large file. Twice the size is fine: where a table shrinks, every file is a little
        larger than files should be."""
        return files.write(self.snapshot.folder, rows, rows=2 * self.rows)

    def finish(self, insert: pa.Table | None) -> None:
        """Fold small files and write what is new."""
        for file in self._to_fold():
            self.replace(file, reading.read_file(self.snapshot, file))
        if insert is not None:
            self.write(reading.conform(insert, self.snapshot.schema))
        self.flush()
        if self._hidden:
            stored = deletion_vectors.store(self.snapshot.folder, [(file.written, rows) for file, rows in self._hidden])
            self.added += (file.hiding(hidden) for (file, _), hidden in zip(self._hidden, stored, strict=True))
        machine.point("rewrite.done")

    def _to_fold(self) -> Iterator[DataFile]:
        """The smallest of the small files, where there are many; not so many that one change pays for a whole table."""
        small = [file for file in self.snapshot.files if self.is_small(file.rows) and file.path not in self.removed]
        if len(small) <= _MANY:
            return
        budget = 2 * self.rows
        for file in sorted(small, key=lambda file: file.rows):
            budget -= file.rows
            if budget < 0:
                break
            yield file

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        if sum(waiting.num_rows for waiting in self._waiting) >= self.rows:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            if self.key:
                table = table.sort_by([(name, "ascending") for name in self.key])
            self.added += files.write(self.snapshot.folder, table, rows=self.rows)
            self._waiting = []
