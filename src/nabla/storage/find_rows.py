"""Where rows stand: in which files of a table, and at which places there.

Statistics rule out most files. Of the others the most telling column is read, several files at a time, and of those that have
candidates the other columns at the places of these. There DuckDB decodes the asked-for values only, where Arrow and Spark
decode all; columns of types that DuckDB might hand over in another form are read by Arrow, and so are small files.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from nabla.storage import bags, locations, reading
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import DataFile, Snapshot
from nabla.storage.statistics import bounded

_TRUE = pa.scalar(True, pa.bool_())
_THREADS, _WORTH_THREADS = 4, 50_000
_FILE, _PLACE, _WANTED = "file", "place", "wanted"
_NUMBER = "file_row_number"  # as DuckDB calls places
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


@dataclass(frozen=True)
class Found:
    """The places of rows by the paths of their files, and the rows (with counts) that are not there."""

    places: Mapping[str, pa.Array]
    missing: pa.Table


def find_rows(
    snapshot: Snapshot, wanted: pa.Table | None, key: Sequence[str] = (), known: Located | None = None
) -> Found:
    """The places of `_n` copies of each wanted row (one, where there is no `_n`), no place twice.

    `key` are columns that tell rows apart, which are looked at first.
    """
    counted = snapshot.schema.append(pa.field(bags.N, pa.int64()))
    if wanted is None or wanted.num_rows == 0:
        return Found({}, counted.empty_table())
    if known is not None and known.complete and known.rows.num_rows == bags.total(bags.counted(wanted)):
        return Found(places_by_file(known.files, known.places), counted.empty_table())
    left = bags.consolidate(reading.conform(bags.counted(wanted), counted))
    places: list[pa.Table] = []
    if known is not None:
        at, what = bags.match(reading.conform(known.rows, snapshot.schema), left)
        places.append(_table(known.files.take(at), known.places.take(at), what))
        left = _without(left, what)
    if left.num_rows:
        taken = places_by_file(*(places[0][name].combine_chunks() for name in (_FILE, _PLACE))) if places else {}
        search = partial(_search, snapshot, left, key, taken)
        found = _first_copies(pa.concat_tables([_table(*_NONE), *_in_each(snapshot, search)]), left)
        left = _without(left, found[_WANTED].combine_chunks())
        places.append(found)
    every = pa.concat_tables(places)
    return Found(places_by_file(every[_FILE].combine_chunks(), every[_PLACE].combine_chunks()), left)


def _in_each(snapshot: Snapshot, search: Callable[[DataFile], pa.Table]) -> list[pa.Table]:
    """The results for all files, several at a time where that takes less time than to start threads."""
    if snapshot.rows < _WORTH_THREADS:
        return list(map(search, snapshot.files))
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(search, snapshot.files))


def may_hold(file: DataFile, wanted: pa.Table) -> pa.Table:
    """The rows of `wanted` that the statistics of a file do not exclude."""
    return wanted.take(_not_excluded(file, wanted))


def _not_excluded(file: DataFile, wanted: pa.Table) -> pa.Array:
    """The numbers of the rows that the statistics of a file do not exclude."""
    near = pa.arange(0, wanted.num_rows)
    for column in wanted.schema:
        if len(near) == 0:
            break
        values = wanted[column.name]
        mask = _admitted(file, column, values if len(near) == wanted.num_rows else values.take(near))
        if mask is not None:
            near = near.filter(mask)
    return near


def _search(
    snapshot: Snapshot, wanted: pa.Table, key: Sequence[str], taken: Mapping[str, pa.Array], file: DataFile
) -> pa.Table:
    """All places in a file of rows that are wanted, as many of each as there are copies wanted."""
    near = _not_excluded(file, wanted)
    if len(near) == 0:
        return _table(*_NONE)
    some = wanted.take(near)
    whole = replace(file, hidden=None, rows=file.written)
    telling = bags.deciding(some, key)[:1]
    places = pa.arange(0, file.written)
    if telling:
        places = bags.candidates(reading.read_file(snapshot, whole, telling), some, key)
    for other in (
        taken.get(file.path),
        None if file.hidden is None else numbers_of(file.hidden.marked(snapshot.folder)),
    ):
        if other is not None:
            places = places.filter(pc.invert(pc.is_in(places, value_set=other)))
    if len(places) == 0:
        return _table(*_NONE)
    at, what = bags.match(fetch_from(snapshot, whole, places), some)
    return _table(pa.repeat(pa.scalar(file.path), len(at)), places.take(at), near.take(what))


def _first_copies(found: pa.Table, wanted: pa.Table) -> pa.Table:
    """As many places of each wanted row as are wanted: several files may have enough of them."""
    numbers = wanted[bags.N].to_pylist()
    keep, seen = [], [0] * len(numbers)
    for i, what in enumerate(found[_WANTED].to_pylist()):
        seen[what] += 1
        if seen[what] <= numbers[what]:
            keep.append(i)
    return found if len(keep) == found.num_rows else found.take(pa.array(keep, pa.int64()))


def _without(left: pa.Table, found: pa.Array) -> pa.Table:
    """The wanted rows that are still to be found, after some were found, each given by its number."""
    counts = pa.table({_WANTED: found}).group_by(_WANTED).aggregate([([], "count_all")])
    taken = pc.negate(counts["count_all"])
    rows = left.take(counts[_WANTED]).drop_columns([bags.N]).append_column(left.schema.field(bags.N), taken)
    return bags.consolidate(pa.concat_tables([left, rows]))


_NONE = (pa.array([], pa.string()), pa.array([], pa.int64()), pa.array([], pa.int64()))


def _table(files: pa.Array, places: pa.Array, wanted: pa.Array) -> pa.Table:
    return pa.table({_FILE: files, _PLACE: places, _WANTED: wanted})


def places_by_file(files: pa.Array, places: pa.Array) -> dict[str, pa.Array]:
    """The places in each file, of rows given by their files and their places there."""
    grouped = pa.table({_FILE: files, _PLACE: places}).group_by(_FILE).aggregate([(_PLACE, "list")])
    lists = grouped[f"{_PLACE}_list"].combine_chunks()
    return {path: lists[i].values for i, path in enumerate(grouped[_FILE].to_pylist())}


def _admitted(file: DataFile, column: pa.Field, values: pa.ChunkedArray) -> pa.Array | None:
    """The values that the bounds of a file's column allow, as a mask; None if they are unknown."""
    if column.name == bags.N or not bounded(column.type):
        return None
    nulls = file.nulls.get(column.name)
    if nulls == file.written:
        return pc.is_null(values)
    inside = pa.repeat(_TRUE, len(values))
    if column.name in file.minimum:
        inside = pc.and_(inside, pc.greater_equal(values, pa.scalar(file.minimum[column.name], column.type)))
    if column.name in file.maximum:
        inside = pc.and_(inside, pc.less_equal(values, pa.scalar(file.maximum[column.name], column.type)))
    if pa.types.is_floating(column.type):
        inside = pc.or_(inside, pc.is_nan(values))  # compares as false with every bound
    return pc.if_else(pc.is_null(values), pa.scalar(nulls != 0, pa.bool_()), inside)


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
    text = f"SELECT {columns} FROM read_parquet($path, {_NUMBER} = true) t JOIN wanted USING ({_NUMBER}) ORDER BY {_NUMBER}"
    try:
        with _LOCK:
            found = _run(text, path, pa.table({_NUMBER: places}))
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
