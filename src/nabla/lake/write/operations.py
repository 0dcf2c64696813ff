"""The operations of a transaction on one table: each adds to the table's net change."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from nabla.engine import intake, types
from nabla.engine.large_change import change_rows, places_of_rows
from nabla.engine.marked_rows import FILE, PLACE, located_frame
from nabla.engine.spark.bags import consolidate, weigh
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.model import Relation
from nabla.lake.context import LakeContext
from nabla.lake.write import nested_tables as nests
from nabla.lake.write import write_change
from nabla.lake.write.conditions import Seen, delete_matching, refuse_outside, update_matching
from nabla.lake.write.generated import number_rows, write_numbered
from nabla.lake.write.nested_checks import check_written
from nabla.lake.write.new_table import clustered
from nabla.lake.write.table_change import TableChange, absent_rows
from nabla.lake.write.write_change import settle, take_over
from nabla.storage import bags, files, locations
from nabla.storage.bags import N


def insert_frame(change: TableChange, frame: DataFrame, folder: str) -> None:
    """Let Spark write its rows into a new folder; these files become files of the table as they are."""
    write_numbered(change, clustered(frame, change.entry.definition), folder)
    if change.nested:
        check_written(folder, change.visible, change.name)
    change.written.append(folder)


def read_rows(change: TableChange, data: intake.Data) -> pa.Table:
    """Rows that users hand over, in Arrow; those of a nested table in PNF and in canonical order."""
    if change.nested:
        return nests.canonical_rows(data, change.visible, change.name)
    return intake.arrow_rows(data, change.visible, change.name)


def delete_rows(change: TableChange, rows: pa.Table) -> None:
    take_over(change)
    change.add(rows, -1)
    change.needed.append(bags.split(change.net())[0])


def delete_frame(context: LakeContext, change: TableChange, frame: DataFrame, folder: str) -> None:
    """Delete one copy for each row of a DataFrame. Spark computes it once, and finds the rows if they are many."""
    frame = frame.toDF(*change.stored.names)
    frame.write.parquet(folder)
    count = sum(locations.parquet_footer(path).num_rows for path in locations.parquet_files(folder))
    if count == 0:
        return
    if count <= write_change.MOST_ON_DRIVER or change.by_driver:
        rows = types.conform(files.read_folder(folder), change.stored)
        delete_rows(change, rows)
        return
    settle(change)
    with Workspace(frame.sparkSession, context.log.new_staging()) as workspace:
        wanted = read_parquet(workspace.session, locations.parquet_files(folder), change.stored)
        table = located_frame(workspace, change.snapshot, change.stored.names)
        places = places_of_rows(table, wanted)
        if sum(map(len, places.values())) < count:
            left = weigh(wanted, 1).unionAll(weigh(table.drop(FILE, PLACE), -1))
            missing = consolidate(left, change.stored.names).where(f"{N} > 0").limit(3).toArrow()
            raise absent_rows(change.name, missing)
        staging = context.log.new_staging
        done = change_rows(workspace, change.snapshot, change.stored.names, places, staging, None)
    change.advance(done.adds, done.removes, done.inserted, done.deleted)


def delete_where(context: LakeContext, change: TableChange, where: str, seen: Seen) -> None:
    delete_matching(context, change, where, seen)


def update_where(context: LakeContext, change: TableChange, values: Mapping[str, str], where: str, seen: Seen) -> None:
    update_matching(context, change, values, where, seen)


def replace_where(
    context: LakeContext, change: TableChange, rows: DataFrame | pa.Table, where: str, seen: Seen, folder: str
) -> None:
    """Put rows in the place of those that a condition holds for. It is asked about the new ones, too, unless it is "true"."""
    delete_matching(context, change, where, seen)
    if isinstance(rows, DataFrame):
        insert_frame(change, rows, folder)
    if where != "true":
        given = folder if isinstance(rows, DataFrame) else rows.rename_columns(change.stored.names)
        refuse_outside(context, change, where, seen, given)
    if not isinstance(rows, DataFrame):
        change.add(number_rows(change, rows), 1)


def merge_rows(change: TableChange, rows: Relation, sign: Sign) -> None:
    change.take_over_written()
    nests.update_rows(change, rows, sign)


def merge_frame(context: LakeContext, change: TableChange, frame: DataFrame, sign: Sign) -> None:
    change.take_over_written()
    nests.update_frame(context, change, frame, sign)
