"""A table or view of a catalog of the session: what its catalog knows, and rows that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from nabla.engine.spark.catalog_tables import Described
from nabla.sources.port import Definition, Piece, Position
from nabla.sources.query import Ask, Query

Describe = Callable[[str], Described]
"""What the catalogs of the user's session say of a table."""


@dataclass(frozen=True)
class CatalogTable:
    """A table whose catalog does not tell its changes. It is known by its name and by when it was created."""

    name: str
    describe: Describe
    ask: Ask
    lake: str

    @classmethod
    def restore(cls, definition: Definition, describe: Describe, ask: Ask, lake: str) -> CatalogTable:
        return cls(definition["table"], describe, ask, lake)

    @property
    def place(self) -> str:
        return f"table {self.name}"

    def look(self, known: Mapping[str, Piece]) -> Position:
        described = self.describe(self.name)
        position = self._rows(described).look(known)
        return replace(position, identity=f"{described.kind} {described.created}".strip())

    def has_moved(self, identity: str, version: str, known: Mapping[str, Piece]) -> bool | None:
        return None

    def write(self, position: Position, schema: StructType, numbers: Mapping[str, int] | None, folder: str) -> int:
        return self._rows(self.describe(self.name)).write(position, schema, numbers, folder)

    def _rows(self, described: Described) -> Query:
        return Query(f"SELECT * FROM {described.name}", self.ask, self.lake)
