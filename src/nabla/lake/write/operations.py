"""The operations of a transaction on one table: each adds to the table's net change."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from nabla.engine import intake
from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.model import Relation
from nabla.lake.context import LakeContext
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.conditions import Seen, matching_rows
from nabla.lake.write.nested_checks import check_written
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags
from nabla.storage.bags import N


def insert_frame(change: TableChange, frame: DataFrame, folder: str) -> None:
    """Let Spark write its rows into a new folder; these files become files of the table as they are."""
    frame.toDF(*change.stored.names).write.parquet(folder)
    if change.nested:
        check_written(folder, change.visible, change.name)
    change.written.append(folder)


def read_rows(change: TableChange, data: intake.Data) -> pa.Table:
    """Rows that users hand over, in Arrow; those of a nested table in PNF and in canonical order."""
    if change.nested:
        return nests.canonical_rows(data, change.visible, change.name)
    return intake.arrow_rows(data, change.visible, change.name)


def delete_rows(change: TableChange, rows: pa.Table) -> None:
    change.take_over_written()
    change.add(rows, -1)
    change.needed.append(bags.split(change.net())[0])


def delete_where(context: LakeContext, change: TableChange, where: str, seen: Seen) -> None:
    change.pieces.append(bags.negated(matching_rows(context, change, where, {}, seen)))


def update_where(context: LakeContext, change: TableChange, values: Mapping[str, str], where: str, seen: Seen) -> None:
    both = matching_rows(context, change, where, values, seen)
    names = change.stored.names
    after = [f"new {n}" if f"new {n}" in both.column_names else n for n in names]
    new = both.select([*after, N]).rename_columns([*names, N])
    if change.nested:
        rows = new.drop_columns([N]).rename_columns(change.visible.names)
        new = bags.counted(nests.canonical_rows(rows, change.visible, change.name).rename_columns(names))
    change.pieces += [bags.negated(both.select([*names, N])), new]


def merge_rows(change: TableChange, rows: Relation, sign: Sign) -> None:
    change.take_over_written()
    nests.update_rows(change, rows, sign)


def merge_frame(context: LakeContext, change: TableChange, frame: DataFrame, sign: Sign) -> None:
    change.take_over_written()
    nests.update_frame(context, change, frame, sign)
