"""Apache Spark Declarative Pipelines projects: the datasets that their `.sql` and `.py` files define, as plain data; and
`.rules` files beside them.

The files run as Spark's own runner runs them, with `pyspark.pipelines` writing its definitions into a registry of ours,
so no Spark Connect server is needed. Queries are not evaluated here: a function is kept, and called when its view is built.
"""

from __future__ import annotations

import contextlib
import importlib.util
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from nabla.errors import NablaError
from nabla.frontends.datalog.syntax import parse_rules
from nabla.frontends.pipelines.specification import Spec, find_spec, load_spec
from nabla.frontends.pipelines.sql_files import (
    STREAMING_REMEDY,
    Create,
    Kind,
    Set,
    Use,
    column_names,
    read_statements,
    without_qualifier,
)

Query = Callable[[], DataFrame]


@dataclass(frozen=True)
class Element:
    """A dataset of a project: a view to store, a temporary view that other queries read, or rules.

    `query` is the text of SQL or rules, or a function that returns a DataFrame; `schema` is the declared schema of the result,
    `settings` are Spark settings for this query alone, and `predicates` are those that rules define.
    """

    name: str
    kind: Kind
    query: str | Query
    file: Path
    line: int
    comment: str | None = None
    schema: str | StructType | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"

    @property
    def views(self) -> tuple[str, ...]:
        """The names under which the lake keeps it."""
        return self.predicates if self.kind == "rules" else (self.name,)


@dataclass(frozen=True)
class Project:
    """A pipelines project: its lake, and its datasets in the order of its files."""

    spec: Spec
    definitions: tuple[Element, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def lake(self) -> Path:
        return self.spec.lake

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.spec.configuration


def load_project(folder: Path | str, spark: SparkSession | None = None) -> Project:
    """Read the project in a folder. Its Python files see `spark` as the global `spark`."""
    file = find_spec(Path(folder))
    if file is None:
        raise NablaError(
            "NABLA_PROJECT",
            "there is no spark-pipeline.yml here or in a folder above",
            place=str(folder),
            remedy="Make a project with `nabla init NAME`, or go to the folder of one.",
        )
    spec = load_spec(file)
    registry = _Registry(spec)
    with contextlib.chdir(spec.folder), graph_element_registration_context(registry):
        for path in spec.files():
            if path.suffix == ".py":
                _run_module(path, spec, spark)
            elif path.suffix == ".sql":
                registry.register_sql(path.read_text(encoding="utf-8"), path.relative_to(spec.folder))
            elif path.suffix == ".rules":
                registry.register_rules(path.read_text(encoding="utf-8"), path.relative_to(spec.folder))
            else:
                raise NablaError(
                    "NABLA_PROJECT",
                    f'"{path.suffix}" is none of .sql, .py and .rules',
                    place=str(path.relative_to(spec.folder)),
                    remedy="Move the file out of the folders that `libraries` includes.",
                )
    return Project(spec, registry.elements())


def _run_module(path: Path, spec: Spec, spark: SparkSession | None) -> None:
    relative = path.relative_to(spec.folder)
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    if module_spec is None or module_spec.loader is None:
        raise NablaError("NABLA_PROJECT", "Python cannot load the file", place=str(relative), remedy="Rename it.")
    module = importlib.util.module_from_spec(module_spec)
    if spark is not None:
        module.__dict__["spark"] = spark
    try:
        module_spec.loader.exec_module(module)
    except NablaError:
        raise
    except Exception as error:
        raise python_error(error, path, f"{relative}") from error


def python_error(error: Exception, path: Path, shown: str) -> NablaError:
    """An error in a user's Python file, with the line of that file."""
    line = error.lineno if isinstance(error, SyntaxError) else _line_in(path, error.__traceback__)
    what = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return NablaError(
        "NABLA_PROJECT_PYTHON",
        f"{type(error).__name__}: {what}" if what else type(error).__name__,
        place=f"{shown}, line {line}" if line else shown,
        remedy="Correct the file.",
    )


def _line_in(path: Path, trace: TracebackType | None) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == str(path)]
    return lines[-1] if lines else None


