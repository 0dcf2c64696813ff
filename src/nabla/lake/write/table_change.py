"""The net change of one table within a transaction, before it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from nabla.engine import intake, types
from nabla.engine.results import Replacement
from nabla.errors import NablaError
from nabla.lake.write import nested_tables as nests
from nabla.storage import bags
from nabla.storage.bags import N
from nabla.storage.catalog import Entry
from nabla.storage.table import Snapshot


@dataclass
class TableChange:
    """The net change of one table so far: signed rows, files that Spark wrote, or rows by key. `visible` is the schema that
    users see, `snapshot` what the table holds."""

    name: str
    entry: Entry
    visible: StructType
    snapshot: Snapshot
    pieces: list[pa.Table] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    replacement: Replacement | None = None
    needed: list[pa.Table] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.pieces or self.written or self.replacement)

    @property
    def stored(self) -> StructType:
        return types.from_json(self.snapshot.schema_json)

    @property
    def nested(self) -> bool:
        return nests.is_nested(self.entry)

    def rows(self, data: intake.Data) -> pa.Table:
        """Rows that users hand over, in Arrow; those of a nested table in PNF and in canonical order."""
        if self.nested:
            return nests.canonical_rows(data, self.visible, self.name)
        return intake.arrow_rows(data, self.visible, self.name)

    def add(self, rows: pa.Table, sign: int) -> None:
        counted = bags.counted(rows.rename_columns(self.stored.names))
        self.pieces.append(counted if sign > 0 else bags.negated(counted))

    def net(self) -> pa.Table:
        empty = types.arrow_schema(types.with_weight(self.stored)).empty_table()
        return bags.consolidate(pa.concat_tables([empty, *self.pieces]))


def absent_rows(table: str, missing: pa.Table) -> NablaError:
    first = ", ".join(str(tuple(r.values())[:-1]) for r in missing.slice(0, 3).to_pylist())
    return NablaError(
        "NABLA_ABSENT_ROW",
        f"{int(pc.sum(missing.column(N)).as_py())} rows to delete are not in the table: {first}",
        place=f'table "{table}"',
        remedy="Delete rows that are there, as often as they are, or use where=.",
    )
