"""The views of a project as tests need them: their definitions and those of the tables they read, without any data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import nabla
from nabla.cli.builder import Builder, Tell
from nabla.cli.expectations import check_conditions
from nabla.cli.load import columns_of_source
from nabla.cli.reading import Reading
from nabla.cli.streaming import Target
from nabla.cli.view_tests.read import ViewTest
from nabla.cli.view_tests.values import infer
from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Element, Project
from nabla.lake.objects.view import View
from nabla.lake.plan.planning import Planning, planning

if TYPE_CHECKING:
    from nabla.frontends.pipelines.specification import Spec, TableSource
    from nabla.lake.facade import Lake


@dataclass(frozen=True)
class TableShape:
    """The columns of a table and its declared key."""

    columns: StructType
    key: tuple[str, ...] = ()


@dataclass
class ProjectViews:
    """The tables that a project's views read, by name, and the views that are computed together, in an order that works."""

    tables: dict[str, TableShape] = field(default_factory=dict)
    units: list[tuple[View, ...]] = field(default_factory=list)

    @property
    def views(self) -> dict[str, View]:
        return {view.name: view for unit in self.units for view in unit}

    def find(self, name: str) -> str | None:
        """The name of a table or view as the project spells it."""
        known = {known.lower(): known for known in (*self.tables, *self.views)}
        return known.get(name.lower())

    def columns(self, name: str) -> StructType:
        """The columns of a table or view."""
        if name in self.tables:
            return self.tables[name].columns
        view = self.views[name]
        return types.rename(view.schema, view.outputs)

    def needed(self, names: Iterable[str], given: Iterable[str]) -> tuple[list[tuple[View, ...]], set[str]]:
        """The units that views need, as far as they are not given themselves, and the tables that these read."""
        stop, wanted, tables = set(given), list(names), set(given)
        views, found = self.views, set[str]()
        while wanted:
            name = wanted.pop()
            if name in stop or name not in views:
                tables.add(name)
            elif name not in found:
                found |= {name, *views[name].group}
                wanted += [source for member in views[name].group for source in views[member].sources]
        return [unit for unit in self.units if not found.isdisjoint(v.name for v in unit)], tables - found


def read_views(
    project: Project, lake: Path | None, tests: Sequence[ViewTest], scratch: Path, tell: Tell
) -> ProjectViews:
    """Define all views of a project over empty tables, in a lake in the folder `scratch`. Tables that only the project's lake
    knows have the columns that they have there, and others those that the tests give them."""
    empty = nabla.open(scratch)
    found = ProjectViews(
        _known_tables(project.spec, empty, lake, tests, {v for e in project.definitions for v in e.views})
    )
    for name, shape in found.tables.items():
        empty.create_table(name, schema=shape.columns, key=shape.key or None)
    with planning(empty.context) as plans:
        reading = Reading(empty, project.registry)
        definitions = _Definitions(empty, project.spec, plans, found, reading, tell)
        definitions.build(project.definitions)
        reading.forget()
        definitions.raise_failures()
    return found


def _known_tables(
    spec: Spec, empty: Lake, lake: Path | None, tests: Sequence[ViewTest], views: set[str]
) -> dict[str, TableShape]:
    defined = {name.lower() for name in views}
    tables = {s.name: shape for s in spec.tables if (shape := _loaded(empty, s)) is not None}
    stored = _stored_tables(lake) if lake is not None else {}
    taken = {name.lower() for name in tables}
    tables |= {name: shape for name, shape in stored.items() if name.lower() not in {*taken, *defined}}
    for test in tests:
        for name, rows in test.given.items():
            if name.lower() not in {*defined, *(known.lower() for known in tables)}:
                tables[name] = TableShape(types.parse(rows.schema) if rows.schema else infer(rows))
    return tables


def _loaded(empty: Lake, source: TableSource) -> TableShape | None:
    """A table of the specification. Without its files and without a schema, only tests and the lake know its columns."""
    try:
        return TableShape(columns_of_source(empty, source), source.key)
    except NablaError:
        if source.schema is not None:
            raise
        return None


def _stored_tables(folder: Path) -> Mapping[str, TableShape]:
    """The tables of the project's lake."""
    state = nabla.open(folder).context.log.state()
    return {
        name: TableShape(types.from_json(entry.definition["schema"]), tuple(entry.definition.get("key") or ()))
        for name, entry in state.entries.items()
        if entry.kind in ("table", "registered")
    }


class _Definitions(Builder):
    """Goes through a project as a run does, and keeps the definitions instead of building them."""

    def __init__(
        self, lake: Lake, spec: Spec, plans: Planning, found: ProjectViews, reading: Reading, tell: Tell
    ) -> None:
        super().__init__(lake, spec, spec.mode, True, tell, reading)
        self.plans = plans
        self.found = found

    def _check(self, element: Element) -> None:
        """Tables with the names of datasets were made by earlier runs, and hold what the queries of these returned."""

    def _keep_view(self, element: Element, query: str | DataFrame) -> None:
        self._add([self.plans.define(element.name, query)])

    def _keep_rules(self, element: Element, text: str) -> None:
        self._add(self.plans.define_rules(element.name, text))

    def _keep_table(self, element: Element, frame: DataFrame, why: NablaError) -> None:
        """A query that reads files is a table for a test, which has to give its rows."""
        self.plans.add_table(element.name, frame.schema)
        self.found.tables[element.name] = TableShape(self.plans.shapes[element.name])

    def _keep_stream(self, element: Element, target: Target) -> None:
        """A streaming table is a table for a test."""
        if element.kind != "sink":
            self.plans.add_table(element.name, target.visible_shape())
            self.found.tables[element.name] = TableShape(self.plans.shapes[element.name])

    def _keep_expectations(self, element: Element, query: str | DataFrame) -> None:
        """They are constraints, which tests do not look at."""

    def _check_expectations(self, element: Element, frame: DataFrame) -> None:
        """The conditions are looked at, and no rows."""
        check_conditions(element.expectations, frame, element.place)

    def _refresh(self, names: Collection[str]) -> None:
        """There is nothing to refresh."""

    def _add(self, views: list[View]) -> None:
        by_name = {view.name: view for view in views}
        for view in views:
            self.plans.add(view)
        self.found.units += dict.fromkeys(tuple(by_name[name] for name in view.group) for view in views)
