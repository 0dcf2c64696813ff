"""Test files in lakes: every query a view, its tables filled in batches, every refresh from the change alone."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from nabla.dev.logic_tests.answers import agrees
from nabla.dev.logic_tests.records import LogicTest, Query
from nabla.dev.testing.fuzz.bags import stored
from nabla.dev.testing.fuzz.lake_trial import Batch, Change, Refused, Trial
from nabla.dev.testing.random_data import Row

Say = Callable[[str], None]


@dataclass
class Findings:
    """What came of it. `full` are the views that were recomputed, with the reason, `wrong` those that were not exact."""

    queries: int = 0
    views: int = 0
    answered: int = 0
    differing: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    full: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)

    @property
    def incremental(self) -> float:
        """The share of views that no refresh had to recompute."""
        return 1 - len(self.full) / self.views if self.views else 1.0

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reason.split(":")[0] for reason in self.full.values())


def run_test(spark: SparkSession, test: LogicTest, batches: int, findings: Findings, say: Say) -> None:
    """Make a lake of a test, change it, and add what is found."""
    folder = Path(tempfile.mkdtemp(prefix="nabla-logic-"))
    try:
        _run(Trial(spark, folder / "lake"), test, batches, findings, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(trial: Trial, test: LogicTest, batches: int, findings: Findings, say: Say) -> None:
    first, changes = _batches(test, batches)
    for name, table in test.tables.items():
        trial.create_table(table, tuple(first[name]))
    queries: dict[str, Query] = {}

    def wrong(query: Query, what: str) -> None:
        findings.wrong[f"{test.name} {query.number}"] = f"{what}\n{query.sql}"
        say(f"{test.name} {query.number}: {what}\n{query.sql}")

    for query in test.queries:
        findings.queries += 1
        view = f"q{query.number}"
        try:
            fault = trial.create_view(view, query.view)
        except Refused as refusal:
            findings.refused[str(refusal).split("]")[0].strip("[")] += 1
            continue
        if fault is not None:
            wrong(query, fault.what)
            continue
        queries[view] = query
    findings.views += len(queries)
    for batch in changes:
        trial.change(batch)
        reports, faults = trial.refresh()
        for fault in faults:
            wrong(queries.pop(fault.view), fault.what)
        for name, report in reports.items():
            findings.modes[report.mode] += 1
            if report.mode == "full" and name in queries:
                findings.full[f"{test.name} {queries[name].number}"] = report.reason
    for view, query in queries.items():
        if view in trial.views:
            same = agrees(query, stored(trial.lake, view)[0])
            findings.answered += same
            findings.differing += not same
    for name, seconds in vars(trial.seconds).items():
        findings.seconds[name] += seconds


def _batches(test: LogicTest, count: int) -> tuple[dict[str, list[Row]], list[Batch]]:
    """The rows that a table begins with, and changes to those that it has in the test. Half of the rows come later, and rows
    that are not in the test go: each is like one that comes, so that both meet the same conditions."""
    first: dict[str, list[Row]] = {}
    changes: list[list[Change]] = [[] for _ in range(count)]
    for name, rows in test.rows.items():
        early, late = rows[1::2], rows[::2]  # the only row of a table comes late
        gone = [tuple(_other(value) for value in row) for row in late]
        first[name] = early + gone
        for i in range(count):
            change = Change(name, tuple(gone[i::count]), tuple(late[i::count]))
            if change.gone or change.come:
                changes[i].append(change)
    return first, [tuple(batch) for batch in changes if batch]


def _other(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    return None if value is None else value + 1


def run(spark: SparkSession, tests: Iterable[LogicTest], batches: int, findings: Findings, say: Say) -> None:
    for test in tests:
        run_test(spark, test, batches, findings, say)
        say(
            f"{test.name}: {findings.queries:,} queries, {findings.views:,} views, {len(findings.wrong)} wrong, "
            f"{findings.incremental:.2%} never recomputed"
        )
