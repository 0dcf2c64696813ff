"""Parquet files of a table: the description of one and of all in a version, writing new ones, taking over those that Spark
wrote."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from nabla._cached import cached_property
from nabla.storage import locations, machine, schemas, statistics
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.locations import Location
from nabla.storage.statistics import Statistics, Value
from nabla.storage.uncommitted import in_thread, note

TARGET_ROWS = 131_072
"""Rows a file where nothing is rewritten, as in logs: enough for Spark to scan at full speed."""

_FILES, _FEWEST_ROWS, _MOST_ROWS = 32, 16_384, 1_048_576

_SAMPLE = 4096
_WRITERS = 4


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    `path` is relative to the table's folder (absolute for a file that lives elsewhere, as in a shallow clone). `rows`
    are those that the table has, without those that are `hidden` by a deletion vector. The values of partition columns
    are not in the file but in `partition`.
    """

    path: str
    rows: int
    bytes: int
    minimum: Mapping[str, Value] = field(default_factory=dict)
    maximum: Mapping[str, Value] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    partition: Mapping[str, Any] = field(default_factory=dict)
    hidden: Hidden | None = None

    def to_json(self) -> dict[str, object]:
        """As JSON, for a file without partition: the kind that Nabla writes."""
        return {
            **self.named(),
            "minimum": {name: statistics.encode(value) for name, value in self.minimum.items()},
            "maximum": {name: statistics.encode(value) for name, value in self.maximum.items()},
            "nulls": dict(self.nulls),
        }

    def named(self) -> dict[str, object]:
        """As JSON without statistics, for a file that is removed."""
        hidden = {} if self.hidden is None else {"hidden": self.hidden.to_json()}
        return {"path": self.path, "rows": self.rows, "bytes": self.bytes, **hidden}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        """The inverse of `to_json` and of `named`."""
        return cls(
            path=json["path"],
            rows=json["rows"],
            bytes=json["bytes"],
            minimum={name: statistics.decode(value) for name, value in json.get("minimum", {}).items()},
            maximum={name: statistics.decode(value) for name, value in json.get("maximum", {}).items()},
            nulls=json.get("nulls", {}),
            hidden=Hidden.from_json(json["hidden"]) if "hidden" in json else None,
        )

    @property
    def written(self) -> int:
        """The number of rows in the file, hidden ones among them."""
        return self.rows if self.hidden is None else self.hidden.written

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the file and of that with its deletion vector, if it has one."""
        vector = None if self.hidden is None or self.hidden.vector is None else self.hidden.vector.path
        return (self.path,) if vector is None else (self.path, vector)

    def hiding(self, hidden: Hidden) -> Self:
        """This file with other rows hidden. Of NULLs only those counts stay true that are zero."""
        nulls = {name: count for name, count in self.nulls.items() if count == 0}
        return replace(self, rows=hidden.written - hidden.rows, nulls=nulls, hidden=hidden)

    @property
    def delta_statistics(self) -> str:
        """The `stats` text of this file's add action."""
        known = Statistics(self.minimum, self.maximum, self.nulls)
        return statistics.to_delta(self.written, known, tight=self.hidden is None)


@dataclass(frozen=True)
class Snapshot:
    """A version of a table: its schema as JSON, the name in the files of each column, and its files. `marks_rows` says that
    deleted rows may be marked by deletion vectors."""

    folder: str
    version: int
    schema_json: str
    stored: Mapping[str, str]
    partitioned_by: tuple[str, ...]
    files: tuple[DataFile, ...]
    marks_rows: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's terms."""
        return schemas.arrow(self.schema_json)

    @property
    def plain(self) -> bool:
        """Whether the files hold exactly the table: no partition values, hidden rows or other names to see to."""
        renamed = any(name != stored for name, stored in self.stored.items())
        return not (renamed or self.partitioned_by or any(file.hidden is not None for file in self.files))

    @property
    def paths(self) -> list[str]:
        """The absolute paths of the files."""
        return [self.path(file) for file in self.files]

    def path(self, file: DataFile) -> str:
        """The absolute path of a file."""
        return file.path if locations.is_absolute(file.path) else os.path.join(self.folder, file.path)

    def keep(self, file: DataFile) -> pa.BooleanArray | None:
        """For each row of a file whether the table has it; None if it has all."""
        return None if file.hidden is None else file.hidden.keep(self.folder)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def with_schema(snapshot: Snapshot, schema_json: str) -> Snapshot:
    """The same files as a version of another schema. They have its columns under their names, if they have them."""
    return replace(snapshot, schema_json=schema_json, stored=schemas.stored_names(schema_json, "none", snapshot.folder))


