"""The files of a new table, and its entry in the lake's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.engine import intake, types
from nabla.lake.context import LakeContext
from nabla.lake.write.nested_checks import check_written
from nabla.storage import files, locations
from nabla.storage.catalog import MARKS_ROWS, Entry, Part
from nabla.storage.files import DataFile
from nabla.storage.names import safe
from nabla.storage.table import StoredTable


def new_table(
    context: LakeContext, name: str, shape: StructType, data: intake.Data, definition: Mapping[str, Any]
) -> Entry:
    """A table with its first rows, written and ready to be committed."""
    stored = types.to_stored(shape, safe(shape.names))
    path = context.log.new_path(name)
    adds = _write_rows(context, data, shape, stored, path, name, bool(definition.get("nested")))
    marks_rows = bool(definition.get(MARKS_ROWS))
    StoredTable.create(context.log.folder(path), stored.json(), adds, marks_rows=marks_rows)
    return Entry(name, "table", definition, {"data": Part(path, 0)}, {"rows": sum(f.rows for f in adds)})


def _write_rows(
    context: LakeContext, data: intake.Data, shape: StructType, stored: StructType, path: str, name: str, nested: bool
) -> tuple[DataFile, ...]:
    """The first files of a new table."""
    folder = context.log.folder(path)
    if data is None:
        return ()
    if isinstance(data, DataFrame):
        staging = context.log.new_staging()
        try:
            intake.fit_frame(data, shape, name).toDF(*stored.names).write.parquet(staging)
            if nested:
                check_written(staging, shape, name)
            return files.adopt(staging, folder)
        finally:
            locations.remove_folder(staging)
    return files.write(folder, types.conform(intake.arrow_rows(data, shape, name), stored))
