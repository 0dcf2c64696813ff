"""The operations of a transaction on one table: each adds to the table's net change."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.frames import Workspace
from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.model import Relation
from nabla.lake.context import LakeContext
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.nested_checks import check_written
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags
from nabla.storage.bags import N


def insert_frame(change: TableChange, frame: DataFrame, folder: str) -> None:
    """Rows that Spark has are written by Spark, into a new folder, and become files of the table as they are."""
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


def delete_where(context: LakeContext, change: TableChange, where: str) -> None:
    change.pieces.append(bags.negated(_matching_rows(context, change, where, {})))


def update_where(context: LakeContext, change: TableChange, values: Mapping[str, str], where: str | None) -> None:
    both = _matching_rows(context, change, where or "true", values)
    names = change.stored.names
    change.pieces.append(bags.negated(both.select([*names, N])))
    after = [f"new {n}" if f"new {n}" in both.column_names else n for n in names]
    new = both.select([*after, N]).rename_columns([*names, N])
    if change.nested:
        rows = new.drop_columns([N]).rename_columns(change.visible.names)
        change.add(nests.canonical_rows(rows, change.visible, change.name), 1)
    else:
        change.pieces.append(new)


def merge_rows(change: TableChange, rows: Relation, sign: Sign) -> None:
    change.take_over_written()
    nests.update_rows(change, rows, sign)


def merge_frame(context: LakeContext, change: TableChange, frame: DataFrame, sign: Sign) -> None:
    change.take_over_written()
    nests.update_frame(context, change, frame, sign)


def _matching_rows(context: LakeContext, change: TableChange, where: str, values: Mapping[str, str]) -> pa.Table:
    """The rows that a condition holds for, as the transaction sees the table, with their copies and new values."""
    change.take_over_written()
    visible, stored = change.visible.names, change.stored.names
    with Workspace(context.spark.named_session, context.log.new_staging()) as workspace:
        frame = snapshot_frame(workspace, change.snapshot, visible).withColumn(N, F.lit(1).cast("bigint"))
        if change.pieces:
            pending = workspace.hold(change.net(), types.with_weight(change.stored))
            frame = frame.unionAll(pending.toDF(*visible, N))
        try:
            kept = frame.where(where)
            columns = [F.col(quote(v)).alias(s) for v, s in zip(visible, stored, strict=True)]
            for name, text in values.items():
                position = visible.index(name)
                new = F.expr(text).cast(change.visible.fields[position].dataType)
                columns.append(new.alias(f"new {stored[position]}"))
            table = kept.select(*columns, F.col(N)).toArrow()
        except PySparkException as error:
            raise context.translate(error, f'change of table "{change.name}"') from None
    fields = [*change.stored.fields]
    places = (stored[visible.index(name)] for name in values)
    fields += [types.field_like(change.stored[place], f"new {place}") for place in places]
    return types.conform(table, types.with_weight(StructType(fields)))
