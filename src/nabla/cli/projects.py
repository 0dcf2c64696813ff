"""`nabla run`: make the lake hold what a project defines, then bring its views up to date."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.cli.load import load_query, load_table, reads_lake
from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Element, Project, in_file, python_error
from nabla.frontends.pipelines.specification import Spec

if TYPE_CHECKING:
    from nabla.lake.facade import Lake
    from nabla.lake.reports import ViewReport
    from nabla.planner.steps import Mode

Tell = Callable[[str], None]
Kept = Collection[tuple[str, str]]
"""Elements of a project by kind and name."""

# Settings that change what a query returns. A refresh runs all views of a lake under the same ones.
MEANING = (
    "spark.sql.ansi.",
    "spark.sql.legacy.",
    "spark.sql.session.",
    "spark.sql.caseSensitive",
    "spark.sql.timestampType",
)

# Error codes of queries that Spark can run but Nabla cannot keep as views.
OUTSIDE = ("NABLA_FOREIGN_SOURCE", "NABLA_UNKNOWN_TABLE", "NABLA_UNSUPPORTED_OPERATOR")


@dataclass(frozen=True)
class BuiltDataset:
    """A view that this run built from nothing or again because its definition changed; or a dataset that it read again."""

    name: str
    mode: str
    reason: str
    inserted: int
    deleted: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """The outcome of `nabla run`."""

    project: str
    lake: Path
    tables: tuple[str, ...]
    built: tuple[BuiltDataset, ...]
    refreshed: Mapping[str, ViewReport]
    strangers: tuple[str, ...] = field(default=())


def run_project(
    project: Project, lake: Lake, *, mode: Mode | None, rebuild: bool, tell: Tell, kept: Kept = frozenset()
) -> Run:
    """Create what is missing, rebuild what changed if asked to, refresh the rest. Nothing is ever dropped. Definitions that are
    `kept` are known to be as the lake has them."""
    tables = _load_tables(lake, project.spec, tell)
    mode = mode or project.spec.mode
    built = Builder(lake, project.spec, mode, rebuild, tell, kept).build(project.definitions)
    tell("Refreshing")
    reports = lake.refresh(mode=mode, progress=lambda report: tell(f"Refreshed {report.name}"))
    known = {name.lower() for element in project.definitions for name in element.views}
    strangers = [name for name, status in lake.status().items() if status.kind == "view" and name.lower() not in known]
    return Run(project.name, project.lake, tables, built, dict(reports), tuple(strangers))


def _load_tables(lake: Lake, spec: Spec, tell: Tell) -> tuple[str, ...]:
    present = {name.lower() for name in lake.status()}
    missing = [source for source in spec.tables if source.name.lower() not in present]
    for source in missing:
        tell(f"Loading {source.name}")
        load_table(lake, source)
    return tuple(source.name for source in missing)


class Builder:
    """Builds a project's datasets in an order that works: one that reads another that is not there yet waits for it."""

    def __init__(self, lake: Lake, spec: Spec, mode: Mode, rebuild: bool, tell: Tell, kept: Kept = frozenset()) -> None:
        """Definitions that are `kept` are known to be as the lake has them."""
        self.kept = kept
        self.lake = lake
        self.spec = spec
        self.mode = mode
        self.rebuild = rebuild
        self.tell = tell
        self.built: list[BuiltDataset] = []
        self.changed: list[Element] = []

    def build(self, elements: Sequence[Element]) -> tuple[BuiltDataset, ...]:
        for element in elements:
            self._check(element)
        waiting = [element for element in elements if (element.kind, element.name) not in self.kept]
        while waiting:
            errors: dict[str, Exception] = {}
            for element in waiting:
                try:
                    self._build_one(element)
                except (NablaError, PySparkException) as error:
                    if not _misses_a_table(error):
                        raise self._placed(error, element) from error
                    errors[element.name] = error
            if len(errors) == len(waiting):
                raise self._stuck(waiting, errors)
            waiting = [element for element in waiting if element.name in errors]
        if self.changed:
            raise self._changed_error()
        return tuple(self.built)

    def _build_one(self, element: Element) -> None:
        self.tell(f"Building {element.name}")
        if element.kind == "rules":
            self._keep_rules(element, str(element.query))
            return
        query = self._query(element)
        if element.kind == "temporary_view":
            self._keep_temporary_view(element, self.lake.sql(query) if isinstance(query, str) else query)
            return
        try:
            self._keep_view(element, query)
        except NablaError as error:
            outside = self._from_outside(error, query)
            if outside is None:
                raise
            self._keep_table(element, outside, error)

    def _keep_temporary_view(self, element: Element, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(f"`{element.name.replace('`', '``')}`")

    def _keep_rules(self, element: Element, text: str) -> None:
        start, mode = time.monotonic(), "build"
        try:
            reports = self.lake.create_rules(element.name, text)
        except NablaError as error:
            if error.code == "NABLA_EXISTS" and element.name in self.lake.rules():
                return  # as the project defines them
            if error.code != "NABLA_DEFINITION_CHANGED":
                raise
            if not self.rebuild:
                self.changed.append(element)
                return
            mode = "rebuild"
            reports = self.lake.create_rules(element.name, text, rebuild=True)
        seconds = (time.monotonic() - start) / max(1, len(reports))
        self.built += [BuiltDataset(name, mode, "", r.inserted, r.deleted, seconds) for name, r in reports.items()]

    def _keep_view(self, element: Element, query: str | DataFrame) -> None:
        start = time.monotonic()
        mode = "build"
        try:
            report = self.lake.create_view(element.name, query)
        except NablaError as error:
            if error.code == "NABLA_EXISTS" and self.lake.status()[element.name].kind == "view":
                return  # as the project defines it
            if error.code != "NABLA_DEFINITION_CHANGED":
                raise
            if not self.rebuild:
                self.changed.append(element)
                return
            mode = "rebuild"
            report = self.lake.create_view(element.name, query, rebuild=True)
        seconds = time.monotonic() - start
        self.built.append(BuiltDataset(element.name, mode, "", report.inserted, report.deleted, seconds))

    def _from_outside(self, error: NablaError, query: str | DataFrame) -> DataFrame | None:
        """The query, if Spark can run it and Nabla cannot keep it: it reads files, say, and not only the lake."""
        if error.code not in OUTSIDE:
            return None
        try:
            return self.lake.sql(query) if isinstance(query, str) else query
        except NablaError:  # a dataset that it reads is not there yet
            return None

    def _keep_table(self, element: Element, frame: DataFrame, why: NablaError) -> None:
        start = time.monotonic()
        if reads_lake(self.lake, frame):
            self.lake.refresh(mode=self.mode)
        done = load_query(self.lake, element.name, frame)
        reason = f"{why.code}: {why.message}; read again at every run"
        seconds = time.monotonic() - start
        self.built.append(BuiltDataset(element.name, done.mode, reason, done.inserted, done.deleted, seconds))

    def _query(self, element: Element) -> str | DataFrame:
        if isinstance(element.query, str):
            if element.schema is not None:
                _check_schema(element, self.lake.sql(element.query))
            return element.query
        _ = self.lake.spark  # the session that the function uses now knows what was built before
        with contextlib.chdir(self.spec.folder):
            try:
                frame = element.query()
            except PySparkException:
                raise
            except Exception as error:
                raise python_error(error, self.spec.folder / element.file, str(element.file)) from error
        if not isinstance(frame, DataFrame):
            raise NablaError(
                "NABLA_PROJECT_PYTHON",
                f'the function of "{element.name}" returns {type(frame).__name__}, not a DataFrame',
                place=element.place,
                remedy="Return a DataFrame.",
            )
        if frame.isStreaming:
            raise NablaError(
                "NABLA_STREAMING",
                f'"{element.name}" reads a stream',
                place=element.place,
                remedy="Read the table with spark.table or spark.read.",
            )
        if element.schema is not None:
            _check_schema(element, frame)
        return frame

    def _check(self, element: Element) -> None:
        status = self.lake.status()
        given = [source.name.lower() for source in self.spec.tables]
        if element.name in status and (element.kind == "temporary_view" or element.name.lower() in given):
            raise NablaError(
                "NABLA_DUPLICATE_NAME",
                f'"{element.name}" is already a {status[element.name].kind} of the lake',
                place=element.place,
                remedy="Give one of them another name.",
            )
        for key, value in element.settings.items():
            if key.startswith(MEANING) and self.spec.spark_settings.get(key) != value:
                raise NablaError(
                    "NABLA_PROJECT",
                    f'"{element.name}" sets {key} for itself, and all views of a lake run under the same settings',
                    place=element.place,
                    remedy=f"Set {key} in the configuration of {self.spec.file.name}.",
                )

    def _stuck(self, waiting: Sequence[Element], errors: Mapping[str, Exception]) -> NablaError:
        """The error where every dataset that is left misses another one: nobody defines it, or they miss each other."""
        missing = [name for element in waiting for name in element.views]
        names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in missing), re.IGNORECASE)
        for element in waiting:
            if not names.search(str(errors[element.name])):
                return self._placed(errors[element.name], element)
        return NablaError(
            "NABLA_CYCLE",
            f"{_listed(waiting)} read each other or themselves",
            place="; ".join(element.place for element in waiting),
            remedy="Let one of them read the tables it is made from.",
        )

    def _placed(self, error: Exception, element: Element) -> NablaError:
        """The error with the file and line of the definition it is about."""
        if isinstance(error, NablaError) and element.kind == "rules" and error.place.startswith("line "):
            return in_file(error, element.file)
        if isinstance(error, NablaError):
            place = element.place if not error.place else f"{element.place}; {error.place}"
            placed = place if element.place not in error.place else error.place
            return type(error)(error.code, error.message, place=placed, remedy=error.remedy)
        return python_error(error, self.spec.folder / element.file, str(element.file))

    def _changed_error(self) -> NablaError:
        return NablaError(
            "NABLA_DEFINITION_CHANGED",
            f"the project defines {_listed(self.changed)} differently from the lake",
            place="; ".join(element.place for element in self.changed),
            remedy="Build again from the new definition with `nabla run --rebuild`, or undo the change.",
        )


def _listed(elements: Sequence[Element]) -> str:
    return ", ".join(f'"{element.name}"' for element in elements)


def _misses_a_table(error: Exception) -> bool:
    if isinstance(error, NablaError):
        return error.code in ("NABLA_UNKNOWN_TABLE", "NABLA_RULES_UNKNOWN")
    return isinstance(error, AnalysisException) and error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def _check_schema(element: Element, frame: DataFrame) -> None:
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
