"""Anything that Spark reads by a query: nobody tells what changed, so all rows are read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.errors import NablaError
from nabla.sources.port import Definition, Piece, Position
from nabla.storage import foreign_files, locations
from nabla.storage.names import safe

Ask = Callable[[str], AbstractContextManager[DataFrame]]
"""Gives the DataFrame of a query in the user's session. One that reads the lake by its names is refused. Errors of Spark inside
become errors of the lake."""


@dataclass(frozen=True)
class Query:
    """The rows of a query. `lake` is the folder that no row may come from."""

    text: str
    ask: Ask
    lake: str

    @classmethod
    def restore(cls, definition: Definition, ask: Ask, lake: str) -> Query:
        return cls(definition["query"], ask, lake)

    def to_json(self) -> Definition:
        return {"kind": "query", "query": self.text}

    @property
    def place(self) -> str:
        return f"query {' '.join(self.text.split())[:80]!r}"

    def look(self, known: Mapping[str, Piece]) -> Position:
        with self.ask(self.text) as frame:
            self._refuse_own(frame)
            return Position("", "", types.nullable(frame.schema), None)

    def has_moved(self, identity: str, version: str, known: Mapping[str, Piece]) -> bool | None:
        return None

    def write(self, position: Position, schema: StructType, numbers: Mapping[str, int] | None, folder: str) -> int:
        stored = types.to_stored(schema, safe(schema.names))
        with self.ask(self.text) as frame:
            columns = zip(schema.names, stored.fields, strict=True)
            frame.select(*(F.col(quote(n)).cast(f.dataType).alias(f.name) for n, f in columns)).write.parquet(folder)
        return sum(locations.size(path) for path in locations.parquet_files(folder))

    def _refuse_own(self, frame: DataFrame) -> None:
        """Refuse a query over the lake's own tables and views under other names: it would be made from itself."""
        if any(locations.is_inside(foreign_files.path_of(uri), self.lake) for uri in frame.inputFiles()):
            raise own_rows(self.place)


def own_rows(place: str) -> NablaError:
    return NablaError(
        "NABLA_CYCLE",
        "it reads the lake's own tables or views",
        place=place,
        remedy="Make a view from them, and register what comes from elsewhere.",
    )
