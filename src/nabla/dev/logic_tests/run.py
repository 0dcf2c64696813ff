"""Test files in lakes: every query a view, its tables filled in batches, every refresh from the change alone."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from nabla.dev.logic_tests.answers import agrees
from nabla.dev.logic_tests.findings import Findings
from nabla.dev.logic_tests.lake import LogicLake, name_of
from nabla.dev.logic_tests.records import LogicTest, Query
from nabla.dev.logic_tests.reference import Answer, Reference, Refusal
from nabla.dev.testing.fuzz.lake_trial import Batch, Change
from nabla.dev.testing.random_data import Row

Say = Callable[[str], None]
Rows = dict[str, list[Row]]


def run(spark: SparkSession, tests: Iterable[LogicTest], batches: int, findings: Findings, say: Say) -> None:
    for test in tests:
        run_test(spark, test, batches, findings, say)
        say(f"{test.name}: {findings}")


def run_test(spark: SparkSession, test: LogicTest, batches: int, findings: Findings, say: Say) -> None:
    """Make a lake of a test, change it, and add what is found."""
    folder = Path(tempfile.mkdtemp(prefix="nabla-logic-"))
    try:
        lake = LogicLake(spark, folder / "lake", test)
        _run(lake, batches, findings)
        for number, what in lake.faults.items():
            (query,) = (query for query in test.queries if query.number == number)
            findings.wrong[f"{test.name} {number}"] = f"{what}\n{query.sql}"
            say(f"{test.name} {number}: {what}\n{query.sql}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(lake: LogicLake, batches: int, findings: Findings) -> None:
    test = lake.test
    states, changes = moments(test, batches)
    lake.create_tables(states[0])
    expected = SparkAnswers(lake, states)
    now = expected.at(0, test.queries)
    findings.queries += len(test.queries)
    possible = [query for query in test.queries if not isinstance(now[query.number], Refusal)]
    with ThreadPoolExecutor(1) as pool:  # Spark answers for later moments while views are made
        later = [pool.submit(expected.at, moment, possible) for moment in range(1, len(states))]
        lake.create_views(possible, _given(now))
        made = {name_of(query): query for query in possible if query.number not in lake.refused}
        recomputed: dict[str, str] = {}
        refreshed: set[str] = set()
        for batch, waiting in zip(changes, later, strict=True):
            now = waiting.result()
            for query in [q for q in lake.queries.values() if isinstance(now[q.number], Refusal)]:
                findings.failing += 1  # a view of a query that fails for the new rows can only fail
                lake.drop(name_of(query))
                made.pop(name_of(query))
            lake.change(batch)
            for name, report in lake.refresh(_given(now)).items():
                findings.modes[report.mode] += 1
                if report.mode != "skip":
                    refreshed.add(name)
                if report.mode == "full":
                    recomputed[name] = report.reason
    refusals = {n: str(a) for n, a in expected.at(0, test.queries).items() if isinstance(a, Refusal)} | lake.refused
    findings.refused.update(refusals.values())
    findings.views += len(made)
    findings.changed += len(made.keys() & refreshed)
    findings.full |= {f"{test.name} {made[n].number}": why for n, why in recomputed.items() if n in made}
    for name, query in lake.queries.items():
        same = agrees(query, lake.contents[name].rows)
        findings.answered += same
        findings.differing += not same
    findings.milliseconds.update(lake.milliseconds)


def _given(answers: Mapping[int, Answer]) -> dict[int, list[Row]]:
    return {number: rows for number, rows in answers.items() if not isinstance(rows, Refusal)}


class SparkAnswers:
    """The answers of Spark at each moment. A query is asked again if a table whose name it has in its text has changed."""

    def __init__(self, lake: LogicLake, states: Sequence[Rows]) -> None:
        self._lake = lake
        self._states = states
        self._known: list[dict[int, Answer]] = []

    def at(self, moment: int, queries: Sequence[Query]) -> dict[int, Answer]:
        """The answers at a moment; those at the moment before it have to be known."""
        if moment < len(self._known):
            return self._known[moment]
        states, tables = self._states, self._lake.test.tables
        found: dict[int, Answer] = {}
        if moment:
            before = states[moment - 1]
            changed = {t.lower() for t in tables if Counter(states[moment][t]) != Counter(before[t])}
            found = {query.number: self._known[moment - 1][query.number] for query in queries}
            queries = [q for q in queries if not changed.isdisjoint(re.findall(r"\w+", q.sql.lower()))]
        with self._lake.timed("answering"):
            found |= Reference(self._lake.spark, tables.values(), states[moment]).answers(queries)
        self._known.append(found)
        return found


def moments(test: LogicTest, count: int) -> tuple[list[Rows], list[Batch]]:
    """The rows of the tables at each moment, and the changes between two. At the last moment the tables have the rows of the
    test. Half of these come later, and rows that are not in the test go: each is like one that comes, so that both meet the
    same conditions."""
    state: Rows = {}
    changes: list[list[Change]] = [[] for _ in range(count)]
    for name, rows in test.rows.items():
        early, late = rows[1::2], rows[::2]  # the only row of a table comes late
        gone = [tuple(_other(value) for value in row) for row in late]
        state[name] = early + gone
        for i in range(count):
            change = Change(name, tuple(gone[i::count]), tuple(late[i::count]))
            if change.gone or change.come:
                changes[i].append(change)
    states = [state]
    batches = [tuple(batch) for batch in changes if batch]
    for batch in batches:
        state = dict(state)
        for change in batch:
            left = Counter(state[change.table])
            left.subtract(change.gone)
            state[change.table] = [*(+left).elements(), *change.come]
        states.append(state)
    return states, batches


def _other(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    return None if value is None else value + 1
