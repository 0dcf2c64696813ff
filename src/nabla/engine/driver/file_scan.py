"""Stored relations as DuckDB reads them: from the Parquet files of a version, and of these the columns and row groups that a
query needs.

Only tables of the lake are read so. Of files that others wrote, nobody knows whether both engines take their types for the
same: timestamps of 96 bits, texts without an encoding, dates of an old calendar.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from nabla.algebra.names import WEIGHT_FIELD
from nabla.engine.driver.duckdb_types import quote
from nabla.storage import locations
from nabla.storage.bags import N
from nabla.storage.files import DataFile, Snapshot

_PLAIN = (
    kinds.is_boolean,
    kinds.is_integer,
    kinds.is_decimal128,
    kinds.is_date32,
    kinds.is_string,
    kinds.is_binary,
    kinds.is_floating,
)

_WILD = "*?["
"""DuckDB takes a path with one of these for a pattern."""


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
    snapshot: Snapshot, fields: Mapping[str, str], label: str, more: pa.Table | None = None
) -> FileScan | None:
    """A version of a table, or None where DuckDB cannot read it. `fields` has the stored names of columns by those that the
    query uses, `more` are rows to add, under the stored names. Tables beside the files get names that begin with `label`."""
    if not fields or snapshot.partitioned_by or not _readable(snapshot, fields.values()):
        return None
    columns = [f"{quote(snapshot.stored[stored])} AS {quote(name)}" for name, stored in fields.items()]
    whole = [file for file in snapshot.files if file.keep is None]
    cut = [file for file in snapshot.files if file.keep is not None]
    texts: list[str] = []
    tables: dict[str, pa.Table] = {}
    if whole:
        texts.append(_select(columns, _read(map(snapshot.path, whole))))
    if cut:
        tables[f"{label} hidden"] = _hidden_rows(cut)
        same = "r.file_index = h.file AND r.file_row_number = h.place"
        hidden = f"ANTI JOIN {quote(f'{label} hidden')} AS h ON {same}"
        texts.append(_select(columns, f"{_read(map(snapshot.path, cut))} AS r {hidden}"))
    if more is not None or not texts:
        tables[f"{label} more"] = snapshot.schema.empty_table() if more is None else more
        named = (f"{quote(stored)} AS {quote(name)}" for name, stored in fields.items())
        texts.append(_select(named, quote(f"{label} more")))
    return FileScan(
        " UNION ALL ".join(texts),
        frozenset((os.path.dirname(snapshot.folder),)),
        snapshot.rows + (0 if more is None else more.num_rows),
        snapshot.bytes * len(fields) // len(snapshot.schema),
        tables,
    )


def scan_recorded(snapshot: Snapshot, paths: Sequence[str], fields: Mapping[str, str], rows: int) -> FileScan | None:
    """A change that was recorded in files with the columns of a table and weights, or None where DuckDB cannot read it."""
    if not paths or not _readable(snapshot, fields.values()):
        return None
    full = [os.path.join(snapshot.folder, path) for path in paths]
    columns = [f"{quote(stored)} AS {quote(name)}" for name, stored in fields.items()]
    return FileScan(
        _select([*columns, f"{quote(N)} AS {quote(WEIGHT_FIELD)}"], _read(full)),
        frozenset((os.path.dirname(snapshot.folder),)),
        rows,
        sum(map(locations.size, full)) * (len(fields) + 1) // (len(snapshot.schema) + 1),
    )


def _readable(snapshot: Snapshot, columns: Iterable[str]) -> bool:
    types = (snapshot.schema.field(name).type for name in columns)
    if locations.is_url(snapshot.folder) or any(sign in snapshot.folder for sign in _WILD):
        return False
    return all(any(is_kind(t) for is_kind in _PLAIN) for t in types)


def _select(columns: Iterable[str], source: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {source}"


def _read(paths: Iterable[str]) -> str:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def _hidden_rows(files: Sequence[DataFile]) -> pa.Table:
    """The places of rows that deletion vectors hide, for the files in this order."""
    places = [pc.indices_nonzero(pc.invert(file.keep)) for file in files]
    numbers = [pa.repeat(pa.scalar(i, pa.int64()), len(found)) for i, found in enumerate(places)]
    return pa.table({"file": pa.chunked_array(numbers), "place": pa.chunked_array(places).cast(pa.int64())})
