"""Collects what the files of a project define, and puts flows to their targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from nabla.errors import NablaError
from nabla.frontends.datalog.syntax import parse_rules
from nabla.frontends.pipelines.api import Described, Place, expectations_of, offered
from nabla.frontends.pipelines.elements import ChangeCapture, Element, Expectation, Flow, Query
from nabla.frontends.pipelines.names import ProjectNames, split_name
from nabla.frontends.pipelines.references import Unqualified, rewrite
from nabla.frontends.pipelines.specification import Spec
from nabla.frontends.pipelines.sql_files import Create, CreateFlow, Set, Use, column_names, read_statements

FLOW_REMEDY = "Make the target with create_streaming_table, CREATE STREAMING TABLE or create_sink."


class Registry:
    """What the files of a project have defined so far. `reader` gives the frames of `dlt.read`, once there are some."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.names = ProjectNames(spec.qualifiers)
        self.reader: Callable[[str, bool], DataFrame] | None = None
        self._found: dict[str, Element] = {}
        self._flows: list[Flow] = []
        for source in spec.tables:
            self.names.declare(split_name(source.full_name))

    def offered(self) -> AbstractContextManager[None]:
        """Let Python files call the functions of pipelines, for this registry."""
        return offered(self)

    def elements(self) -> tuple[Element, ...]:
        """All datasets, with the expectations that decorators have noted by now and the flows into them."""
        by_target: dict[str, list[Flow]] = {}
        seen: dict[str, Flow] = {}
        for flow in self._flows:
            name = self.names.in_lake(split_name(flow.target)) or flow.target
            target = self._found.get(name.lower())
            self._check_target(flow, target)
            if (earlier := seen.get(flow.name.lower())) is not None:
                raise _duplicate(flow.name, earlier.place, flow.place, "flow")
            seen[flow.name.lower()] = flow
            by_target.setdefault(name.lower(), []).append(flow)
        elements = {id(element): element for element in self._found.values()}.values()
        return tuple(self._complete(element, by_target.get(element.name.lower(), [])) for element in elements)

    def _complete(self, element: Element, flows: Sequence[Flow]) -> Element:
        expectations = (*element.expectations, *expectations_of(element.query))
        captures = [flow for flow in flows if flow.capture is not None]
        if captures and (len(flows) > 1 or element.query is not None):
            raise _wrong_flow(
                f'"{element.name}" is the target of the change stream "{captures[0].name}" and of another flow',
                flows[-1].place,
                "Give each of them a target of its own.",
            )
        query = element.query
        if isinstance(query, str) and element.kind in ("materialized_view", "temporary_view"):
            query = rewrite(query, Unqualified(self.names))
        return replace(element, query=query, expectations=expectations, flows=tuple(flows))

    def _check_target(self, flow: Flow, target: Element | None) -> None:
        if target is None:
            raise _wrong_flow(f'the flow "{flow.name}" has no target "{flow.target}"', flow.place, FLOW_REMEDY)
        if target.kind not in ("streaming_table", "sink"):
            what = target.kind.replace("_", " ")
            raise _wrong_flow(
                f'the flow "{flow.name}" writes to "{target.name}", which is a {what}',
                f"{flow.place}; {target.place}",
                FLOW_REMEDY,
            )
        if target.kind == "sink" and flow.capture is not None:
            raise _wrong_flow(f'a change stream cannot be applied to the sink "{target.name}"', flow.place, FLOW_REMEDY)

    def define(self, described: Described, query: Query | None, expectations: Sequence[Expectation]) -> None:
        file, line = self._location(described.place)
        element = Element(
            described.name,
            described.kind,  # type: ignore[arg-type]
            query,
            file,
            line,
            described.comment,
            described.schema,
            dict(described.settings or {}),
            expectations=tuple(expectations),
            cluster_by=described.cluster_by,
            format=described.format,
            options=dict(described.options or {}),
            handler=described.handler,
        )
        self._add(split_name(described.name), element)

    def define_flow(
        self,
        name: str,
        target: str,
        query: Query | None,
        place: Place,
        settings: Mapping[str, str],
        once: bool = False,
        capture: ChangeCapture | None = None,
    ) -> None:
        file, line = self._location(place)
        self._flows.append(Flow(name, target, query, file, line, dict(settings), once, capture))

    def read(self, name: str, streaming: bool) -> DataFrame:
        if self.reader is None:
            raise RuntimeError(f'"{name}" is read outside of the function of a dataset')
        return self.reader(name, streaming)

    def register_sql(self, text: str, file: Path) -> None:
        settings: dict[str, str] = {}
        current: tuple[str, ...] = ()
        for statement in read_statements(text, str(file)):
            match statement:
                case Set(key, value):
                    settings[key] = value
                case Use("catalog", _):
                    current = ()
                case Use(_, name):
                    current = name
                case Create(name=name):
                    whole = name if len(name) > 1 else (*current, *name)
                    self._add(whole, self._sql_element(statement, file, dict(settings)))
                    if statement.capture is not None:
                        target = ".".join(name)
                        flow = Flow(
                            target,
                            target,
                            statement.query,
                            file,
                            statement.line,
                            dict(settings),
                            False,
                            statement.capture,
                        )
                        self._flows.append(flow)
                case CreateFlow(name, target, query, line, once, capture):
                    shown = ".".join(name)
                    if name == target and capture is None:  # INSERT INTO without a name: each is a flow of its own
                        shown = f"{shown} of {file} line {line}"
                    self._flows.append(Flow(shown, ".".join(target), query, file, line, dict(settings), once, capture))

    def register_rules(self, text: str, file: Path) -> None:
        """Register a file of rules as a program with the name of the file. Each of its predicates is a view."""
        try:
            heads = [rule.head for rule in parse_rules(text)]
        except NablaError as error:
            raise in_file(error, file) from error
        predicates = tuple(dict.fromkeys(head.predicate for head in heads))
        element = Element(file.stem, "rules", text, file, heads[0].place.line if heads else 1, predicates=predicates)
        earlier = next((e for e in self._found.values() if e.kind == "rules" and e.name == element.name), None)
        if earlier is not None:
            raise _duplicate(element.name, earlier.place, element.place)
        for predicate in predicates:
            self._claim(predicate, element)

    def _sql_element(self, create: Create, file: Path, settings: dict[str, str]) -> Element:
        query: str | None = create.query if create.capture is None else ""
        columns = create.columns
        if columns and create.kind == "temporary_view":  # a temporary view lists names there, a materialized view types
            names = ", ".join(column_names(columns))
            query, columns = f"SELECT * FROM (\n{query}\n) AS renamed ({names})", ""
        return Element(
            ".".join(create.name),
            create.kind,
            query or None,
            file,
            create.line,
            create.comment,
            columns or None,
            settings,
            expectations=create.expectations,
            cluster_by=create.cluster_by,
        )

    def _add(self, name: tuple[str, ...], element: Element) -> None:
        self._claim(name[-1], replace(element, name=name[-1]))
        if len(name) > 1:
            self.names.declare(name)

    def _claim(self, name: str, element: Element) -> None:
        earlier = self._found.get(name.lower())
        if earlier is not None:
            raise _duplicate(name, earlier.place, element.place)
        self._found[name.lower()] = element

    def _location(self, place: Place) -> tuple[Path, int]:
        return shown_path(place.file, self.spec.folder), place.line


def shown_path(file: Path, folder: Path) -> Path:
    """The path of a file as errors show it: relative to the project, if the two have anything in common."""
    relative = Path(os.path.relpath(file, folder))
    return file if len([part for part in relative.parts if part == ".."]) > 3 else relative


def in_file(error: NablaError, file: Path) -> NablaError:
    """An error that names a line, with the file that the line is in."""
    place = f"{file}, {error.place}" if error.place else str(file)
    return type(error)(error.code, error.message, place=place, remedy=error.remedy)


def _duplicate(name: str, earlier: str, later: str, what: str = "dataset") -> NablaError:
    return NablaError(
        "NABLA_DUPLICATE_NAME",
        f'the {what} "{name}" is defined twice' if what != "dataset" else f'"{name}" is defined twice',
        place=f"{earlier}; {later}",
        remedy="Rename or remove one of them. A lake has one name space for the datasets of all databases.",
    )


def _wrong_flow(what: str, place: str, remedy: str) -> NablaError:
    return NablaError("NABLA_FLOW", what, place=place, remedy=remedy)
