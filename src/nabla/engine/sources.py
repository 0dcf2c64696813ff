"""Snapshots and changes of stored tables as DataFrames, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.marked_rows import alive_frame, stored_schema
from nabla.engine.spark.bags import consolidate, repeat, weigh
from nabla.engine.spark.frames import Workspace, empty, plain, read_parquet
from nabla.storage import reading
from nabla.storage.bags import N
from nabla.storage.changes import CHANGE_TYPE, GAINED, Change
from nabla.storage.files import TARGET_ROWS, DataFile
from nabla.storage.table import Snapshot

TINY_TABLE = 1_000


def snapshot_frame(workspace: Workspace, snapshot: Snapshot, names: Sequence[str]) -> DataFrame:
    """The rows of a version under the names that queries use. A tiny table beside large ones comes with the query: Spark
    would start a job to read it, and another one wherever it is read again."""
    schema = types.from_json(snapshot.schema_json)
    if workspace.size == "large" and 0 < snapshot.rows <= TINY_TABLE and plain(schema):
        return _rename(workspace.hold(reading.read(snapshot), schema), names)
    return _rename(_files_frame(workspace, snapshot, snapshot.files), names)


def user_frame(workspace: Workspace, snapshot: Snapshot, names: Sequence[str]) -> DataFrame:
    """The rows of a version for users, who may give the frame a name. Spark overwrites the files that a name stands for if
    nothing but files is behind it; with a projection above them it refuses to insert into the name."""
    return snapshot_frame(workspace, snapshot, names).select("*")


def change_frame(workspace: Workspace, change: Change, names: Sequence[str]) -> DataFrame:
    """The signed change between two versions, with weights `_n`. It need not be consolidated."""
    schema = types.from_json(change.new.schema_json)
    parts: list[DataFrame] = []
    if change.recorded:
        paths = [os.path.join(change.new.folder, file.path) for file in change.recorded]
        parts.append(read_parquet(workspace.session, paths, types.with_weight(schema)))
    if change.added:
        parts.append(weigh(_files_frame(workspace, change.new, change.added), 1))
    if change.removed:
        parts.append(weigh(_files_frame(workspace, change.old, change.removed), -1))
    if change.captured:
        parts.append(_captured_frame(workspace, change))
    if not parts:
        return _rename(empty(workspace.session, types.with_weight(schema)), [*names, N])
    union = parts[0]
    for part in parts[1:]:
        union = union.unionAll(part)
    if change.added and change.removed:
        # Files that were rewritten hold mostly the same rows: rows that are in both have not changed.
        union = consolidate(union, schema.names)
    return _rename(union, [*names, N])


def past_frame(workspace: Workspace, change: Change, names: Sequence[str]) -> DataFrame:
    """The rows of an old version that cannot be read any more: those of the new one, less the change."""
    now = weigh(snapshot_frame(workspace, change.new, names), 1)
    undone = change_frame(workspace, change, names).selectExpr(*map(quote, names), f"-{N} AS {N}")
    rows = consolidate(now.unionAll(undone), names)
    return repeat(rows, *map(quote, names))


def inserted_frame(workspace: Workspace, change: Change, names: Sequence[str]) -> DataFrame:
    """The rows that a consolidated change without removed files inserts; files of deletions are not opened."""
    schema = types.from_json(change.new.schema_json)
    frame = _files_frame(workspace, change.new, change.added)
    recorded = [file for file in change.recorded if file.inserted]
    if recorded:
        paths = [os.path.join(change.new.folder, file.path) for file in recorded]
        rows = read_parquet(workspace.session, paths, types.with_weight(schema)).where(f"{N} > 0").drop(N)
        frame = frame.unionAll(rows) if change.added else rows
    return _rename(frame, names)


def _captured_frame(workspace: Workspace, change: Change) -> DataFrame:
    rows = _files_frame(workspace, change.feed, change.captured)
    gained = F.col(CHANGE_TYPE).isin(*GAINED)
    return rows.withColumn(N, F.when(gained, 1).otherwise(-1).cast("bigint")).drop(CHANGE_TYPE)


def _rename(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    return frame if list(names) == frame.columns else frame.toDF(*names)


def _files_frame(workspace: Workspace, snapshot: Snapshot, files: Iterable[DataFile]) -> DataFrame:
    schema = types.from_json(snapshot.schema_json)
    whole = [file for file in files if file.hidden is None and not file.partition]
    rest = [file for file in files if file.hidden is not None or file.partition]
    marked = [file for file in rest if file.hidden is not None]
    frame = _plain_frame(workspace, snapshot, whole, schema)
    for group in _by_partition(file for file in rest if file.hidden is None):
        frame = frame.unionAll(_partition_frame(workspace, snapshot, group, schema))
    for file in marked:
        if _is_for_driver(workspace, file):
            frame = frame.unionAll(workspace.hold(reading.read_file(snapshot, file), schema))
    large = [file for file in marked if not _is_for_driver(workspace, file)]
    if large:
        alive = alive_frame(workspace, snapshot, large, schema)
        frame = frame.unionAll(alive) if whole or len(large) < len(rest) else alive
    return frame


def _is_for_driver(workspace: Workspace, file: DataFile) -> bool:
    """Whether the driver reads a file with hidden rows: in a tiny query, or where it is no large one and has few others. Of a
    large change, most rows of large files would come to the driver."""
    return bool(file.partition) or workspace.size == "tiny" or file.rows * 2 <= file.written <= TARGET_ROWS


def _plain_frame(workspace: Workspace, snapshot: Snapshot, files: list[DataFile], schema: StructType) -> DataFrame:
    stored = stored_schema(snapshot, schema)
    return _rename(read_parquet(workspace.session, [snapshot.path(f) for f in files], stored), schema.names)


def _by_partition(files: Iterable[DataFile]) -> list[list[DataFile]]:
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        groups.setdefault(repr(sorted(file.partition.items())), []).append(file)
    return list(groups.values())


def _partition_frame(workspace: Workspace, snapshot: Snapshot, files: list[DataFile], schema: StructType) -> DataFrame:
    """Files of one partition: the partition's values are not in them but in the log."""
    values = files[0].partition
    inside = StructType([f for f in schema.fields if f.name not in values])
    stored = types.rename(inside, [snapshot.stored[name] for name in inside.names])
    frame = _rename(read_parquet(workspace.session, [snapshot.path(f) for f in files], stored), inside.names)
    columns = [
        F.lit(values[f.name]).cast(f.dataType).alias(f.name) if f.name in values else F.col(quote(f.name))
        for f in schema.fields
    ]
    return frame.select(*columns)
