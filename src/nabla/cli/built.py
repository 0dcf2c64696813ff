"""What a run is about, what it has built, and whether that has the declared columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.cli.expectations import ExpectationReport
from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import Element


@dataclass(frozen=True)
class BuiltDataset:
    """A view that this run built from nothing or again because its definition changed; a dataset that it read again; or a
    streaming table or sink that it loaded."""

    name: str
    mode: str
    reason: str
    inserted: int
    deleted: int
    seconds: float
    expectations: tuple[ExpectationReport, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The datasets that a run is about: all, or those that are named. Those in `full` are built from nothing."""

    names: frozenset[str] | None = None
    full: frozenset[str] = frozenset()

    def has(self, element: Element) -> bool:
        return self.names is None or any(name.lower() in self.names for name in (*element.views, element.name))

    def is_full(self, element: Element) -> bool:
        return any(name.lower() in self.full for name in (*element.views, element.name))


def check_schema(element: Element, frame: DataFrame) -> None:
    """Refuse a query whose columns are not those that the project declares for the view."""
    schema = element.schema
    wanted = _columns(schema if isinstance(schema, StructType) else cast(StructType, StructType.fromDDL(str(schema))))
    given = _columns(frame.schema)
    if wanted != given:
        raise NablaError(
            "NABLA_SCHEMA",
            f'"{element.name}" is declared as ({", ".join(wanted)}) and its query returns ({", ".join(given)})',
            place=element.place,
            remedy="Correct the declaration or the query.",
        )


def _columns(schema: StructType) -> list[str]:
    return [f"{column.name.lower()} {column.dataType.simpleString()}" for column in schema]
