"""Files with hidden rows as DataFrames: Spark numbers the rows of a file, and rows that are marked as deleted are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.storage import locations
from nabla.storage.files import DataFile, Snapshot

FILE, PLACE = "_nabla_file", "_nabla_place"
"""Columns with the name of the file that a row is in, and its number there."""
_MARKS, _BITS = "marks", 6
_MARKS_SHAPE = StructType([StructField(_MARKS, ArrayType(LongType()))])
_ONE_ROW = pa.schema([(_MARKS, pa.list_(pa.int64()))])


def alive_frame(workspace: Workspace, snapshot: Snapshot, files: Sequence[DataFile], schema: StructType) -> DataFrame:
    """The rows of files that are not hidden, under the names of the table's columns. All files have hidden rows."""
    groups = _groups_by_size(snapshot, files)
    return _union(_scan(workspace, snapshot, group, schema, ()) for group in groups)


def located_frame(
    workspace: Workspace, snapshot: Snapshot, names: Sequence[str], *, with_hidden: bool = False
) -> DataFrame:
    """The rows of a table of the lake, under the names that queries use, with the columns `FILE` and `PLACE`, and
    `with_hidden` rows among them, for whoever sorts these out later."""
    schema = types.from_json(snapshot.schema_json)
    marked = [] if with_hidden else [file for file in snapshot.files if file.hidden is not None]
    whole = [replace(file, hidden=None) for file in snapshot.files if with_hidden or file.hidden is None]
    groups = [dict(enumerate(whole)), *_groups_by_size(snapshot, marked)]
    frame = _union(_scan(workspace, snapshot, group, schema, (FILE, PLACE)) for group in groups)
    return frame.toDF(*names, FILE, PLACE)


def stored_schema(snapshot: Snapshot, schema: StructType) -> StructType:
    """A schema with the names that columns have in the files."""
    names = [snapshot.stored[name] for name in schema.names]
    return StructType([*schema.fields]) if names == schema.names else types.rename(schema, names)


def _scan(
    workspace: Workspace, snapshot: Snapshot, group: dict[int, DataFile], schema: StructType, more: Sequence[str]
) -> DataFrame:
    """The rows of some files that are not hidden. All of the files have hidden rows, and different sizes, or none has any.

    Hidden rows are sorted out by a filter right above the scan, since Spark evaluates filters in order. A join would let a
    condition of a query go first, and fail on a value of a row that is not there any more.
    """
    stored = stored_schema(snapshot, schema)
    raw = read_parquet(workspace.session, [snapshot.path(file) for file in group.values()], stored)
    columns = [F.col(quote(at)).alias(name) for at, name in zip(stored.names, schema.names, strict=True)]
    if not group:
        return raw.select(*columns, F.lit(None).cast("string").alias(FILE), F.lit(None).cast("bigint").alias(PLACE))
    here = raw.metadataColumn("_metadata")
    places: dict[str, Column] = {FILE: here["file_name"], PLACE: here["row_index"]}
    columns += [places[name].alias(name) for name in more]
    if any(file.hidden is not None for file in group.values()):
        words, starts = _words(snapshot, group)
        marks = workspace.hold(pa.table({_MARKS: [words]}, schema=_ONE_ROW), _MARKS_SHAPE).scalar()
        raw = raw.where(_bit(marks, _start(here["file_size"], sorted(starts.items())), here["row_index"]) == 0)
    return raw.select(*columns)


def _bit(words: Column, start: Column, row: Column) -> Column:
    """The bit of a row; the words of its file begin at `start`."""
    word = F.get(words, (start + F.shiftright(row, _BITS)).cast("int"))
    return F.getbit(word, row.bitwiseAND(F.lit((1 << _BITS) - 1)).cast("int"))


def _start(size: Column, starts: Sequence[tuple[int, int]]) -> Column:
    """The start of the words of a file, by its size. Halving takes few comparisons a row."""
    if len(starts) == 1:
        return F.lit(starts[0][1]).cast("bigint")
    half = len(starts) // 2
    return F.when(size < F.lit(starts[half][0]), _start(size, starts[:half])).otherwise(_start(size, starts[half:]))


def _words(snapshot: Snapshot, hidden: dict[int, DataFile]) -> tuple[pa.Array, dict[int, int]]:
    """A bit for each row of the files, in words of 64 bits, and where the words of each file begin, by its size."""
    starts, content = {}, bytearray()
    for size, file in hidden.items():
        starts[size] = len(content) // 8
        keep = snapshot.keep(file)
        assert keep is not None
        bits = pc.invert(keep).buffers()[1].to_pybytes()[: -(-len(keep) // 8)]
        content += bits + b"\0" * (-len(bits) % 8)
    return pa.Array.from_buffers(pa.int64(), len(content) // 8, [None, pa.py_buffer(bytes(content))]), starts


def _groups_by_size(snapshot: Snapshot, files: Sequence[DataFile]) -> list[dict[int, DataFile]]:
    """The files by their sizes, in as few groups as have no size twice. The log of another writer may be wrong about sizes."""
    groups: list[dict[int, DataFile]] = []
    for file in files:
        size = locations.size(snapshot.path(file))
        group = next((group for group in groups if size not in group), None)
        if group is None:
            groups.append(group := {})
        group[size] = file
    return groups


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first
