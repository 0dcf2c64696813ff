"""Rows of a stored table by their places: DuckDB decodes the asked-for values only, where Arrow and Spark decode all.

Columns of types that DuckDB might hand over in another form are read by Arrow, and so are small files.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import pyarrow as pa
import pyarrow.types as kinds

from nabla.storage import locations, reading
from nabla.storage.files import DataFile, Snapshot

_PLACE = "file_row_number"
PATTERN = frozenset("*?[")
"""Characters of a path that DuckDB would take for a pattern of paths."""
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "1GB",  # beyond it DuckDB spills to disk
    "temp_directory": os.path.join(tempfile.gettempdir(), f"nabla-duckdb-{os.getpid()}"),
    "python_enable_replacements": False,  # a name in a query is a registered table, never a variable of some function
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_LOCK = threading.Lock()
_LARGE = 50_000
"""Rows of a file from which on DuckDB is worth its start."""


@dataclass(frozen=True)
class Located:
    """Rows of a version whose places are known: `files` has their paths, `places` their numbers in these files. All rows that
    are to be deleted are `complete`ly among them, or there may be others."""

    rows: pa.Table
    files: pa.Array
    places: pa.Array
    complete: bool = False


def fetch_rows(snapshot: Snapshot, places: Mapping[str, pa.Array]) -> Located:
    """The rows at places of files of a table, in the order of the files and of ascending places."""
    pieces, files, numbers = [snapshot.schema.empty_table()], [pa.array([], pa.string())], [pa.array([], pa.int64())]
    for file in snapshot.files:
        if file.path in places:
            ordered = places[file.path].sort()
            pieces.append(fetch_from(snapshot, file, ordered))
            files.append(pa.repeat(pa.scalar(file.path), len(ordered)))
            numbers.append(ordered)
    return Located(pa.concat_tables(pieces), pa.concat_arrays(files), pa.concat_arrays(numbers))


def fetch_from(snapshot: Snapshot, file: DataFile, places: pa.Array) -> pa.Table:
    """The rows at ascending places of one file, hidden ones among them."""
    simple = [field.name for field in snapshot.schema if _is_simple(field)]
    suited = file.written >= _LARGE and not file.partition and not locations.is_url(snapshot.path(file))
    found = _by_duckdb(snapshot, file, places, simple) if suited else None
    if found is None:
        return reading.read_rows(snapshot, file, places)
    others = [name for name in snapshot.schema.names if name not in simple]
    if others:
        read = reading.read_rows(snapshot, file, places, others)
        for name in others:
            found = found.append_column(name, read[name])
    return reading.conform(found, snapshot.schema)


def _by_duckdb(snapshot: Snapshot, file: DataFile, places: pa.Array, names: Sequence[str]) -> pa.Table | None:
    """Some columns of the rows; None where DuckDB cannot read them."""
    path = snapshot.path(file)
    if not names or not PATTERN.isdisjoint(path):
        return None
    columns = ", ".join(f"t.{_quoted(snapshot.stored[name])} AS {_quoted(name)}" for name in names)
    text = (
        f"SELECT {columns} FROM read_parquet($path, {_PLACE} = true) t JOIN wanted USING ({_PLACE}) ORDER BY {_PLACE}"
    )
    try:
        with _LOCK:
            found = _run(text, path, pa.table({_PLACE: places}))
    except duckdb.Error:
        return None
    return found if found.num_rows == len(places) else None


def _run(text: str, path: str, wanted: pa.Table) -> pa.Table:
    database = _database()
    database.register("wanted", wanted)
    try:
        return database.sql(text, params={"path": path}).to_arrow_table()
    finally:
        database.unregister("wanted")


def _is_simple(field: pa.Field) -> bool:
    kind = field.type
    same = kinds.is_integer(kind) or kinds.is_string(kind) or kinds.is_date32(kind) or kinds.is_boolean(kind)
    return bool(same or kinds.is_float64(kind) or kinds.is_decimal128(kind)) and "\0" not in field.name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """The one connection of this process. A query has threads of its own, so queries need not run side by side."""
    database = duckdb.connect(":memory:", config=SETTINGS)
    atexit.register(_database.cache_clear)  # DuckDB would complain of a connection that is open when the process ends
    return database