def with_names(snapshot: Snapshot, schema_json: str, names: Mapping[str, str], stored: Mapping[str, str]) -> Snapshot:
    """A version of a table with other columns: `names` has, by their names in the version, those that stay, `stored` the name
    in the files of each new one. Statistics of columns whose type changes may not be compared with their values."""
    before, after = snapshot.schema, schemas.arrow(schema_json)
    alike = {old: new for old, new in names.items() if before.field(old).type == after.field(new).type}

    def known(values: Mapping[str, Any]) -> dict[str, Any]:
        return {alike[old]: value for old, value in values.items() if old in alike}

    described = (
        replace(
            file,
            minimum=known(file.minimum),
            maximum=known(file.maximum),
            nulls=known(file.nulls),
            partition={names[old]: value for old, value in file.partition.items() if old in names},
        )
        for file in snapshot.files
    )
    partitioned_by = tuple(names[old] for old in snapshot.partitioned_by if old in names)
    return replace(
        snapshot, schema_json=schema_json, stored=stored, files=tuple(described), partitioned_by=partitioned_by
    )


def write(folder: Location, table: pa.Table, *, rows: int = TARGET_ROWS, below: str = "") -> tuple[DataFile, ...]:
    """Write a table as Parquet files of at most `rows` rows under new names in `folder` (or its subfolder `below`).

    An empty table gives no file. The files belong to nothing until they are committed.
    """
    locations.make_folder(os.path.join(folder, below))
    pieces = list(_pieces(table, rows))
    if len(pieces) <= 1:
        return tuple(_write_one(folder, piece, below) for piece in pieces)
    with ThreadPoolExecutor(_WRITERS) as pool:
        return tuple(pool.map(in_thread(partial(_write_one, folder, below=below)), pieces))


def target_rows(total: int) -> int:
    """Rows a file for a table of so many rows whose rows may be deleted.

    Deleting a row rewrites its file, so a table has some 32 of them: a change of a few scattered rows leaves most
    alone, and opening them all still costs little against reading them.
    """
    return min(max(total // _FILES, _FEWEST_ROWS), _MOST_ROWS)


def describe(folder: Location, path: str) -> DataFile:
    """The data file of an existing Parquet file, from its footer; `path` is relative to `folder`."""
    return _described(folder, path, locations.parquet_footer(os.path.join(folder, path)))


def _described(folder: Location, path: str, footer: pq.FileMetaData) -> DataFile:
    known, size = statistics.from_footer(footer), locations.size(os.path.join(folder, path))
    return DataFile(path, footer.num_rows, size, known.minimum, known.maximum, known.nulls)


def adopt(staging: Location, folder: Location, *, below: str = "") -> tuple[DataFile, ...]:
    """Move the Parquet files that Spark wrote into `staging` to `folder` (or its subfolder `below`).

    Files without rows stay behind. Both folders must be on one file system.
    """
    locations.make_folder(os.path.join(folder, below))
    taken: list[DataFile] = []
    for written in locations.parquet_files(staging):
        machine.point("files.adopt")
        if locations.parquet_footer(written).num_rows == 0:
            continue
        path = _new_name(folder, below)
        locations.move(written, os.path.join(folder, path))
        taken.append(describe(folder, path))
    return tuple(taken)


def read_folder(staging: Location, columns: list[str] | None = None) -> pa.Table:
    """All rows of the Parquet files that Spark wrote into a folder."""
    return pa.concat_tables([locations.read_parquet(path, columns) for path in locations.parquet_files(staging)])


def _pieces(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Parts of about equal size: a last file of a few rows would have to be folded in again soon."""
    count = -(-table.num_rows // rows)
    for i in range(count):
        start, end = table.num_rows * i // count, table.num_rows * (i + 1) // count
        yield table.slice(start, end - start)


def _write_one(folder: Location, table: pa.Table, below: str) -> DataFile:
    path = _new_name(folder, below)
    machine.point("files.write")
    # Dictionaries cost five times the writing, and pay for repeated texts only.
    footer = locations.write_parquet(
        table,
        os.path.join(folder, path),
        compression="snappy",
        use_dictionary=[leaf for name in table.column_names for leaf in _repeating(table[name], name)],
        store_schema=False,
        write_page_checksum=True,  # for `fsck`
        store_decimal_as_integer=True,  # as Spark does: it reads fixed-length decimals several times slower
    )
    machine.point("files.written")
    return _described(folder, path, footer)


def _new_name(folder: Location, below: str) -> str:
    """The path of a new file, relative to its table's folder, noted as one that is not committed yet."""
    path = os.path.join(below, f"{uuid.uuid4().hex}.parquet")
    note(os.path.join(folder, path))
    return path


def _repeating(column: pa.ChunkedArray, path: str) -> Iterator[str]:
    """The columns of texts that repeat, those inside of structs and lists by their paths."""
    kind = column.type
    if types.is_struct(kind):
        for i, field in enumerate(column.flatten()):
            yield from _repeating(field, f"{path}.{kind.field(i).name}")
    elif types.is_list(kind):
        yield from _repeating(pc.list_flatten(column.slice(0, _SAMPLE)), f"{path}.list.element")
    elif types.is_string(kind) or types.is_large_string(kind):
        sample = column.slice(0, _SAMPLE)
        if pc.count_distinct(sample).as_py() * 2 <= len(sample):
            yield path
