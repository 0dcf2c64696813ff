"""Changes of millions of rows, made by Spark's executors: rows are found, marked and written without passing the driver.

The driver gets a bit for each row that was found, and the footers of new files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from nabla.algebra.expressions import quote
from nabla.engine.marked_rows import FILE, PLACE, located_frame
from nabla.engine.sources import change_frame
from nabla.engine.spark.bags import equality_keys, repeat
from nabla.engine.spark.frames import Workspace
from nabla.storage import files
from nabla.storage.bags import N
from nabla.storage.boundary import CAPTURES
from nabla.storage.capture import said
from nabla.storage.changes import CHANGE_TYPE, Change, difference
from nabla.storage.deletion_vectors import Hidden, bitmap_of
from nabla.storage.files import DataFile, Snapshot
from nabla.storage.rewrite import mark

_BITS = 32768
"""Rows of one bitmap of Spark's."""
_BUCKET, _MAP = "bucket", "bits"

Compute = Callable[[DataFrame], DataFrame]
"""The new rows, under the stored names, from those that are replaced."""


@dataclass(frozen=True)
class LargeChange:
    """Files to add and remove in one commit, and the numbers of rows that came and went."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    inserted: int
    deleted: int


def marked_places(found: DataFrame) -> dict[str, BitMap64]:
    """The places of rows by the names of their files, from rows with the columns `FILE` and `PLACE`."""
    place = F.col(PLACE) + F.lit(1)  # Spark counts positions in bitmaps from one
    bits = F.bitmap_construct_agg(F.bitmap_bit_position(place)).alias(_MAP)
    blocks = found.groupBy(FILE, F.bitmap_bucket_number(place).alias(_BUCKET)).agg(bits).toArrow()
    places: dict[str, BitMap64] = {}
    for file, bucket, block in zip(*(blocks[name].to_pylist() for name in (FILE, _BUCKET, _MAP)), strict=True):
        mask = pa.Array.from_buffers(pa.bool_(), _BITS, [None, pa.py_buffer(block)])
        rows = pc.add(pc.indices_nonzero(mask).cast(pa.int64()), pa.scalar((bucket - 1) * _BITS, pa.int64()))
        places.setdefault(file, BitMap64()).update(bitmap_of(rows))
    return places


def change_rows(
    workspace: Workspace,
    snapshot: Snapshot,
    names: Sequence[str],
    places: Mapping[str, BitMap64],
    staging: Callable[[], str],
    compute: Compute | None,
) -> LargeChange:
    """Delete the rows at places of a table, or put those that `compute` makes of them in their place.

    The condition that found them is not asked again: it may read the clock, or give another answer every time.
    """
    marked = mark(snapshot, places)
    adds, inserted = list(marked.adds), 0
    if compute is not None:
        new = compute(located_frame(workspace, only_places(snapshot, places), names))
        adopted = _write(new, staging(), snapshot)
        inserted = sum(file.rows for file in adopted)
        adds += adopted
    if marked.rest:
        left = located_frame(workspace, replace(snapshot, files=marked.rest), snapshot.schema.names)
        adds += _write(left.drop(FILE, PLACE), staging(), snapshot)
    return LargeChange(tuple(adds), marked.removes, inserted, sum(map(len, places.values())))


def places_of_rows(table: DataFrame, wanted: DataFrame) -> dict[str, BitMap64]:
    """The places of as many copies of each wanted row as are wanted, or as there are. The table has the same columns, then
    `FILE` and `PLACE`."""
    names = wanted.columns
    keys = [f"_key {number}" for number in range(len(names))]

    def keyed(frame: DataFrame, *more: str) -> DataFrame:
        compared = zip(equality_keys(frame, names), keys, strict=True)
        return frame.select(*(F.expr(text).alias(key) for text, key in compared), *more)

    asked = keyed(wanted).groupBy(*map(quote, keys)).agg(F.count("*").alias(N)).alias("asked")
    here = keyed(table, FILE, PLACE).alias("here")
    same = [F.col(f"here.{quote(key)}").eqNullSafe(F.col(f"asked.{quote(key)}")) for key in keys]
    met = here.join(asked, same).select("here.*", N)
    alike = Window.partitionBy(*map(quote, keys)).orderBy(FILE, PLACE)
    return marked_places(met.withColumn("_rank", F.row_number().over(alike)).where(f"_rank <= {N}"))


def only_places(snapshot: Snapshot, places: Mapping[str, BitMap64]) -> Snapshot:
    """A version with all rows hidden but those at some places."""
    chosen = [
        file.hiding(Hidden(file.written, bitmap=places[file.path].flip(0, file.written)))
        for file in snapshot.files
        if file.path in places
    ]
    return replace(snapshot, files=tuple(chosen))


def capture_change(workspace: Workspace, before: Snapshot, after: Snapshot, folder: str) -> dict[str, Any]:
    """Write the minimal change between two versions as Delta's change data feed. Gives what a commit says of it."""
    change = Change(before, after, (), *difference(before, after))
    names = after.schema.names
    kind = f"CASE WHEN {N} > 0 THEN 'insert' ELSE 'delete' END AS {CHANGE_TYPE}"
    repeat(change_frame(workspace, change, names), *map(quote, names), kind).write.parquet(folder)
    return said(files.adopt(folder, after.folder, below=CAPTURES))


def _write(frame: DataFrame, folder: str, snapshot: Snapshot) -> tuple[DataFile, ...]:
    frame.toDF(*snapshot.stored.values()).write.parquet(folder)
    return files.adopt(folder, snapshot.folder)
