"""Turning computed changes into files, ready to be committed: the view, its states and its feed move together.

Small changes are applied on the driver by Arrow, in milliseconds. Large ones stay in Spark: the view is written anew from
its old rows and the change, and nothing passes the driver.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.results import Replacement, Rows
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.frames import Workspace
from nabla.errors import NablaError
from nabla.storage import bags, files, locations, reading
from nabla.storage.bags import N
from nabla.storage.files import DataFile
from nabla.storage.replace import replace_rows
from nabla.storage.rewrite import rewrite
from nabla.storage.table import Snapshot

FEED_COLUMNS = ("_change_type", "_version", "_timestamp")
FOLD_FILES = 24
"""A state log of so many small files is folded: reading them would cost more than the change."""
FOLD_ROWS = 2_000_000


@dataclass
class Applied:
    """Files to add to and remove from each part, and the size of the minimal change."""

    adds: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    removes: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    inserted: int = 0
    deleted: int = 0
    rows: int = 0


def feed_schema(schema: StructType) -> StructType:
    extra = [StructField("_change_type", StringType()), StructField("_version", types.type_of("bigint"))]
    return StructType([*schema.fields, *extra, StructField("_timestamp", TimestampType())])


def repeated(counted: pa.Table) -> pa.Table:
    """Each row as often as its (positive) count says, without the count."""
    counts = counted.column(N)
    rows = counted.drop_columns([N])
    if pc.all(pc.equal(counts, 1)).as_py() in (True, None):
        return rows
    indices = pa.array([i for i, n in enumerate(counts.to_pylist()) for _ in range(n)], pa.int64())
    return rows.take(indices)


def split(change: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(deleted rows with positive counts, inserted rows with counts)."""
    deleted = change.filter(pc.less(change.column(N), 0))
    return bags.negated(deleted), change.filter(pc.greater(change.column(N), 0))


def total(counted: pa.Table) -> int:
    """How many copies of rows there are."""
    return int(pc.sum(counted.column(N)).as_py() or 0)


def apply_change(
    view: str, data: Snapshot, feed_folder: str, change: pa.Table, version: int, now: datetime.datetime
) -> Applied:
    """A consolidated change held on the driver."""
    deleted, inserted = split(change)
    applied = Applied(inserted=total(inserted), deleted=total(deleted))
    if change.num_rows:
        done = rewrite(data, delete=deleted, insert=repeated(inserted))
        if done.missing.num_rows:
            raise drifted(view, done.missing)
        applied.adds["data"], applied.removes["data"] = done.adds, done.removes
        applied.adds["feed"] = files.write(feed_folder, feed_rows(deleted, inserted, version, now))
    applied.rows = data.rows + applied.inserted - applied.deleted
    return applied


def apply_replacement(
    data: Snapshot, feed_folder: str, new: Replacement, version: int, now: datetime.datetime
) -> Applied:
    """Rows by key: what is there for the touched keys, and differs from what should be, is what changes."""
    done = replace_rows(data, new.key, new.touched, new.rows)
    applied = Applied(inserted=done.inserted.num_rows, deleted=done.deleted.num_rows)
    if applied.inserted or applied.deleted:
        applied.adds["data"], applied.removes["data"] = done.adds, done.removes
        feed = feed_rows(bags.counted(done.deleted), bags.counted(done.inserted), version, now)
        applied.adds["feed"] = files.write(feed_folder, feed)
    applied.rows = data.rows + applied.inserted - applied.deleted
    return applied


def drifted(view: str, missing: pa.Table) -> NablaError:
    return NablaError(
        "NABLA_DRIFT",
        f"{missing.num_rows} rows that should be deleted are not in the view, first {missing.slice(0, 1).to_pylist()[0]}",
        place=f'view "{view}"',
        remedy=f'Somebody wrote to the view\'s table; rebuild it with refresh("{view}", mode="full").',
    )


def feed_rows(deleted: pa.Table, inserted: pa.Table, version: int, now: datetime.datetime) -> pa.Table:
    """A change, as two counted tables, as a feed has it."""
    pieces = []
    for rows, word in ((repeated(deleted), "delete"), (repeated(inserted), "insert")):
        count = rows.num_rows
        rows = rows.append_column("_change_type", pa.repeat(pa.scalar(word), count))
        rows = rows.append_column("_version", pa.repeat(pa.scalar(version, pa.int64()), count))
        pieces.append(rows.append_column("_timestamp", pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count)))
    return pa.concat_tables(pieces)


def difference(old: Snapshot, new: pa.Table) -> pa.Table:
    """The minimal change from a stored table to new contents."""
    before = bags.negated(bags.counted(reading.read(old)))
    after = reading.conform(bags.counted(new), before.schema)
    return bags.consolidate(pa.concat_tables([after, before]))


