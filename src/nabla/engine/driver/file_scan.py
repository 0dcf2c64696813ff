"""Stored relations as DuckDB reads them: from the Parquet files of a version, and of these the columns and row groups that a
query needs.

Only tables of the lake are read so. Of files that others wrote, nobody knows whether both engines take their types for the
same: timestamps of 96 bits, texts without an encoding, dates of an old calendar.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as kinds

from nabla.algebra.names import WEIGHT_FIELD
from nabla.engine.driver.duckdb_types import quote
from nabla.engine.feed import FEED_KIND, FEED_VERSION
from nabla.storage import locations
from nabla.storage.altered_table import ADDED, added_columns
from nabla.storage.bags import N
from nabla.storage.changes import Change
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import DataFile, Snapshot
from nabla.storage.find_rows import PATTERN

_PLAIN = (
    kinds.is_boolean,
    kinds.is_integer,
    kinds.is_decimal128,
    kinds.is_date32,
    kinds.is_string,
    kinds.is_binary,
    kinds.is_floating,
)

FILE_NUMBER = "file_number"
FEW_ROWS = 100_000
"""So many rows are read by Arrow sooner than DuckDB has begun."""


@dataclass(frozen=True)
class FileScan:
    """A relation in files: the SQL that reads its rows, the folders where it finds them, tables that the SQL reads beside
    the files, and how much there is to read."""

    text: str
    folders: frozenset[str]
    rows: int
    bytes: int
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


def scan_version(
    snapshot: Snapshot,
    fields: Mapping[str, str],
    label: str,
    more: pa.Table | None = None,
    *,
    numbered: bool = False,
    placed: tuple[str, str] | None = None,
) -> FileScan | None:
    """A version of a table, or None where DuckDB cannot read it. `fields` has the stored names of columns by those that the
    query uses, `more` are rows to add, under the stored names. Tables beside the files get names that begin with `label`. Rows
    can be `numbered`: a last column has the place of their file in the version. `placed` are names for two columns more: the
    place of their file, and their own place in it."""
    if not (fields or placed) or snapshot.partitioned_by or not _readable(snapshot, fields.values()):
        return None
    columns = [f"{quote(snapshot.stored[stored])} AS {quote(name)}" for name, stored in fields.items()]
    whole = [i for i, file in enumerate(snapshot.files) if file.hidden is None]
    cut = [i for i, file in enumerate(snapshot.files) if file.hidden is not None]

    def read(places: Sequence[int], hidden: str = "") -> str:
        file = f"CAST({list(places)}[CAST(r.file_index AS BIGINT) + 1] AS BIGINT)"
        number = [f"{file} AS {FILE_NUMBER}"] if numbered else []
        if placed:
            number += [f"{file} AS {quote(placed[0])}", f"r.file_row_number AS {quote(placed[1])}"]
        paths = (snapshot.path(snapshot.files[place]) for place in places)
        return _select([*columns, *number], f"{_read(paths)} AS r {hidden}")

    texts: list[str] = []
    tables: dict[str, pa.Table] = {}
    if whole:
        texts.append(read(whole))
    if cut:
        tables[f"{label} hidden"] = _hidden_rows(snapshot.folder, [snapshot.files[place] for place in cut])
        same = "r.file_index = h.file AND r.file_row_number = h.place"
        texts.append(read(cut, f"ANTI JOIN {quote(f'{label} hidden')} AS h ON {same}"))
    if more is not None or not texts:
        tables[f"{label} more"] = snapshot.schema.empty_table() if more is None else more
        named = (f"{quote(stored)} AS {quote(name)}" for name, stored in fields.items())
        texts.append(_select(named, quote(f"{label} more")))
    return FileScan(
        " UNION ALL ".join(texts),
        _folders(snapshot),
        snapshot.rows + (0 if more is None else more.num_rows),
        snapshot.bytes * max(len(fields), 1) // len(snapshot.schema),
        tables,
    )


def scan_change(change: Change, fields: Mapping[str, str], label: str) -> FileScan | None:
    """The signed change of a table, or None where DuckDB cannot read it. Files that were rewritten hold mostly the same rows
    before and after, which have to be added up first: they are left to others."""
    snapshot = change.new
    if change.captured or (change.added and change.removed) or not _readable(snapshot, fields.values()):
        return None
    columns = [f"{quote(stored)} AS {quote(name)}" for name, stored in fields.items()]
    texts: list[str] = []
    tables: dict[str, pa.Table] = {}
    size = 0
    if change.recorded:
        paths = [os.path.join(snapshot.folder, file.path) for file in change.recorded]
        texts.append(_select([*columns, f"{quote(N)} AS {quote(WEIGHT_FIELD)}"], _read(paths)))
        size = sum(map(locations.size, paths)) * (len(fields) + 1) // (len(snapshot.schema) + 1)
    for version, files, weight in ((snapshot, change.added, 1), (change.old, change.removed, -1)):
        if files:
            part = scan_version(replace(version, files=files), fields, f"{label} {weight}")
            if part is None:
                return None
            texts.append(f"SELECT *, CAST({weight} AS BIGINT) AS {quote(WEIGHT_FIELD)} FROM ({part.text})")
            tables |= part.tables
            size += part.bytes
    if not texts:
        return None
    return FileScan(" UNION ALL ".join(texts), _folders(snapshot), change.rows, size, tables)


def scan_feed(feed: Snapshot, fields: Mapping[str, str], after: int, upto: int, label: str) -> FileScan | None:
    """The signed change that a feed says was made after one version of a view and up to another."""
    inner = {**fields, FEED_KIND: FEED_KIND, FEED_VERSION: FEED_VERSION}
    found = scan_version(feed, inner, label)
    if found is None:
        return None
    weight = f"CAST(CASE WHEN {FEED_KIND} = 'insert' THEN 1 ELSE -1 END AS BIGINT) AS {quote(WEIGHT_FIELD)}"
    between = f"{FEED_VERSION} > {after} AND {FEED_VERSION} <= {upto}"
    text = f"{_select([*map(quote, fields), weight], f'({found.text})')} WHERE {between}"
    return replace(found, text=text)


def _folders(snapshot: Snapshot) -> frozenset[str]:
    """The folder of the lake's tables: one database of DuckDB, which may read there, serves them all."""
    return frozenset((os.path.dirname(snapshot.folder),))


def _readable(snapshot: Snapshot, columns: Iterable[str]) -> bool:
    columns = list(columns)
    if ADDED in snapshot.schema_json and not added_columns(snapshot.schema_json).isdisjoint(columns):
        # DuckDB refuses a file that lacks a column
        return False
    types = (snapshot.schema.field(name).type for name in columns)
    if locations.is_url(snapshot.folder) or not PATTERN.isdisjoint(snapshot.folder):
        return False
    return all(any(is_kind(t) for is_kind in _PLAIN) for t in types)


def _select(columns: Iterable[str], source: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {source}"


def _read(paths: Iterable[str]) -> str:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def _hidden_rows(folder: str, files: Sequence[DataFile]) -> pa.Table:
    """The places of rows that deletion vectors hide, for files of a table in this order."""
    places = [numbers_of(file.hidden.marked(folder)) for file in files if file.hidden is not None]
    numbers = [pa.repeat(pa.scalar(i, pa.int64()), len(found)) for i, found in enumerate(places)]
    return pa.table({"file": pa.chunked_array(numbers), "place": pa.chunked_array(places, pa.int64())})
