"""The net change of one table within a transaction, before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.engine.apply import Replacement
from nabla.errors import NablaError
from nabla.lake.objects.names import is_nested
from nabla.storage import bags, files, locations
from nabla.storage.bags import N
from nabla.storage.catalog import Entry
from nabla.storage.files import DataFile
from nabla.storage.find_rows import Located
from nabla.storage.replace import compare_rows
from nabla.storage.table import Snapshot


@dataclass
class TableChange:
    """The net change of one table so far: signed rows (`pieces`), folders of files that Spark wrote (`written`), or rows by
    key (`replacement`). `visible` is the schema that users see, `snapshot` the table before the change, and `needed` are rows
    that must have been there. `located` are rows that a condition has found, with the files and places where they are.

    Changes of millions of rows are made in files at once: then `snapshot` has them, `base` is the table before, and `moved`
    says how many rows they have inserted and deleted. Rows of nested tables, and those that may be set aside, are changed
    `by_driver`, however many there are. `numbers` are the last ones that rows have got in identity columns. Readers do not
    know the `hidden` columns: rows that differ only there do not differ."""

    name: str
    entry: Entry
    visible: StructType
    snapshot: Snapshot
    pieces: list[pa.Table] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    replacement: Replacement | None = None
    needed: list[pa.Table] = field(default_factory=list)
    located: list[Located] = field(default_factory=list)
    base: Snapshot | None = None
    moved: tuple[int, int] = (0, 0)
    by_driver: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    @property
    def changed(self) -> bool:
        return bool(self.pieces or self.written or self.replacement or self.base)

    def advance(self, adds: Sequence[DataFile], removes: Sequence[DataFile], inserted: int, deleted: int) -> None:
        """Go on from files that are written, and that no commit names yet. What was to be written before is in them."""
        self.base = self.base or self.snapshot
        gone = {file.path for file in removes}
        kept = (file for file in self.snapshot.files if file.path not in gone)
        self.snapshot = replace(self.snapshot, files=(*kept, *adds))
        self.moved = (self.moved[0] + inserted, self.moved[1] + deleted)
        self.pieces, self.written, self.replacement, self.needed, self.located = [], [], None, [], []

    @property
    def stored(self) -> StructType:
        return types.from_json(self.snapshot.schema_json)

    @property
    def nested(self) -> bool:
        return is_nested(self.entry)

    def add(self, rows: pa.Table, sign: int) -> None:
        """Insert (sign 1) or delete (sign -1) rows."""
        counted = bags.counted(rows.rename_columns(self.stored.names))
        self.pieces.append(counted if sign > 0 else bags.negated(counted))

    def known_places(self) -> Located | None:
        """The places of rows that conditions have found, each once. They are complete if all deletions are of such rows: then
        none has to be looked for."""
        if not self.located:
            return None
        rows = pa.concat_tables([found.rows for found in self.located])
        places = pa.table(
            {
                "file": pa.chunked_array([found.files for found in self.located], pa.string()),
                "place": pa.chunked_array([found.places for found in self.located], pa.int64()),
                "row": pa.arange(0, rows.num_rows),
            }
        )
        first = places.group_by(["file", "place"]).aggregate([("row", "min")])
        every = first.num_rows == rows.num_rows
        complete = every and rows.num_rows == sum(bags.total(bags.split(piece)[0]) for piece in self.pieces)
        kept = rows if every else rows.take(first["row_min"])
        if every:
            return Located(kept, places["file"].combine_chunks(), places["place"].combine_chunks(), complete)
        return Located(kept, first["file"].combine_chunks(), first["place"].combine_chunks())

    def count_written(self) -> int:
        """The number of rows that Spark wrote."""
        return sum(locations.parquet_footer(f).num_rows for path in self.written for f in locations.parquet_files(path))

    def take_over_written(self) -> None:
        """Read the rows that Spark wrote: an operation after theirs may concern them."""
        for path in self.written:
            self.pieces.append(bags.counted(types.conform(files.read_folder(path), self.stored)))
        self.written = []
        if self.replacement is not None:
            new, self.replacement = self.replacement, None
            deleted, inserted = compare_rows(self.snapshot, new.key, new.touched, new.rows)
            self.pieces += [bags.negated(bags.counted(deleted)), bags.counted(inserted)]

    def net(self) -> pa.Table:
        """The signed rows of all operations so far, consolidated."""
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
