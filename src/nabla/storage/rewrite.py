"""A change applied to a table's files: only files that hold deleted rows are rewritten, small ones are folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from nabla.storage import bags, files, machine, reading
from nabla.storage.files import DataFile
from nabla.storage.statistics import bounded
from nabla.storage.table import Snapshot

_ZERO = pa.scalar(0, pa.int64())
_TRUE = pa.scalar(True, pa.bool_())
_FEW_ROWS = 512
_MANY = 16  # small files that a table may have before they are folded


@dataclass(frozen=True)
class Rewrite:
    """Files to add and remove in one commit, and the rows (with counts) that were to be deleted but are not there."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    missing: pa.Table


def rewrite(
    snapshot: Snapshot,
    delete: pa.Table | None = None,
    insert: pa.Table | None = None,
    *,
    key: Sequence[str] = (),
    rows: int | None = None,
) -> Rewrite:
    """Write what turns `snapshot` into itself less `delete` plus `insert`; commits nothing.

    `delete` holds rows, or rows with counts `_n`; so many copies go, from whichever files hold them. `key` are columns
    that tell rows apart: deletions are looked for there first, and folded files are sorted by them. Holds one file in
    memory at a time, and `rows` rows beside it, which is also the size of the files it writes.
    """
    rows = files.target_rows(snapshot.rows) if rows is None else rows
    writer = Writer(snapshot, rows, key)
    left = _search(snapshot, delete, key, writer.replace)
    writer.finish(insert)
    return Rewrite(tuple(writer.added), tuple(writer.removed.values()), left)


def absent(snapshot: Snapshot, wanted: pa.Table, key: Sequence[str] = ()) -> pa.Table:
    """The rows of `wanted` (with counts) that a table does not hold so often. Writes nothing."""
    return _search(snapshot, wanted, key, lambda file, remaining: None)


@dataclass
class Writer:
    """Collects rows and writes them as files of the right size."""

    snapshot: Snapshot
    rows: int
    key: Sequence[str]
    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, DataFile] = field(default_factory=dict)
    _waiting: list[pa.Table] = field(default_factory=list)

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


def may_hold(file: DataFile, wanted: pa.Table) -> pa.Table:
    """The rows of `wanted` that the statistics of a file do not exclude."""
    for column in wanted.schema:
        if wanted.num_rows == 0:
            break
        mask = _admitted(file, column, wanted[column.name])
        if mask is not None:
            wanted = wanted.filter(mask)
    return wanted


def _search(
    snapshot: Snapshot, delete: pa.Table | None, key: Sequence[str], found_in: Callable[[DataFile, pa.Table], None]
) -> pa.Table:
    """Call `found_in` with every file that holds rows to delete and its other rows; gives what was not found."""
    counted = snapshot.schema.append(pa.field(bags.N, pa.int64()))
    if delete is None or delete.num_rows == 0:
        return counted.empty_table()
    left = bags.consolidate(reading.conform(bags.counted(delete), counted))
    for file in snapshot.files:
        if left.num_rows == 0:
            break
        near = may_hold(file, left)
        if near.num_rows == 0 or not _holds_candidates(snapshot, file, near, key):
            continue
        table = reading.read_file(snapshot, file)
        remain, found = bags.subtract(table, near)
        if pc.any(pc.greater(found, _ZERO)).as_py():
            found_in(file, table.filter(remain))
            left = _reduced(left, near, found)
    return left


def _holds_candidates(snapshot: Snapshot, file: DataFile, wanted: pa.Table, key: Sequence[str]) -> bool:
    """Whether the file's most telling column has any of the wanted values: most files are done with after that. A small file
    is read as quickly as one of its columns."""
    telling = bags.deciding(wanted, key)[:1] if file.rows > _FEW_ROWS else []
    if not telling:
        return True
    return len(bags.candidates(reading.read_file(snapshot, file, telling), wanted, key)) > 0


def _reduced(left: pa.Table, near: pa.Table, found: pa.Array) -> pa.Table:
    """The rows that are still to be found. Equal rows of `left` and `near` are identical, so their difference is exact."""
    place = near.num_columns - 1
    taken = near.set_column(place, near.schema.field(bags.N), pc.negate(found)).filter(pc.greater(found, _ZERO))
    return bags.consolidate(pa.concat_tables([left, taken]))


def _admitted(file: DataFile, column: pa.Field, values: pa.ChunkedArray) -> pa.Array | None:
    """The values that the bounds of a file's column allow, as a mask; None if they are unknown."""
    if column.name == bags.N or not bounded(column.type):
        return None
    nulls = file.nulls.get(column.name)
    if nulls == file.rows:
        return pc.is_null(values)
    inside = pa.repeat(_TRUE, len(values))
    if column.name in file.minimum:
        inside = pc.and_(inside, pc.greater_equal(values, pa.scalar(file.minimum[column.name], column.type)))
    if column.name in file.maximum:
        inside = pc.and_(inside, pc.less_equal(values, pa.scalar(file.maximum[column.name], column.type)))
    if pa.types.is_floating(column.type):
        inside = pc.or_(inside, pc.is_nan(values))  # compares as false with every bound
    return pc.if_else(pc.is_null(values), pa.scalar(nulls != 0, pa.bool_()), inside)
