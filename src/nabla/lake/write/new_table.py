"""The files of a new table, and its entry in the lake's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.lake.context import LakeContext
from nabla.lake.write.nested_checks import check_written
from nabla.storage import files, locations
from nabla.storage.catalog import CLUSTER_BY, DELTA_FEED, MARKS_ROWS, Entry, Part
from nabla.storage.files import DataFile
from nabla.storage.names import safe
from nabla.storage.table import StoredTable


def new_table(
    context: LakeContext, name: str, shape: StructType, data: intake.Data, definition: Mapping[str, Any]
) -> Entry:
    """A table with its first rows, written and ready to be committed."""
    stored = types.to_stored(shape, safe(shape.names))
    path = context.log.new_path(name)
    adds = _write_rows(context, data, shape, stored, path, name, definition)
    marks_rows, captures = (bool(definition.get(option)) for option in (MARKS_ROWS, DELTA_FEED))
    StoredTable.create(context.log.folder(path), stored.json(), adds, marks_rows=marks_rows, captures=captures)
    return Entry(name, "table", definition, {"data": Part(path, 0)}, {"rows": sum(f.rows for f in adds)})


def clustered(frame: DataFrame, definition: Mapping[str, Any]) -> DataFrame:
    """The rows of a table as they are written: sorted, if it names columns for that."""
    columns = definition.get(CLUSTER_BY)
    return frame.sort(*map(quote, columns)) if columns else frame


def _write_rows(
    context: LakeContext,
    data: intake.Data,
    shape: StructType,
    stored: StructType,
    path: str,
    name: str,
    definition: Mapping[str, Any],
) -> tuple[DataFile, ...]:
    """The first files of a new table."""
    folder = context.log.folder(path)
    if data is None:
        return ()
    if isinstance(data, DataFrame):
        staging = context.log.new_staging()
        try:
            frame = clustered(intake.fit_frame(data, shape, name), definition)
            frame.toDF(*stored.names).write.parquet(staging)
            if definition.get("nested"):
                check_written(staging, shape, name)
            return files.adopt(staging, folder)
        finally:
            locations.remove_folder(staging)
    return files.write(folder, types.conform(intake.arrow_rows(data, shape, name), stored))
