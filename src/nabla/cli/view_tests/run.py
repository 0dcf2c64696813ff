"""Running tests of views: each in a lake of its own, from all rows at once, and from rows that come and go in batches."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nabla
from nabla.cli.projects import Tell
from nabla.cli.view_tests.compare import Difference, compare
from nabla.cli.view_tests.project import ProjectViews
from nabla.cli.view_tests.read import Rows, Value, ViewTest, malformed
from nabla.cli.view_tests.values import typed
from nabla.engine.spark.meaning import meaning, zone_of
from nabla.errors import NablaError
from nabla.lake.refresh.create import ViewDefinition, create
from nabla.storage import reading

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

BATCHES = (3, 6)
"""The least and the largest number of batches in which rows come and go."""

Tuples = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Outcome:
    """How a test ended. `step` says whether the difference was there at once or only after batches of changes."""

    test: ViewTest
    seconds: float
    differences: tuple[Difference, ...] = ()
    step: str = ""
    error: NablaError | None = None

    @property
    def verdict(self) -> str:
        return "error" if self.error else "failed" if self.differences else "passed"

    @property
    def message(self) -> str:
        """What is wrong, for people."""
        if self.error is not None:
            return f"{self.step + ': ' if self.step else ''}{self.error}"
        if not self.differences:
            return ""
        return f"{self.step}\n" + "\n".join(map(str, self.differences))


class Runner:
    """Runs the tests of one project. The same seed makes the same batches."""

    def __init__(self, project: ProjectViews, scratch: Path, seed: int, tell: Tell) -> None:
        self.project = project
        self.scratch = scratch
        self.seed = seed
        self.tell = tell

    def check(self, tests: Sequence[ViewTest]) -> None:
        """Refuse tests of tables and views that there are not, before any is run."""
        for test in tests:
            _Prepared(self.project, test)

    def run(self, test: ViewTest) -> Outcome:
        self.tell(f"Testing {test.name}")
        begun = time.perf_counter()
        outcome = self._run(test)
        return replace(outcome, seconds=round(time.perf_counter() - begun, 3))

    def _run(self, test: ViewTest) -> Outcome:
        prepared, step = _Prepared(self.project, test), ""
        try:
            given = prepared.given(self._zone)
            step = "built from all rows at once"
            lake = self._lake(prepared, given)
            if differences := prepared.compare(lake, self._zone):
                return Outcome(test, 0, differences, f"{step}, the query gives other rows:")
            chance = random.Random(f"{self.seed} {test.name}")
            states = _batches(given, chance)
            step = f"built from some rows, seed {self.seed}"
            lake = self._lake(prepared, states[0])
            for number, (before, after) in enumerate(pairwise(states), 1):
                step = f"maintained, batch {number} of {len(states) - 1}, seed {self.seed}"
                _change(lake, before, after)
                lake.refresh(mode="incremental")
            differences = prepared.compare(lake, self._zone)
            said = f"the query is right, but maintained over {len(states) - 1} batches (seed {self.seed}) it has other rows:"
            return Outcome(test, 0, differences, said)
        except NablaError as error:
            return Outcome(test, 0, step=step, error=error)

    def _lake(self, prepared: _Prepared, rows: Mapping[str, Tuples]) -> Lake:
        """A new lake with these rows and the views that the test needs."""
        lake = nabla.open(tempfile.mkdtemp(dir=self.scratch))
        for name in sorted(prepared.tables):
            shape = prepared.shape(name)
            lake.create_table(name, schema=shape, data=rows.get(name, []), key=prepared.key(name))
        units = [ViewDefinition(unit, f'view "{unit[0].name}"') for unit in prepared.units]
        create(lake.context, lake.context.log.state(), "create views", units)
        return lake

    @property
    def _zone(self) -> str:
        from pyspark.sql import SparkSession

        return zone_of(meaning(SparkSession.active()))


class _Prepared:
    """A test with the project's spelling of its names, and what it needs."""

    def __init__(self, project: ProjectViews, test: ViewTest) -> None:
        self.project = project
        self.expect = {self._find(name, rows): rows for name, rows in test.expect.items()}
        self._given = {self._find(name, rows): rows for name, rows in test.given.items()}
        for name, rows in self.expect.items():
            if name not in project.views:
                raise malformed(
                    f'"{name}" is a table, and no view of the project', rows.place, "Expect rows of a view."
                )
            if name in self._given:
                raise malformed(f'the rows of "{name}" are given and expected', rows.place, "Leave one of both out.")
        self.units, self.tables = project.needed(self.expect, self._given)
        read = {source for unit in self.units for view in unit for source in view.sources}
        for name, rows in self._given.items():
            if name not in read:
                remedy = f"The views that are tested read {', '.join(sorted(read)) or 'no table'}."
                raise malformed(f'nothing that is tested reads "{name}"', rows.place, remedy)
        for name, rows in self._given.items():
            self._check_columns(name, rows)

    def shape(self, name: str) -> Any:
        return self.project.columns(name)

    def key(self, name: str) -> tuple[str, ...] | None:
        return (self.project.tables[name].key or None) if name in self.project.tables else None

    def given(self, zone: str) -> dict[str, Tuples]:
        """The given rows in the types of their columns; a column that a row does not name is NULL."""
        return {name: self._typed(name, rows, zone) for name, rows in self._given.items()}

    def compare(self, lake: Lake, zone: str) -> tuple[Difference, ...]:
        """Where the views have other rows than expected."""
        state = lake.context.log.state()
        found = []
        for name, expected in self.expect.items():
            table = reading.read(lake.context.log.snapshot(state.entries[name].parts["data"]))
            columns = [column.to_pylist() for column in table.columns]
            actual = list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
            found.append(compare(name, expected, actual, self.shape(name), zone))
        return tuple(difference for difference in found if difference is not None)

    def _typed(self, name: str, rows: Rows, zone: str) -> Tuples:
        shape, nothing = self.shape(name), Value(None, rows.place)
        spelled = [{column.lower(): value for column, value in row.items()} for row in rows.rows]
        return [
            tuple(typed(row.get(f.name.lower(), nothing), f.dataType, zone) for f in shape.fields) for row in spelled
        ]

    def _check_columns(self, name: str, rows: Rows) -> None:
        known = [column.lower() for column in self.shape(name).names]
        unknown = [column for column in rows.columns if column.lower() not in known]
        if unknown:
            remedy = f"It has {', '.join(self.shape(name).names)}."
            raise malformed(f'"{name}" has no column "{unknown[0]}"', rows.place, remedy)

    def _find(self, name: str, rows: Rows) -> str:
        found = self.project.find(name)
        if found is None:
            remedy = f"It has {', '.join((*self.project.tables, *self.project.views))}."
            raise malformed(f'the project has no table or view "{name}"', rows.place, remedy)
        return found


def _batches(given: Mapping[str, Tuples], chance: random.Random) -> list[dict[str, Tuples]]:
    """States of the tables, from some of the rows to all of them: rows come, go and come again."""
    states = [
        {name: [row for row in rows if chance.random() < share] for name, rows in given.items()}
        for share in (chance.random() for _ in range(chance.randint(*BATCHES)))
    ]
    return [*states, {name: list(rows) for name, rows in given.items()}]


def _change(lake: Lake, before: Mapping[str, Tuples], after: Mapping[str, Tuples]) -> None:
    """Bring the tables from one state to the next, in one transaction."""
    with lake.transaction() as tx:
        for name, rows in before.items():
            tx.delete(name, rows=_without(rows, after[name]))
            tx.insert(name, _without(after[name], rows))


def _without(rows: Tuples, others: Tuples) -> Tuples:
    """The bag of rows less another one."""
    left = list(others)
    found = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            found.append(row)
    return found
