"""Reading a table's files as Arrow: hidden rows left out, partition values put in, columns under their own names."""

from __future__ import annotations

import itertools
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from nabla.errors import MachineFault
from nabla.storage import column_cache, locations, machine
from nabla.storage.files import DataFile
from nabla.storage.parquet import read_columns
from nabla.storage.table import Snapshot


def read_file(snapshot: Snapshot, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of one file, with the table's types; a column that the file is older than is NULL."""
    wanted = snapshot.schema if columns is None else pa.schema([snapshot.schema.field(name) for name in columns])
    with locations.parquet_file(snapshot.path(file)) as parquet:
        present = set(parquet.schema_arrow.names)
        stored = [name for name in (snapshot.stored[field.name] for field in wanted) if name in present]
        rows = parquet.metadata.num_rows
        held = read_columns(parquet, stored)
    arrays = [_column(snapshot, file, held, rows, field) for field in wanted]
    table = pa.Table.from_arrays(arrays, schema=wanted) if arrays else _no_columns(rows)
    return table if file.hidden is None else table.filter(snapshot.keep(file))


def read_rows(snapshot: Snapshot, file: DataFile, places: pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
    """Some rows of a file, given by their ascending numbers: only the row groups that have them are read."""
    wanted = snapshot.schema if columns is None else pa.schema([snapshot.schema.field(name) for name in columns])
    with locations.parquet_file(snapshot.path(file)) as parquet:
        sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]
        starts = list(itertools.accumulate(sizes, initial=0))
        groups = [i for i in range(len(sizes)) if len(_between(places, starts[i], starts[i + 1]))]
        present = set(parquet.schema_arrow.names)
        stored = [name for name in (snapshot.stored[field.name] for field in wanted) if name in present]
        held = parquet.read_row_groups(groups, columns=stored)
    before = list(itertools.accumulate((sizes[i] for i in groups), initial=0))
    pieces = [
        pc.add(_between(places, starts[i], starts[i + 1]), pa.scalar(shift - starts[i], pa.int64()))
        for i, shift in zip(groups, before[:-1], strict=True)
    ]
    arrays = [_column(snapshot, file, held, before[-1], field) for field in wanted]
    return pa.Table.from_arrays(arrays, schema=wanted).take(pa.chunked_array(pieces, pa.int64()))


def _between(places: pa.Array, start: int, end: int) -> pa.Array:
    after = pc.greater_equal(places, pa.scalar(start, pa.int64()))
    return places.filter(pc.and_(after, pc.less(places, pa.scalar(end, pa.int64()))))


def is_worth_keeping(snapshot: Snapshot, file: DataFile, column: str) -> bool:
    """Whether `looked_up` has a column of a file at hand, or would rightly keep it for the next time."""
    if snapshot.rows > column_cache.LARGEST_TABLE:
        return False
    return column_cache.KEPT.is_worth_keeping((snapshot.path(file), column, snapshot.schema.field(column).type))


def looked_up(snapshot: Snapshot, file: DataFile, columns: Sequence[str]) -> pa.Table:
    """The same for a table that is looked up: what is read of it is at hand the next time, unless it is a large one."""
    if snapshot.rows > column_cache.LARGEST_TABLE:
        return read_file(snapshot, file, columns)
    keys = {name: (snapshot.path(file), name, snapshot.schema.field(name).type) for name in columns}
    found = {name: column for name, key in keys.items() if (column := column_cache.KEPT.get(key)) is not None}
    missing = [name for name in columns if name not in found]
    if missing:
        whole = read_file(snapshot, replace(file, hidden=None), missing)
        for name, column in zip(missing, whole.columns, strict=True):
            column_cache.KEPT.put(keys[name], column)
            found[name] = column
    table = pa.table([found[name] for name in columns], names=list(columns))
    return table if file.hidden is None else table.filter(snapshot.keep(file))


def read(snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a version, in memory."""
    pieces = [read_file(snapshot, file, columns) for file in snapshot.files]
    wanted = snapshot.schema if columns is None else pa.schema([snapshot.schema.field(name) for name in columns])
    return pa.concat_tables(pieces) if pieces else wanted.empty_table()


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that the schema names, in its order, with its types; an Arrow error where a value does not fit."""
    return pa.Table.from_arrays([_typed(table[field.name], field.type) for field in schema], schema=schema)


def _column(snapshot: Snapshot, file: DataFile, held: pa.Table, rows: int, field: pa.Field) -> pa.ChunkedArray:
    stored = snapshot.stored[field.name]
    if field.name in file.partition:
        return pa.chunked_array([pa.repeat(pa.scalar(file.partition[field.name], field.type), rows)])
    if stored not in held.column_names:
        return pa.chunked_array([pa.nulls(rows, field.type)])
    return _typed(held[stored], field.type)


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _no_columns(rows: int) -> pa.Table:
    """A table that still knows its number of rows."""
    return pa.table({"": pa.nulls(rows)}).select([])


def refuse_empty_files(places: Iterable[str]) -> None:
    """NABLA_READ_FAILED for a file of this machine without content, as a power cut leaves it: Spark would take it for a file
    without rows. A file that is missing is left to Spark to report."""
    for place in places:
        if locations.is_url(place):
            continue
        with suppress(FileNotFoundError), machine.reading(place):
            status = machine.current().stat(place)
            if status.st_size == 0 and stat.S_ISREG(status.st_mode):
                raise MachineFault(
                    "NABLA_READ_FAILED",
                    "the file is damaged: it is empty",
                    place=place,
                    remedy="`nabla fsck` finds all damaged files. Restore this one from a copy.",
                )