class _Registry(GraphElementRegistry):
    """Collects the datasets that `pyspark.pipelines` decorators and SQL files define."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.outputs: dict[str, Output] = {}
        self.found: dict[str, Element] = {}

    def elements(self) -> tuple[Element, ...]:
        return tuple({id(element): element for element in self.found.values()}.values())

    def register_output(self, output: Output) -> None:
        place = self._place(output.source_code_location)
        if isinstance(output, Sink):
            raise _streaming(f'the sink "{output.name}" takes a stream', place)
        if not isinstance(output, MaterializedView | TemporaryView):
            raise _streaming(f'"{output.name}" is a streaming table', place)
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        output = self.outputs.get(flow.target)
        if output is None or flow.name != flow.target:
            raise _streaming(
                f'the flow "{flow.name}" appends to "{flow.target}"', self._place(flow.source_code_location)
            )
        file, line = self._location(flow.source_code_location)
        materialized = isinstance(output, MaterializedView)
        self._add(
            tuple(output.name.split(".")),
            Element(
                name=output.name,
                kind="materialized_view" if materialized else "temporary_view",
                query=flow.func,
                file=file,
                line=line,
                comment=output.comment,
                schema=output.schema if isinstance(output, MaterializedView) else None,
                settings=dict(flow.spark_conf),
            ),
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise _streaming(f'"{flow.target}" follows a change stream', self._place(flow.source_code_location))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        settings: dict[str, str] = {}
        for statement in read_statements(sql_text, str(file_path)):
            match statement:
                case Set(key, value):
                    settings[key] = value
                case Use():
                    self._check_use(statement, file_path)
                case Create():
                    self._add(statement.name, self._sql_element(statement, file_path, dict(settings)))

    def register_rules(self, text: str, file: Path) -> None:
        """Register a file of rules as a program with the name of the file. Each of its predicates is a view."""
        try:
            heads = [rule.head for rule in parse_rules(text)]
        except NablaError as error:
            raise in_file(error, file) from error
        predicates = tuple(dict.fromkeys(head.predicate for head in heads))
        element = Element(file.stem, "rules", text, file, heads[0].place.line if heads else 1, predicates=predicates)
        earlier = next((e for e in self.found.values() if e.kind == "rules" and e.name == element.name), None)
        if earlier is not None:
            raise _duplicate(element.name, earlier, element)
        for predicate in predicates:
            self._claim(predicate, element)

    def _sql_element(self, create: Create, file: Path, settings: dict[str, str]) -> Element:
        query = without_qualifier(create.query, self.spec.qualifiers)
        columns = create.columns
        if columns and create.kind == "temporary_view":  # a temporary view lists names there, a materialized view types
            names = ", ".join(column_names(columns))
            query, columns = f"SELECT * FROM (\n{query}\n) AS renamed ({names})", ""
        name = ".".join(create.name)
        return Element(name, create.kind, query, file, create.line, create.comment, columns or None, settings)

    def _check_use(self, use: Use, file: Path) -> None:
        wanted = tuple(part.lower() for part in use.name)
        database, qualified = self.spec.qualifiers
        allowed = [qualified[:1]] if use.what == "catalog" else [database, qualified]
        if wanted not in [tuple(part.lower() for part in place) for place in allowed]:
            raise _other_database(".".join(use.name), f"{file}, line {use.line}")

    def _add(self, name: tuple[str, ...], element: Element) -> None:
        prefix = tuple(part.lower() for part in name[:-1])
        if prefix and prefix not in [tuple(part.lower() for part in known) for known in self.spec.qualifiers]:
            raise _other_database(".".join(name), element.place)
        self._claim(name[-1], replace(element, name=name[-1]))

    def _claim(self, name: str, element: Element) -> None:
        earlier = self.found.get(name.lower())
        if earlier is not None:
            raise _duplicate(name, earlier, element)
        self.found[name.lower()] = element

    def _location(self, location: SourceCodeLocation) -> tuple[Path, int]:
        file = Path(location.filename)
        inside = file.is_relative_to(self.spec.folder)
        return file.relative_to(self.spec.folder) if inside else file, location.line_number or 1

    def _place(self, location: SourceCodeLocation) -> str:
        file, line = self._location(location)
        return f"{file}, line {line}"


def in_file(error: NablaError, file: Path) -> NablaError:
    """An error that names a line, with the file that the line is in."""
    place = f"{file}, {error.place}" if error.place else str(file)
    return type(error)(error.code, error.message, place=place, remedy=error.remedy)


def _duplicate(name: str, earlier: Element, element: Element) -> NablaError:
    return NablaError(
        "NABLA_DUPLICATE_NAME",
        f'"{name}" is defined twice',
        place=f"{earlier.place}; {element.place}",
        remedy="Rename or remove one of them.",
    )


def _streaming(what: str, place: str) -> NablaError:
    return NablaError("NABLA_STREAMING", what, place=place, remedy=STREAMING_REMEDY)


def _other_database(name: str, place: str) -> NablaError:
    return NablaError(
        "NABLA_QUALIFIED_NAME",
        f'"{name}" lies outside the catalog and database of the project, and a lake has one name space',
        place=place,
        remedy="Use unqualified names, or set `catalog` and `database` in the specification.",
    )
