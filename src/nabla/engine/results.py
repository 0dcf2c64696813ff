"""What queries give, and what a plan computes, wherever it is: on the driver as Arrow, or in files that Spark wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nabla.algebra.expressions import Column, quote
from nabla.algebra.names import stored_fields
from nabla.calculus.recursion.fixpoint import Round
from nabla.engine import types
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.storage import locations

MOST_BYTES = 64 << 20
"""Rows that take more are not fetched."""
FEW_WRITTEN = 5_000
"""Rows that Spark wrote and that the driver may just as well have: it computes with so many sooner than Spark starts to."""


@dataclass
class Rows:
    """The result of a query: an Arrow table on the driver, or Parquet files that Spark wrote."""

    schema: StructType
    table: pa.Table | None = None
    folder: str | None = None

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

    def fetched(self, most: int) -> Rows:
        """The same rows, on the driver if they are no more than that, and plain."""
        if self.table is not None or types.has_nested(self.schema):
            return self
        footers = [locations.parquet_footer(path) for path in self.files()]
        size = sum(f.row_group(i).total_byte_size for f in footers for i in range(f.num_row_groups))
        few = sum(f.num_rows for f in footers) <= most and size <= MOST_BYTES
        return Rows(self.schema, table=self.read()) if few else self

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


def written(frame: DataFrame, schema: StructType, path: str) -> Rows:
    """The rows of a query as Spark writes them, which never pass the driver unless they are few."""
    fitted(frame, schema).write.parquet(path)
    return Rows(schema, folder=path).fetched(FEW_WRITTEN)


def fitted(frame: DataFrame, schema: StructType) -> DataFrame:
    """By position to the stored names and types."""
    renamed = frame.toDF(*schema.names)
    if [f.dataType for f in renamed.schema.fields] == [f.dataType for f in schema.fields]:
        return renamed
    return renamed.select(*[renamed[quote(f.name)].cast(f.dataType).alias(f.name) for f in schema.fields])


@dataclass(frozen=True)
class Replacement:
    """`rows` take the place of all that a view has for the keys `touched`; `key` are the stored names of its columns."""

    key: tuple[str, ...]
    touched: pa.Table
    rows: pa.Table


@dataclass
class Result:
    """What a plan computed: the signed `change` of the view, its rows for some keys as a `replacement`, or the `whole`."""

    change: Rows | None = None
    replacement: Replacement | None = None
    whole: Rows | None = None
    states: dict[str, Rows] = field(default_factory=dict)
    queries: int = 0
    looked_at: int = 0
    """Rows of tables that the driver looked through."""
    rounds: tuple[Round, ...] = ()
    """The rounds of a recursion."""


def hidden_schema(columns: Sequence[Column]) -> StructType:
    names = stored_fields(tuple(columns))
    raw = StructType([StructField(n, types.type_of(c.type)) for n, c in zip(names, columns, strict=True)])
    return types.stored(raw, names)
