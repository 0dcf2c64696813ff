"""Small files of a table merged, and files rewritten of which many rows are hidden: other files with the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as types

from nabla.storage import bags, changes, deltalog, files, machine, reading
from nabla.storage.files import DataFile
from nabla.storage.rewrite import Writer
from nabla.storage.table import Snapshot

HIDDEN_SHARE = 0.1
"""The share of hidden rows from which on a file is written anew. Every reader would read them, only to leave them out."""
LARGE_BYTES = 32 << 20
"""A file of so many bytes is not small, however few rows it has."""

UNCHANGED = {deltalog.REARRANGED: True, changes.KEY: []}
"""The metadata of a commit that changes files and no row: no view and no reader of changes takes it for a change."""


@dataclass(frozen=True)
class Compaction:
    """Files to add and to remove in one commit. `is_exact` says that both have the same rows; a state may have been summed up,
    which changes its rows and not what they add up to."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    is_exact: bool = True

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(
            self.adds + other.adds, self.removes + other.removes, is_exact=self.is_exact and other.is_exact
        )

    @property
    def saved_bytes(self) -> int:
        return sum(file.bytes for file in self.removes) - sum(file.bytes for file in self.adds)


def worn_files(listed: Iterable[DataFile], rows: int, least: int, most_rows: int | None = None) -> tuple[DataFile, ...]:
    """The files that are worth writing anew: those with many hidden rows, and small ones if there are at least `least` of them.

    `rows` is the size of files that the table should have, and `most_rows` bounds the work.
    """
    listed = tuple(listed)
    small = sorted((file for file in listed if is_small(file, rows)), key=lambda file: file.written)
    hiding = [file for file in listed if not is_small(file, rows) and _hidden_share(file) >= HIDDEN_SHARE]
    chosen = [*sorted(hiding, key=_hidden_share, reverse=True), *(small if len(small) >= least else ())]
    if most_rows is None:
        return tuple(chosen)
    found, left = [], most_rows
    for file in chosen:
        left -= file.written
        if left >= 0:
            found.append(file)
    is_alone = len(found) == 1 and is_small(found[0], rows)
    return () if is_alone else tuple(found)


def is_small(file: DataFile, rows: int) -> bool:
    return file.rows * 4 < rows and file.bytes < LARGE_BYTES


def compact(snapshot: Snapshot, chosen: Sequence[DataFile], rows: int, key: Sequence[str] = ()) -> Compaction:
    """Write the rows of some files of a table into files of about `rows` rows; commits nothing. Small files are sorted by
    `key`, if its columns can be."""
    sortable = [name for name in key if name in snapshot.schema.names and _is_sortable(snapshot, name)]
    writer = Writer(snapshot, rows, sortable)
    for file in chosen:
        writer.replace(file, reading.read_file(snapshot, file))
    writer.flush()
    machine.point("compact.written")
    return Compaction(tuple(writer.added), tuple(writer.removed.values()))


def sum_up(snapshot: Snapshot, chosen: Sequence[DataFile]) -> Compaction:
    """The same for a log of signed rows, whose equal rows are added up."""
    rows = pa.concat_tables([reading.read_file(snapshot, file) for file in chosen])
    summed = bags.consolidate(rows)
    adds = files.write(snapshot.folder, summed)
    machine.point("compact.written")
    return Compaction(adds, tuple(chosen), is_exact=summed.num_rows == rows.num_rows)


def _hidden_share(file: DataFile) -> float:
    return 0.0 if file.hidden is None or not file.written else 1 - file.rows / file.written


def _is_sortable(snapshot: Snapshot, name: str) -> bool:
    return not types.is_nested(snapshot.schema.field(name).type)
