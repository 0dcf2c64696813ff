"""Rows of a stored table by the values of a column, read by the driver.

Columns that are at hand are searched by Arrow, file by file, the key first. Files that nobody has looked into lately are
searched by DuckDB, which decodes less of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from nabla.algebra.memo import Memo
from nabla.engine.driver.driver_query import run
from nabla.engine.driver.file_scan import FEW_ROWS, FILE_NUMBER, scan_version
from nabla.storage import reading
from nabla.storage.files import DataFile
from nabla.storage.table import Snapshot

MOST_COMPARED = 2_000
"""Values that are compared with the statistics of files one by one; of more, stretches are."""
MOST_ROWS = 500_000
"""Keys that so many rows have are not selective: Spark joins better than the driver copies."""
READERS = 4


@dataclass
class _Part:
    """The rows of one file that match, and the columns of them that were read so far. Without a `mask`, these are all columns
    that are known, or no row matches."""

    file: DataFile
    mask: pa.ChunkedArray | None
    rows: int
    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    def has(self, columns: Sequence[str]) -> bool:
        """Whether the part can tell these columns."""
        return self.mask is not None or not self.rows or all(c in self.columns for c in columns)


_Parts = dict[tuple[str, int, str], _Part]
"""By path, deletion vector and key column."""


class RowSearch:
    """Looks values up. Two versions of a table share most files, and columns of these are read once for both."""

    def __init__(self) -> None:
        self._parts: Memo[pa.Array, _Parts] = Memo()
        self.looked_at = 0

    def rows(
        self,
        snapshot: Snapshot,
        key: str,
        values: pa.Array,
        columns: Sequence[str],
        most_looked_at: float = math.inf,
        *,
        own: bool = False,
    ) -> pa.Table | None:
        """The rows of a version whose column `key` has one of the values, NULL among them if it is given; None if too many
        have one, or would have to be looked at. `own` says that all files of the table are Nabla's."""
        wanted = values.cast(snapshot.schema.field(key).type)
        files = _that_may_have(wanted, snapshot.files, key)
        if sum(file.rows for file in files) > most_looked_at:
            return None
        parts = self._parts.setdefault(values, {})
        if own and len(wanted) and self._scan(parts, snapshot, files, key, wanted, columns) > MOST_ROWS:
            return None
        taken: list[int] = []

        def read(file: DataFile) -> pa.Table | None:
            if sum(taken) > MOST_ROWS:
                return None
            part = self._part(parts, snapshot, file, key, wanted, columns)
            taken.append(part.rows)
            return None if not part.rows or sum(taken) > MOST_ROWS else _table(snapshot, part, columns)

        with ThreadPoolExecutor(READERS) as pool:
            pieces = [piece for piece in pool.map(read, files) if piece is not None] if len(wanted) else []
        if sum(taken) > MOST_ROWS:
            return None
        empty = pa.schema([snapshot.schema.field(c) for c in columns]).empty_table()
        return pa.concat_tables([empty, *pieces])

    def _scan(
        self,
        parts: _Parts,
        snapshot: Snapshot,
        files: Sequence[DataFile],
        key: str,
        wanted: pa.Array,
        columns: Sequence[str],
    ) -> int:
        """Let DuckDB look into the files that are not at hand, if that pays and it can read them. Gives the number of rows that
        it found, at most one more than are wanted."""
        if wanted.null_count or kinds.is_floating(wanted.type):
            return 0
        cold = [
            file
            for file in files
            if not ((known := parts.get(_name(snapshot, file, key))) and known.has(columns))
            and not reading.is_worth_keeping(snapshot, file, key)
        ]
        if sum(file.rows for file in cold) <= FEW_ROWS:
            return 0
        fields = {f"c{i}": column for i, column in enumerate(dict.fromkeys((key, *columns)))}
        scanned = scan_version(replace(snapshot, files=tuple(cold)), fields, "files", numbered=True)
        if scanned is None:
            return 0
        text = f"SELECT t0.* FROM t0 SEMI JOIN looked ON t0.c0 = looked.x LIMIT {MOST_ROWS + 1}"
        found = run(text, {"looked": pa.table({"x": wanted})}, {"t0": scanned})
        if found is None or found.num_rows > MOST_ROWS:
            return 0 if found is None else int(found.num_rows)
        self.looked_at += sum(file.rows for file in cold)
        for file, rows in zip(cold, _by_file(found, len(cold)), strict=True):
            held = {c: rows[f].cast(snapshot.schema.field(c).type) for f, c in fields.items()}
            parts[_name(snapshot, file, key)] = _Part(file, None, rows.num_rows, held)
        return int(found.num_rows)

    def _part(
        self,
        parts: _Parts,
        snapshot: Snapshot,
        file: DataFile,
        key: str,
        wanted: pa.Array,
        columns: Sequence[str],
    ) -> _Part:
        known = _name(snapshot, file, key)
        if known not in parts or not parts[known].has(columns):
            column = reading.looked_up(snapshot, file, [key])[key]
            self.looked_at += len(column)
            mask = pc.is_in(column, value_set=wanted)
            here = pc.sum(mask).as_py() or 0
            parts[known] = _Part(file, mask if here else None, here)
        return parts[known]


def _name(snapshot: Snapshot, file: DataFile, key: str) -> tuple[str, int, str]:
    return snapshot.path(file), id(file.hidden), key


def _by_file(rows: pa.Table, files: int) -> list[pa.Table]:
    """Rows parted by the number of the file that they come from."""
    rows = rows.sort_by(FILE_NUMBER)
    numbers = rows[FILE_NUMBER].to_pylist()
    ends = [bisect_left(numbers, number) for number in range(files + 1)]
    return [rows.slice(start, end - start) for start, end in pairwise(ends)]


def _table(snapshot: Snapshot, part: _Part, columns: Sequence[str]) -> pa.Table:
    missing = [c for c in columns if c not in part.columns]
    if missing:
        rows = reading.looked_up(snapshot, part.file, missing).filter(part.mask)
        part.columns.update(zip(missing, rows.columns, strict=True))
    return pa.table({c: part.columns[c] for c in columns})


def _that_may_have(wanted: pa.Array, files: Sequence[DataFile], key: str) -> list[DataFile]:
    """The files whose statistics leave room for one of the values, or for some value between them if they are many."""
    if kinds.is_floating(wanted.type):
        return list(files) if len(wanted) else []  # NaN has no order, so bounds cannot exclude it
    values = wanted.drop_null()
    if len(values) > MOST_COMPARED:
        values = pc.take(values, pc.sort_indices(values))
        every = len(values) // MOST_COMPARED + 1
        stretches = [
            (values[i].as_py(), values[min(i + every, len(values)) - 1].as_py()) for i in range(0, len(values), every)
        ]
    else:
        stretches = [(value, value) for value in sorted(values.to_pylist())]
    return [file for file in files if (wanted.null_count and file.nulls.get(key) != 0) or _meets(file, key, stretches)]


def _meets(file: DataFile, key: str, stretches: Sequence[tuple[Any, Any]]) -> bool:
    """Whether one of the stretches of values, in order, has a value between the smallest and the largest of a file."""
    smallest, largest = file.minimum.get(key), file.maximum.get(key)
    try:
        place = 0 if smallest is None else bisect_left(stretches, smallest, key=itemgetter(1))
        return place < len(stretches) and (largest is None or stretches[place][0] <= largest)
    except TypeError:
        return True
