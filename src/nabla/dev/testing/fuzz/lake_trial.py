"""One lake under test: tables, views and changes in the lake and in a reference, compared after every refresh.

The reference is Spark itself: the same SQL text over tables that are kept in memory, which owes nothing to Nabla.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import nabla
from nabla.dev.testing.fuzz.bags import Contents, rows_of, stored, wrong_content, wrong_feed
from nabla.dev.testing.fuzz.sql_edits import names_in
from nabla.dev.testing.random_data import Row, Table
from nabla.engine import intake, types
from nabla.errors import NablaError
from nabla.lake.reports import ViewReport

MOST_ROWS = 2000
"""A view with more rows says nothing that a smaller one does not."""
NOT_OURS = ("NABLA_TYPE", "NABLA_DUPLICATE_COLUMN")
"""Refusals that are as they should be: a type that Delta tables cannot store, two columns of one name."""
REFERENCE_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Spark 4.2 moves a scalar subquery of the SELECT list below the LIMIT of an ordered query in FROM, makes a join of it
    # there, and then drops the ORDER BY below that join: the rows that are left are not the first ones.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
}
"""Settings of a session that answers small queries for comparison."""


@dataclass(frozen=True)
class Change:
    """The change of one table in a transaction: rows that are deleted and rows that are inserted."""

    table: str
    gone: tuple[Row, ...]
    come: tuple[Row, ...]


Batch = tuple[Change, ...]


@dataclass(frozen=True)
class Declarations:
    """A declaration about the keys of a table, true or false: no view may be wrong because a declaration is
    false. `foreign` are columns and the "table.column" that they refer to."""

    key: str | None = None
    foreign: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> set[str]:
        return {column for column, _ in self.foreign} | ({self.key} if self.key else set())

    def among(self, tables: Collection[str]) -> Declarations:
        """Without what refers to other tables."""
        return replace(self, foreign=tuple(f for f in self.foreign if f[1].partition(".")[0] in tables))


UNDECLARED = Declarations()


@dataclass(frozen=True)
class Fault:
    view: str
    what: str

    @property
    def kind(self) -> str:
        """The kind of failure, which must stay the same while the case is made smaller."""
        return self.what.split(":")[0]


class Refused(Exception):
    """A text cannot be a view: Spark refuses it, or Nabla is right to refuse it."""


class Reference:
    """The reference: tables in memory, and the results of queries over them."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark.newSession()
        for key, value in REFERENCE_SETTINGS.items():
            self.session.conf.set(key, value)
        self.rows: dict[str, Counter[Row]] = {}
        self._tables: dict[str, Table] = {}

    def create(self, table: Table, rows: tuple[Row, ...]) -> None:
        self._tables[table.name] = table
        self.rows[table.name] = Counter(rows)
        self._register(table.name)

    def change(self, batch: Batch) -> None:
        for change in batch:
            rows = self.rows[change.table]
            rows.subtract(change.gone)
            rows.update(change.come)
            self.rows[change.table] = +rows
            self._register(change.table)

    def _register(self, name: str) -> None:
        schema = types.parse(self._tables[name].ddl)
        self.show(name, intake.arrow_rows(list(self.rows[name].elements()), schema, name), schema)

    def show(self, name: str, rows: pa.Table, schema: StructType | None = None) -> None:
        """Make a name stand for rows. Without a schema Spark would take a TIMESTAMP_NTZ for a TIMESTAMP."""
        self.session.createDataFrame(rows, schema).createOrReplaceTempView(name)

    def answer(self, sql: str) -> pa.Table:
        try:
            found = self.session.sql(sql).toArrow()
        except (PySparkException, Py4JJavaError, pa.ArrowInvalid) as error:
            # Java: Spark's compiled code trips over a NULL. Arrow: a NULL for a struct whose fields cannot be NULL.
            raise Refused(str(error).splitlines()[0]) from None
        if found.num_rows > MOST_ROWS:
            raise Refused("too many rows")
        return found


@dataclass
class Seconds:
    """The seconds that each part of a run took."""

    creating: float = 0.0
    changing: float = 0.0
    recomputing: float = 0.0
    refreshing: float = 0.0
    comparing: float = 0.0


