"""The lake of one test: its queries as views, which are compared with Spark's answers when they are built and refreshed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import nabla
from nabla.dev.logic_tests.records import LogicTest, Query
from nabla.dev.testing.fuzz.bags import Contents, stored, wrong_content, wrong_feed
from nabla.dev.testing.fuzz.lake_trial import NOT_OURS, Batch
from nabla.dev.testing.random_data import Row
from nabla.errors import NablaError
from nabla.lake.reports import ViewReport

CREATED_TOGETHER = 50
"""Views that are created in one commit."""


@dataclass
class LogicLake:
    """Tables and views. `queries` are those that are views, `faults` what was wrong with the others, `refused` the reasons of
    Nabla to make no view of a query, where it is right to refuse."""

    spark: SparkSession
    folder: Path
    test: LogicTest
    queries: dict[str, Query] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    milliseconds: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.lake = nabla.open(self.folder, spark=self.spark.newSession())
        self.contents: dict[str, Contents] = {}

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add the time that the block takes to that of other blocks of a kind."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.milliseconds[what] += round(1000 * (time.monotonic() - begun))

    def create_tables(self, rows: Mapping[str, Sequence[Row]]) -> None:
        with self.timed("changing"):
            for name, table in self.test.tables.items():
                self.lake.create_table(name, schema=table.ddl, data=list(rows[name]))

    def create_views(self, queries: Sequence[Query], answers: Mapping[int, list[Row]]) -> None:
        """Make views of queries, many in one commit, and compare them as they are built."""
        with self.timed("creating"):
            for start in range(0, len(queries), CREATED_TOGETHER):
                self._create(queries[start : start + CREATED_TOGETHER])
        with self.timed("comparing"):
            for name, query in list(self.queries.items()):
                self.contents[name] = Contents(*stored(self.lake, name))
                if wrong := wrong_content(self.contents[name].rows, answers[query.number]):
                    self._fail(name, f"as built, {wrong}")

    def _create(self, queries: Sequence[Query]) -> None:
        """Create views together. If that fails, create each half of them alone, which finds the one at fault."""
        try:
            self.lake.create_views({name_of(query): query.view for query in queries})
        except Exception as error:
            if len(queries) > 1:
                half = len(queries) // 2
                self._create(queries[:half])
                self._create(queries[half:])
            elif isinstance(error, NablaError) and error.code in NOT_OURS:
                self.refused[queries[0].number] = error.code
            else:
                self.faults[queries[0].number] = f"create_views raises {_coded(error)}"
        else:
            self.queries |= {name_of(query): query for query in queries}

    def change(self, batch: Batch) -> None:
        """Change the tables in one transaction."""
        with self.timed("changing"), self.lake.transaction() as tx:
            for change in batch:
                if change.gone:
                    tx.delete(change.table, rows=list(change.gone))
                if change.come:
                    tx.insert(change.table, list(change.come))

    def drop(self, view: str) -> None:
        self.lake.drop_view(view)
        del self.queries[view]

    def refresh(self, answers: Mapping[int, list[Row]]) -> Mapping[str, ViewReport]:
        """Bring all views up to date from the changes, wherever there are rules, and compare every view and its feed."""
        with self.timed("refreshing"):
            reports = self._refresh()
        with self.timed("comparing"):
            for name in list(self.queries):
                if wrong := self._wrong(name, reports.get(name), answers):
                    self._fail(name, wrong)
        return reports

    def _wrong(self, name: str, report: ViewReport | None, answers: Mapping[int, list[Row]]) -> str | None:
        """The fault of a view after a refresh, if it has one."""
        if report is None:
            return "the refresh does not report it"
        before, after = self.contents[name], Contents(*stored(self.lake, name))
        self.contents[name] = after
        wrong = wrong_content(after.rows, answers[self.queries[name].number])
        return wrong or wrong_feed(self.lake, name, before, after, (report.inserted, report.deleted))

    def _refresh(self) -> dict[str, ViewReport]:
        """All views at once. If that fails, each view that was left out is refreshed alone, to find those that fail."""
        reports: dict[str, ViewReport] = {}
        try:
            self.lake.refresh(mode="incremental", progress=lambda report: reports.update({report.name: report}))
            return reports
        except Exception as error:
            together = error
        failed = False
        for name in [name for name in self.queries if name not in reports]:
            try:
                reports[name] = self.lake.refresh(name, mode="incremental")[name]
            except Exception as error:
                failed = True
                self._fail(name, f"refresh raises {_coded(error)}")
        if not failed:
            raise AssertionError("a refresh raises for all views at once, for none alone") from together
        return reports

    def _fail(self, view: str, what: str) -> None:
        """Note a fault, and drop the view: one fault is found once."""
        self.faults[self.queries[view].number] = what
        self.drop(view)


def name_of(query: Query) -> str:
    """The name of a query as a view."""
    return f"q{query.number}"


def _coded(error: Exception) -> str:
    return f"{error.code if isinstance(error, NablaError) else type(error).__name__}: {error}"
