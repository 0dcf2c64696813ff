"""A table of the session's catalog that shows a version of the lake: made, moved to the next version, and dropped by SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from nabla.algebra.expressions import quote
from nabla.errors import NablaError

LAKE, PATH, NAME, VERSION, LAKE_VERSION, SOURCES = (
    f"nabla.{word}" for word in ("lake", "path", "name", "version", "lake_version", "sources")
)
"""The properties of a published table: which lake it is of, what it shows of it, and at which versions."""
_SESSION_CATALOG = "spark_catalog"
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


@dataclass(frozen=True)
class CatalogTable:
    """A table of the session's catalog, that may be there or not."""

    session: SparkSession
    table: str

    @property
    def sql(self) -> str:
        """Its name as SQL has it, with the database."""
        parts = self._parts()
        if len(parts) == 1:
            parts = [self.session.catalog.currentDatabase(), *parts]
        if len(parts) == 3 and parts[0] != _SESSION_CATALOG:
            known = self.session.conf.get(f"spark.sql.catalog.{parts[0]}", None)
            why = "keeps its own tables, and no external ones" if known else "is not known to the session"
            raise _refused(self.table, f"the catalog {parts[0]} {why}", f"Name a table of {_SESSION_CATALOG}.")
        if len(parts) > 3:
            raise _refused(self.table, "a name has a catalog, a database and a table", 'Write it as "db.name".')
        return ".".join(quote(part) for part in parts[-2:])

    def _parts(self) -> list[str]:
        if not _NAME.fullmatch(self.table):
            raise _refused(self.table, "this is no name of a table", 'Write it as "db.name".')
        return [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(self.table)]

    def properties(self) -> Mapping[str, str] | None:
        """The properties of the table; None if there is none."""
        with self._translating():
            if not self.session.catalog.tableExists(self.sql):
                return None
            return {row[0]: row[1] for row in self.session.sql(f"SHOW TBLPROPERTIES {self.sql}").collect()}

    def location(self) -> str:
        """The folder that the table shows."""
        rows = self.session.sql(f"DESCRIBE TABLE EXTENDED {self.sql}").collect()
        return next((unquote(urlparse(row[1]).path) for row in rows if row[0] == "Location"), "")

    def schema_and_comments(self) -> list[tuple[str, str, str | None]]:
        fields = self.session.table(self.sql).schema.fields
        return [(f.name, f.dataType.simpleString(), f.metadata.get("comment")) for f in fields]

    def create(self, schema: StructType, comments: Mapping[str, str], folder: str, said: Mapping[str, str]) -> None:
        columns = ", ".join(
            f"{quote(f.name)} {_type(f.dataType)}{_comment(comments.get(f.name))}" for f in schema.fields
        )
        with self._translating():
            self.session.sql(
                f"CREATE TABLE {self.sql} ({columns}) USING parquet LOCATION {_text(folder)} {_properties(said)}"
            )

    def move(self, folder: str, said: Mapping[str, str]) -> None:
        """Show another version: readers see one or the other, and nothing between."""
        with self._translating():
            self.session.sql(f"ALTER TABLE {self.sql} SET LOCATION {_text(folder)}")
            self.session.sql(f"ALTER TABLE {self.sql} SET {_properties(said)}")

    def drop(self) -> None:
        with self._translating():
            self.session.sql(f"DROP TABLE IF EXISTS {self.sql}")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            first = str(error).strip().splitlines()[0]
            remedy = "Name a table of a database that is there, and that you may write to."
            raise _refused(self.table, f"the catalog refuses it: {first}", remedy) from error


def _refused(table: str, why: str, remedy: str) -> NablaError:
    return NablaError("NABLA_PUBLISH", why, place=f'table "{table}"', remedy=remedy)


def _comment(text: str | None) -> str:
    return f" COMMENT {_text(text)}" if text else ""


def _properties(said: Mapping[str, str]) -> str:
    return f"TBLPROPERTIES ({', '.join(f'{_text(k)} = {_text(v)}' for k, v in said.items())})"


def _text(value: str) -> str:
    """A text of SQL. What a backslash means depends on a setting of the session, so there may be none."""
    if "\\" in value:
        raise _refused(value, "a text for the catalog has a backslash", "Leave it out.")
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _type(kind: DataType) -> str:
    """A type of SQL, with the names inside of it quoted."""
    match kind:
        case ArrayType():
            return f"ARRAY<{_type(kind.elementType)}>"
        case MapType():
            return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
        case StructType():
            return f"STRUCT<{', '.join(f'{quote(f.name)}: {_type(f.dataType)}' for f in kind.fields)}>"
    return kind.simpleString()