@dataclass
class Trial:
    """A lake and its reference; `views` are the texts that both have."""

    spark: SparkSession
    folder: Path
    views: dict[str, str] = field(default_factory=dict)
    seconds: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        self.lake = nabla.open(self.folder, spark=self.spark.newSession())
        self.reference = Reference(self.spark)
        self._answers: dict[str, pa.Table] = {}
        self._changed: set[str] = set()

    def create_table(self, table: Table, rows: tuple[Row, ...], declared: Declarations = UNDECLARED) -> None:
        foreign = dict(declared.foreign)
        self.lake.create_table(table.name, schema=table.ddl, data=list(rows), key=declared.key, foreign_keys=foreign)
        self.reference.create(table, rows)

    def create_view(self, name: str, sql: str) -> Fault | None:
        expected = self._answer(sql)
        begun = time.monotonic()
        try:
            self.lake.create_view(name, sql)
        except NablaError as error:
            if error.code in NOT_OURS:
                raise Refused(error.code) from None
            return Fault(name, f"create_view raises {error.code}: {error}")
        except Exception as error:
            return Fault(name, f"create_view raises {type(error).__name__}: {error}")
        finally:
            self.seconds.creating += time.monotonic() - begun
        self.views[name] = sql
        self._answers[name] = expected
        self.reference.show(name, expected)
        wrong = wrong_content(stored(self.lake, name)[0], rows_of(expected))
        return Fault(name, f"as built, {wrong}") if wrong else None

    def _answer(self, sql: str) -> pa.Table:
        begun = time.monotonic()
        try:
            return self.reference.answer(sql)
        finally:
            self.seconds.recomputing += time.monotonic() - begun

    def change(self, batch: Batch) -> None:
        begun = time.monotonic()
        with self.lake.transaction() as tx:
            for change in batch:
                if change.gone:
                    tx.delete(change.table, rows=list(change.gone))
                if change.come:
                    tx.insert(change.table, list(change.come))
        self.reference.change(batch)
        self._changed |= {change.table for change in batch}
        self.seconds.changing += time.monotonic() - begun

    def refresh(self) -> tuple[Mapping[str, ViewReport], list[Fault]]:
        """Bring all views up to date, by rules wherever there are some, and compare all views that could be refreshed."""
        before = {name: Contents(*stored(self.lake, name)) for name in self.views}
        expected = self._expected()
        begun = time.monotonic()
        reports, faults = self._refresh_all()
        self.seconds.refreshing += time.monotonic() - begun
        begun = time.monotonic()
        for name, report in reports.items():
            after = Contents(*stored(self.lake, name))
            wrong = wrong_content(after.rows, rows_of(expected[name]))
            counts = (report.inserted, report.deleted)
            wrong = wrong or wrong_feed(self.lake, name, before[name], after, counts)
            if wrong:
                faults.append(Fault(name, wrong))
        self.seconds.comparing += time.monotonic() - begun
        for fault in faults:
            self.drop(fault.view)
        return reports, faults

    def _expected(self) -> dict[str, pa.Table]:
        """The present result of every query. A view whose query fails on the new data (too many rows for one value) is dropped.

        A query is asked again if something that it reads has changed: a table, or a view that was asked again.
        """
        for name in list(self.views):
            if name not in self.views or self._changed.isdisjoint(names_in(self.views[name])):
                continue
            try:
                self._answers[name] = self._answer(self.views[name])
                self._changed.add(name)
                self.reference.show(name, self._answers[name])
            except Refused:
                self.drop(name)
        self._changed.clear()
        return {name: self._answers[name] for name in self.views}

    def _refresh_all(self) -> tuple[Mapping[str, ViewReport], list[Fault]]:
        """Refresh all views at once. If that fails, refresh each view that it left out alone, to find those that fail, and
        leave the views that read one of them as they are."""
        reports: dict[str, ViewReport] = {}
        try:
            self.lake.refresh(mode="incremental", progress=lambda report: reports.update({report.name: report}))
            return reports, []
        except Exception:
            faults: list[Fault] = []
        for name in [name for name in self.views if name not in reports]:
            if any(self._reads(name, fault.view) for fault in faults):
                continue
            try:
                reports[name] = self.lake.refresh(name, mode="incremental")[name]
            except Exception as error:
                code = error.code if isinstance(error, NablaError) else type(error).__name__
                faults.append(Fault(name, f"refresh raises {code}: {error}"))
        return reports, faults or [
            Fault(next(iter(self.views)), "refresh raises for all views at once, for none alone")
        ]

    def _reads(self, view: str, other: str) -> bool:
        return view == other or any(self._reads(s, other) for s in self._sources(view))

    def _sources(self, view: str) -> list[str]:
        facts = self.lake.context.log.state().entries[view].facts
        return [name for name in facts.get("sources", {}) if name in self.views]

    def drop(self, view: str) -> None:
        """Drop the view and the views that read it."""
        for name in [name for name in self.views if name != view and view in self._sources(name)]:
            self.drop(name)
        if view in self.views:
            self.lake.drop_view(view)
            del self.views[view]
