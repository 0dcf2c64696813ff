"""Builds the datasets of a project in an order that works."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from nabla.cli.built import BuiltDataset, Choice, check_schema
from nabla.cli.expectations import (
    ExpectationReport,
    check_conditions,
    count_violations,
    guarded,
    keep_constraints,
    meet,
    meeting,
)
from nabla.cli.load import load_query, reads_lake
from nabla.cli.reading import Reading, Waits
from nabla.cli.streaming import Target
from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Element, in_file, python_error
from nabla.frontends.pipelines.specification import Spec
from nabla.lake.environments.log import EnvironmentLog
from nabla.lake.objects.graph import is_derived

if TYPE_CHECKING:
    from nabla.lake.facade import Lake
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

UNKNOWN_FUNCTION = (
    "Functions of Databricks are not in Spark: register one of that name with spark.udf.register in a .py file."
)

# Error codes of queries that Spark can run but Nabla cannot keep as views.
OUTSIDE = ("NABLA_FOREIGN_SOURCE", "NABLA_UNKNOWN_TABLE", "NABLA_UNSUPPORTED_OPERATOR")


class Builder:
    """Builds a project's datasets in an order that works: one that reads another that is not there yet waits for it."""

    def __init__(
        self,
        lake: Lake,
        spec: Spec,
        mode: Mode,
        rebuild: bool,
        tell: Tell,
        reading: Reading,
        kept: Kept = frozenset(),
        choice: Choice | None = None,
    ) -> None:
        """Definitions that are `kept` are known to be as the lake has them."""
        self.kept = kept
        self.reading = reading
        self.choice = choice or Choice()
        self.outside = False
        self.expecting: list[Element] = []
        self.failed: dict[str, NablaError] = {}
        """Datasets that could not be built, in small letters."""
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
        waiting = [e for e in elements if self.choice.has(e) or e.kind == "temporary_view"]
        needed = [e for e in waiting if e.expectations or self.choice.is_full(e)]
        waiting = [e for e in waiting if (e.kind, e.name) not in self.kept or e in needed]
        here = {name for element in waiting for name in element.views}
        self.reading.begin(elements, [name for e in elements for name in e.views if name not in here])
        while waiting:
            errors: dict[str, Exception] = {}
            waits: dict[str, str] = {}
            for element in waiting:
                self._try(element, errors, waits)
            left = [element for element in waiting if element.name in errors or element.name in waits]
            if len(left) == len(waiting):
                self._give_up(left, errors, waits)
                break
            waiting = left
        if self.changed:
            raise self._changed_error()
        return tuple(self.built)

    def _try(self, element: Element, errors: dict[str, Exception], waits: dict[str, str]) -> None:
        """Build a dataset, or note why it has to wait."""
        try:
            self._build_one(element)
        except Waits as wait:
            waits[element.name] = wait.name
            return
        except (NablaError, PySparkException) as error:
            if _misses_a_table(error):
                errors[element.name] = error
                return
            self._fail(element, self._placed(error, element))
            return
        self.reading.done |= {name.lower() for name in element.views}

    def _fail(self, element: Element, error: NablaError) -> None:
        """Note a dataset that failed. The others go on, but for those that read it."""
        self.failed |= {name.lower(): error for name in element.views}

    def _give_up(self, left: Sequence[Element], errors: Mapping[str, Exception], waits: Mapping[str, str]) -> None:
        """Note what is wrong with datasets none of which can be built. Those that only read one that failed are left out."""
        broken = set(self.failed)
        rest = list(left)
        while True:
            behind = [e for e in rest if waits.get(e.name) in broken or self._names_one(errors.get(e.name), broken)]
            if not behind:
                break
            broken |= {name.lower() for element in behind for name in element.views}
            rest = [element for element in rest if element not in behind]
        if rest:
            stuck = self._stuck(rest, errors, waits)
            self.failed |= {name.lower(): stuck for element in rest for name in element.views}

    @staticmethod
    def _names_one(error: Exception | None, names: Collection[str]) -> bool:
        return error is not None and any(
            re.search(rf"\b{re.escape(name)}\b", str(error), re.IGNORECASE) for name in names
        )

    def raise_failures(self) -> None:
        """Raise what has failed, as one error."""
        errors = list(dict.fromkeys(self.failed.values()))
        if len(errors) == 1:
            raise errors[0]
        if errors:
            first = errors[0]
            what = "; ".join(f"{error.code}: {error.message}" for error in errors[1:])
            places = "; ".join(error.place for error in errors if error.place)
            raise NablaError(first.code, f"{first.message}; and {what}", place=places, remedy=first.remedy)

    def _build_one(self, element: Element) -> None:
        self.tell(f"Building {element.name}")
        if element.kind == "rules":
            self._keep_rules(element, str(element.query))
            return
        if element.kind == "sink" or (element.kind == "streaming_table" and self._streams(element)):
            self._keep_stream(element, Target(self.lake, self.reading, element, self._refresh))
            return
        if element.kind == "temporary_view":
            frame = self._frame(element)
            check_conditions(element.expectations, frame, element.place)
            self._keep_temporary_view(element, guarded(element.expectations, frame))
            return
        query = self._query(element)
        if element.expectations:
            self._check_expectations(element, self.lake.sql(query) if isinstance(query, str) else query)
        wanted = meeting(element.expectations, query)
        try:
            self._keep_view(element, wanted)
        except NablaError as error:
            outside = self._from_outside(error, query)
            if outside is None:
                raise
            self._keep_table(element, outside, error)
            return
        self._keep_expectations(element, query)

    def _streams(self, element: Element) -> bool:
        """Whether a streaming table is loaded by streams. One whose only query reads no stream is a view."""
        if element.flows or element.query is None:
            return True
        return self._frame(element).isStreaming

    def _check_expectations(self, element: Element, frame: DataFrame) -> None:
        """Refuse conditions that make no sense, and a new view whose rows would make the update fail."""
        check_conditions(element.expectations, frame, element.place)
        if self.lake.context.names(self.lake.context.log.state()).find(element.name) is None:
            strict = [one for one in element.expectations if one.action == "fail"]
            meet(strict, frame, f'"{element.name}"', element.place)

    def _keep_expectations(self, element: Element, query: str | DataFrame) -> None:
        if element.expectations:
            keep_constraints(self.lake, element, query)
            self.expecting.append(element)

    def count_expectations(self) -> tuple[BuiltDataset, ...]:
        """All that was built, with the rows that do not meet the expectations of views now."""
        reports = {element.name: count_violations(self.lake, element) for element in self.expecting}
        built = [replace(one, expectations=reports.pop(one.name, one.expectations)) for one in self.built]
        return (*built, *(BuiltDataset(name, "check", "", 0, 0, 0.0, found) for name, found in reports.items()))

    def _keep_stream(self, element: Element, target: Target) -> None:
        if isinstance(self.lake.context.log, EnvironmentLog):
            self.built.append(BuiltDataset(element.name, "skip", target.pass_by(), 0, 0, 0.0))
            return
        start, self.outside = time.monotonic(), True
        done = target.load(self.choice.is_full(element))
        mode = "load" if done.created else "stream" if done.batches else "skip"
        self.built.append(
            BuiltDataset(
                element.name, mode, "", done.inserted, done.deleted, time.monotonic() - start, done.expectations
            )
        )

    def _refresh(self, names: Collection[str]) -> None:
        """Bring the views among these names up to date, for a query that is about to read them."""
        state = self.lake.context.log.state()
        views = [n for n, e in state.entries.items() if n.lower() in names and e.kind == "view" and is_derived(e)]
        if views:
            self.lake.refresh(*views, mode=self.mode)

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
        start, self.outside = time.monotonic(), True
        if reads_lake(self.lake, frame):
            self.lake.refresh(mode=self.mode)
        frame, failed = meet(element.expectations, frame, f'"{element.name}"', element.place)
        done = load_query(self.lake, element.name, frame)
        reason = f"{why.code}: {why.message}; read again at every run"
        reports = tuple(ExpectationReport(one.name, one.action, failed[one.name]) for one in element.expectations)
        seconds = time.monotonic() - start
        self.built.append(BuiltDataset(element.name, done.mode, reason, done.inserted, done.deleted, seconds, reports))

    def _query(self, element: Element) -> str | DataFrame:
        """The query of a view: a text with names that the lake knows, or a frame. It reads no stream."""
        if isinstance(element.query, str):
            text, _ = self.reading.text(element.query)
            if element.schema is not None:
                check_schema(element, self.lake.sql(text))
            return text
        frame = self._frame(element)
        if frame.isStreaming:
            raise NablaError(
                "NABLA_STREAMING",
                f'"{element.name}" reads a stream',
                place=element.place,
                remedy="Make it a streaming table, or read the table with spark.table or spark.read.",
            )
        if element.schema is not None:
            check_schema(element, frame)
        return frame

    def _frame(self, element: Element) -> DataFrame:
        """The frame of a query."""
        assert element.query is not None
        try:
            frame, _ = self.reading.evaluate(element.query)
        except (PySparkException, NablaError):
            raise
        except Exception as error:
            raise python_error(
                error, Path(os.path.normpath(self.spec.folder / element.file)), str(element.file)
            ) from error
        if not isinstance(frame, DataFrame):
            raise NablaError(
                "NABLA_PROJECT_PYTHON",
                f'the function of "{element.name}" returns {type(frame).__name__}, not a DataFrame',
                place=element.place,
                remedy="Return a DataFrame.",
            )
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

    def _stuck(
        self, waiting: Sequence[Element], errors: Mapping[str, Exception], waits: Mapping[str, str]
    ) -> NablaError:
        """The error where every dataset that is left misses another one: nobody defines it, or they miss each other."""
        missing = [name for element in waiting for name in element.views]
        names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in missing), re.IGNORECASE)
        for element in waiting:
            if element.name not in waits and not names.search(str(errors[element.name])):
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
            return NablaError(error.code, error.message, place=placed, remedy=error.remedy)
        in_sql = any(isinstance(query, str) for query in (element.query, *(flow.query for flow in element.flows)))
        if in_sql and isinstance(error, PySparkException):
            known = self.lake.context.translate(error, element.place)
            remedy = UNKNOWN_FUNCTION if error.getCondition() == "UNRESOLVED_ROUTINE" else known.remedy
            return NablaError(known.code, known.message, place=element.place, remedy=remedy)
        return python_error(error, Path(os.path.normpath(self.spec.folder / element.file)), str(element.file))

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