def apply_state(log: Snapshot, change: pa.Table) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """Append to a state's log; when it has many small files, they are folded into one."""
    small = [f for f in log.files if f.rows * 4 < files.TARGET_ROWS]
    if len(small) < FOLD_FILES or sum(f.rows for f in small) > FOLD_ROWS:
        return files.write(log.folder, change), ()
    pieces = [reading.read_file(log, f) for f in small]
    folded = bags.consolidate(pa.concat_tables([*pieces, reading.conform(change, log.schema)]))
    return files.write(log.folder, folded), tuple(small)


def apply_large(
    workspace: Workspace, data: Snapshot, feed_folder: str, change: Rows, version: int, now: datetime.datetime
) -> Applied:
    """A change that Spark wrote: the view is written anew from its old rows and the change."""
    signed = change.frame(workspace).cache()
    try:
        inserted, deleted = _counted(signed)
        names = [f.name for f in types.from_json(data.schema_json).fields]
        old = snapshot_frame(workspace, data, names).withColumn(N, F.lit(1).cast("bigint"))
        merged = _copies(_summed(old.unionAll(signed), names), names)
        applied = Applied(inserted=inserted, deleted=deleted, rows=data.rows + inserted - deleted)
        applied.adds["data"] = write_frame(workspace, merged, data.folder)
        applied.removes["data"] = data.files
        if sum(f.rows for f in applied.adds["data"]) != applied.rows:
            raise drifted("view", pa.table({"rows": [applied.rows]}))
        applied.adds["feed"] = write_frame(workspace, _feed_frame(signed, names, version, now), feed_folder)
    finally:
        signed.unpersist()
    return applied


def replace_large(
    workspace: Workspace, data: Snapshot, feed_folder: str, whole: Rows, version: int, now: datetime.datetime
) -> Applied:
    """New contents that Spark wrote: compared with the old for the feed, then put in their place."""
    names = [f.name for f in types.from_json(data.schema_json).fields]
    old = snapshot_frame(workspace, data, names).withColumn(N, F.lit(-1).cast("bigint"))
    new = whole.frame(workspace).withColumn(N, F.lit(1).cast("bigint"))
    feed = write_frame(workspace, _feed_frame(_summed(new.unionAll(old), names), names, version, now), feed_folder)
    applied = Applied()
    kinds = _feed_counts(feed, feed_folder)
    applied.inserted, applied.deleted = kinds["insert"], kinds["delete"]
    if feed:
        applied.adds["feed"] = feed
        applied.adds["data"] = files.adopt(whole.folder or "", data.folder)
        applied.removes["data"] = data.files
    applied.rows = data.rows + applied.inserted - applied.deleted
    return applied


def _feed_counts(feed: Sequence[DataFile], folder: str) -> Mapping[str, int]:
    import os

    counts = {"insert": 0, "delete": 0}
    for file in feed:
        column = locations.read_parquet(os.path.join(folder, file.path), ["_change_type"]).column(0)
        for item in column.value_counts().to_pylist():
            counts[item["values"]] += item["counts"]
    return counts


def write_frame(workspace: Workspace, frame: DataFrame, folder: str) -> tuple[DataFile, ...]:
    path = workspace.path()
    frame.write.parquet(path)
    return files.adopt(path, folder)


def _summed(signed: DataFrame, names: Sequence[str]) -> DataFrame:
    columns = [F.col(quote(n)) for n in names]
    return signed.groupBy(*columns).agg(F.sum(N).alias(N)).where(f"{N} <> 0")


def _copies(counted: DataFrame, names: Sequence[str]) -> DataFrame:
    repeats = counted.withColumn("_copy", F.explode(F.sequence(F.lit(1), F.abs(F.col(N)).cast("int"))))
    return repeats.select(*[F.col(quote(n)) for n in names])


def _counted(signed: DataFrame) -> tuple[int, int]:
    row = signed.agg(
        F.sum(F.when(F.col(N) > 0, F.col(N)).otherwise(0)), F.sum(F.when(F.col(N) < 0, -F.col(N)).otherwise(0))
    ).first()
    assert row is not None
    return int(row[0] or 0), int(row[1] or 0)


def _feed_frame(signed: DataFrame, names: Sequence[str], version: int, now: datetime.datetime) -> DataFrame:
    kind = F.when(F.col(N) > 0, F.lit("insert")).otherwise(F.lit("delete")).alias("_change_type")
    repeats = signed.withColumn("_copy", F.explode(F.sequence(F.lit(1), F.abs(F.col(N)).cast("int"))))
    stamp = F.lit(now).cast("timestamp").alias("_timestamp")
    return repeats.select(
        *[F.col(quote(n)) for n in names], kind, F.lit(version).cast("bigint").alias("_version"), stamp
    )
