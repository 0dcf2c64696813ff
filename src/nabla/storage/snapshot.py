"""A version of a table: its columns and its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from nabla._cached import cached_property
from nabla.storage import locations, schemas
from nabla.storage.files import DataFile


@dataclass(frozen=True)
class Snapshot:
    """A version of a table: its schema as JSON, the name in the files of each column, and its files."""

    folder: str
    version: int
    schema_json: str
    stored: Mapping[str, str]
    partitioned_by: tuple[str, ...]
    files: tuple[DataFile, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's terms."""
        return schemas.arrow(self.schema_json)

    @property
    def plain(self) -> bool:
        """Whether the files hold exactly the table: no partition values, hidden rows or other names to see to."""
        renamed = any(name != stored for name, stored in self.stored.items())
        return not (renamed or self.partitioned_by or any(file.keep is not None for file in self.files))

    @property
    def paths(self) -> list[str]:
        """The absolute paths of the files."""
        return [self.path(file) for file in self.files]

    def path(self, file: DataFile) -> str:
        """The absolute path of a file."""
        return file.path if locations.is_absolute(file.path) else os.path.join(self.folder, file.path)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)
