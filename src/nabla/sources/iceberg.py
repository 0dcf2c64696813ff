"""An Iceberg table of a catalog that pyiceberg knows: each data file with its deletes is a piece.

A snapshot lists its data files, and for each the files with the positions of deleted rows. Whatever an operation did
(append, overwrite, merge, compaction, rollback), its change is the data files that came and went or got other deletes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from nabla.engine import intake, types
from nabla.errors import NablaError
from nabla.sources.port import Definition, Piece, Position, away, moving
from nabla.storage import files
from nabla.storage.copied_table import PIECE
from nabla.storage.files import TARGET_ROWS
from nabla.storage.names import safe


@dataclass
class Iceberg:
    """The table `name` ("catalog.namespace.table"). `columns` are those that were registered, each with what it is for Iceberg:
    a column that was dropped and made again under its name is another one."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    _table: Any = field(default=None, init=False)
    _tasks: dict[str, Any] = field(default_factory=dict, init=False)

    @classmethod
    def find(cls, name: str) -> Iceberg:
        """A table that a user names. NABLA_AWAY where there is none."""
        found = cls(name)
        schema = found._load().schema()
        found.columns = {column.name: _identity(column) for column in schema.fields}
        return found

    @classmethod
    def restore(cls, definition: Definition) -> Iceberg:
        return cls(definition["iceberg"], definition["columns"])

    def to_json(self) -> Definition:
        return {"kind": "iceberg", "iceberg": self.name, "columns": dict(self.columns)}

    @property
    def place(self) -> str:
        return f"Iceberg table {self.name}"

    def look(self, known: Mapping[str, Piece]) -> Position:
        self._table = self._load()
        with self._reading():
            tasks = list(self._table.scan().plan_files())
            self._tasks = {task.file.file_path: task for task in tasks}
            schema = self._schema()
        if len(self._tasks) < len(tasks):
            raise NablaError(
                "NABLA_SOURCE", "a snapshot lists a data file twice", place=self.place, remedy="Rewrite its data files."
            )
        pieces = {path: Piece("", self._digest(task)) for path, task in self._tasks.items()}
        return Position(self._identity, self._version, schema, pieces)

    def has_moved(self, identity: str, version: str, known: Mapping[str, Piece]) -> bool | None:
        self._table = self._load()
        return (identity, version) != (self._identity, self._version)

    def write(self, position: Position, schema: StructType, numbers: Mapping[str, int] | None, folder: str) -> int:
        assert numbers is not None
        stored = types.to_stored(schema, safe(schema.names))
        physical = StructType([*stored.fields, StructField(PIECE, LongType())])
        waiting: list[pa.Table] = []
        read = 0
        with self._reading():
            for path, number in numbers.items():
                rows = self._rows(self._tasks[path], schema)
                read += int(self._tasks[path].file.file_size_in_bytes)
                numbered = rows.rename_columns(stored.names).append_column(
                    PIECE, pa.repeat(pa.scalar(number, pa.int64()), len(rows))
                )
                waiting.append(types.conform(numbered, physical))
                if sum(map(len, waiting)) >= TARGET_ROWS:
                    files.write(folder, pa.concat_tables(waiting))
                    waiting = []
            if sum(map(len, waiting)):
                files.write(folder, pa.concat_tables(waiting))
        return read

    # ------------------------------------------------------------------ pyiceberg

    def _load(self) -> Any:
        """The table as it is now, from its catalog: with the properties that pyiceberg has for that by now."""
        config, catalogs, errors = _pyiceberg()
        catalog, _, rest = self.name.partition(".")
        identifier = tuple(rest.split("."))
        if not all((catalog, *identifier)) or len(identifier) < 2:
            raise NablaError(
                "NABLA_SOURCE",
                f"{self.name!r} does not name an Iceberg table",
                place="iceberg=",
                remedy='Write it as "catalog.namespace.table".',
            )
        properties = config.Config().get_catalog_config(catalog)
        if not properties:
            raise away(
                self.place,
                f'pyiceberg knows no catalog "{catalog}" (~/.pyiceberg.yaml, or PYICEBERG_CATALOG__… in the environment)',
            )
        with self._reading():
            try:
                return catalogs.load_catalog(catalog, **properties).load_table(identifier)
            except (errors.NoSuchTableError, errors.NoSuchNamespaceError, errors.NoSuchIcebergTableError):
                raise away(self.place, "its catalog has no such table") from None

    @property
    def _identity(self) -> str:
        return str(self._table.metadata.table_uuid)

    @property
    def _version(self) -> str:
        snapshot = self._table.current_snapshot()
        columns = "".join(f"{column.name} {_identity(column)}\n" for column in self._table.schema().fields)
        told = hashlib.blake2b(columns.encode(), digest_size=8).hexdigest()
        return f"snapshot {snapshot.snapshot_id if snapshot else 'none'}, columns {told}"

    def _schema(self) -> StructType:
        _, projected = _arrow()
        return intake.schema_of(projected(self._table.schema(), include_field_ids=False).empty_table(), self.place)

    def _digest(self, task: Any) -> str:
        """What the rows of a data file depend on: the file, its deletes, and which of its columns are read."""
        now = {column.name: _identity(column) for column in self._table.schema().fields}
        read = [(name, now.get(name, "")) for name in self.columns]
        deletes = sorted((d.file_path, d.content_offset or 0) for d in task.delete_files)
        return hashlib.blake2b(repr((task.file.file_path, deletes, read)).encode(), digest_size=16).hexdigest()

    def _rows(self, task: Any, schema: StructType) -> pa.Table:
        scan, _ = _arrow()
        from pyiceberg.expressions import AlwaysTrue

        columns = self._table.schema().select(*schema.names)
        found = scan(self._table.metadata, self._table.io, columns, AlwaysTrue()).to_table([task])
        return found.select(schema.names)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns whatever catalogs, stores and pyiceberg raise into an error of the source."""
        try:
            yield
        except NablaError:
            raise
        except FileNotFoundError as error:
            raise moving(self.place) from error
        except Exception as error:
            if "equality deletes" in str(error):
                raise NablaError(
                    "NABLA_SOURCE",
                    "it has equality deletes, which pyiceberg does not read",
                    place=self.place,
                    remedy="Let its writer rewrite the data files, or register it by a query of a Spark catalog.",
                ) from error
            raise away(self.place, f"{type(error).__name__}: {error}") from error


def _identity(column: Any) -> str:
    """What a column is for Iceberg: the numbers and types of its fields, at all levels."""
    return f"{column.field_id} {column.field_type!r}"


def _pyiceberg() -> tuple[Any, Any, Any]:
    try:
        import pyiceberg.catalog
        import pyiceberg.exceptions
        import pyiceberg.utils.config
    except ImportError as error:
        raise NablaError(
            "NABLA_NOT_INSTALLED",
            f"Iceberg tables need the package pyiceberg: {error}",
            place="iceberg=",
            remedy="pip install 'nabla-spark[iceberg]'",
        ) from None
    return pyiceberg.utils.config, pyiceberg.catalog, pyiceberg.exceptions


def _arrow() -> tuple[Any, Any]:
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    return ArrowScan, schema_to_pyarrow
