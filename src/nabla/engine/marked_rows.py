"""Files with hidden rows as DataFrames: Spark numbers the rows of a file, and rows that are marked as deleted are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.storage import locations
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import DataFile, Snapshot

FILE, PLACE = "_nabla_file", "_nabla_place"
"""Columns with the name of the file that a row is in, and its number there."""
_MARK = "_nabla_mark"


def alive_frame(workspace: Workspace, snapshot: Snapshot, files: Sequence[DataFile], schema: StructType) -> DataFrame:
    """The rows of files that are not hidden, under the names of the table's columns."""
    groups = _groups_by_size(snapshot, files)
    return _union(_alive(workspace, snapshot, group, schema, ()) for group in groups)


def located_frame(workspace: Workspace, snapshot: Snapshot, names: Sequence[str]) -> DataFrame:
    """The rows of a table of the lake, under the names that queries use, with the columns `FILE` and `PLACE`."""
    schema = types.from_json(snapshot.schema_json)
    groups = _groups_by_size(snapshot, snapshot.files) or [{}]
    frame = _union(_alive(workspace, snapshot, group, schema, (FILE, PLACE)) for group in groups)
    return frame.toDF(*names, FILE, PLACE)


def stored_schema(snapshot: Snapshot, schema: StructType) -> StructType:
    """A schema with the names that columns have in the files."""
    names = [snapshot.stored[name] for name in schema.names]
    return StructType([*schema.fields]) if names == schema.names else types.rename(schema, names)


def _alive(
    workspace: Workspace, snapshot: Snapshot, group: dict[int, DataFile], schema: StructType, more: Sequence[str]
) -> DataFrame:
    """The rows of some files of different sizes. Size and number of a row make up one number that tells rows apart, because
    Spark looks up numbers faster than names of files."""
    stored = stored_schema(snapshot, schema)
    raw = read_parquet(workspace.session, [snapshot.path(file) for file in group.values()], stored)
    columns = [F.col(quote(at)).alias(name) for at, name in zip(stored.names, schema.names, strict=True)]
    if not group:
        return raw.select(*columns, F.lit(None).cast("string").alias(FILE), F.lit(None).cast("bigint").alias(PLACE))
    here = raw.metadataColumn("_metadata")
    places: dict[str, Column] = {FILE: here["file_name"], PLACE: here["row_index"]}
    columns += [places[name].alias(name) for name in more]
    hidden = {size: file for size, file in group.items() if file.hidden is not None}
    if not hidden:
        return raw.select(*columns)
    width = 1 << max(file.written for file in group.values()).bit_length()
    marks = workspace.hold(_marks(snapshot, hidden, width), StructType([StructField(_MARK, LongType())]))
    numbered = raw.select(*columns, (here["file_size"] * F.lit(width) + here["row_index"]).alias(_MARK))
    return numbered.join(F.broadcast(marks), _MARK, "left_anti").drop(_MARK)


def _marks(snapshot: Snapshot, hidden: dict[int, DataFile], width: int) -> pa.Table:
    numbers = [
        pc.add(numbers_of(file.hidden.marked(snapshot.folder)), pa.scalar(size * width, pa.int64()))
        for size, file in hidden.items()
        if file.hidden is not None
    ]
    return pa.table({_MARK: pa.chunked_array(numbers, pa.int64())})


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
