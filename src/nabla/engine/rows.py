"""Rows that a query gave, wherever they are: on the driver as Arrow, or in files that Spark wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nabla.algebra.expressions import Column, quote
from nabla.algebra.names import stored_fields
from nabla.engine import types
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.storage import locations

MOST_BYTES = 64 << 20
"""Rows that take more are not fetched."""
FEW_WRITTEN = 5_000
"""So many rows that Spark wrote are fetched to the driver, which computes with them sooner than Spark starts to."""


@dataclass(frozen=True)
class ComputedRows:
    """The result of a query: an Arrow table on the driver, or Parquet files that Spark wrote."""

    schema: StructType
    table: pa.Table | None = None
    folder: str | None = None

    @classmethod
    def none(cls, schema: StructType) -> ComputedRows:
        return cls(schema, table=types.arrow_schema(schema).empty_table())

    @property
    def empty(self) -> bool:
        return self.count == 0

    @property
    def count(self) -> int:
        if self.table is not None:
            return int(self.table.num_rows)
        return sum(locations.parquet_footer(p).num_rows for p in self.files())

    def files(self) -> list[str]:
        return locations.parquet_files(self.folder or "")

    def fetch(self, most: int) -> ComputedRows:
        """The same rows, on the driver if they are no more than that, and plain."""
        if self.table is not None or types.has_nested(self.schema):
            return self
        footers = [locations.parquet_footer(path) for path in self.files()]
        size = sum(f.row_group(i).total_byte_size for f in footers for i in range(f.num_row_groups))
        few = sum(f.num_rows for f in footers) <= most and size <= MOST_BYTES
        return ComputedRows(self.schema, table=self.read()) if few else self

    def read(self) -> pa.Table:
        """The rows on the driver, wherever they are."""
        if self.table is not None:
            return self.table
        pieces = [types.conform(locations.read_parquet(path), self.schema) for path in self.files()]
        return pa.concat_tables([types.arrow_schema(self.schema).empty_table(), *pieces])

    def frame(self, workspace: Workspace) -> DataFrame:
        if self.table is not None:
            return workspace.hold(self.table, self.schema)
        return read_parquet(workspace.session, self.files(), self.schema)


def write_rows(frame: DataFrame, schema: StructType, path: str) -> ComputedRows:
    """Lets Spark write the rows of a query. They pass the driver only if they are few."""
    fit(frame, schema).write.parquet(path)
    return ComputedRows(schema, folder=path).fetch(FEW_WRITTEN)


def fit(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with the stored names and types, column by column."""
    renamed = frame.toDF(*schema.names)
    if [f.dataType for f in renamed.schema.fields] == [f.dataType for f in schema.fields]:
        return renamed
    return renamed.select(*[renamed[quote(f.name)].cast(f.dataType).alias(f.name) for f in schema.fields])


def hidden_schema(columns: Sequence[Column]) -> StructType:
    """The schema of a hidden relation with these columns, which are stored by position."""
    return _hidden_schema(tuple(columns))


@lru_cache(maxsize=1024)
def _hidden_schema(columns: tuple[Column, ...]) -> StructType:
    names = stored_fields(columns)
    raw = StructType([StructField(n, types.type_of(c.type)) for n, c in zip(names, columns, strict=True)])
    return types.to_stored(raw, names)
