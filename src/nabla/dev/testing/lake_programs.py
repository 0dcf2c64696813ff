"""Random programs in lakes, on Spark: several share a lake, whose one refresh then serves all of them.

After every change each predicate must be what naive evaluation says, and its feed exactly the difference to before. The
rows are read from the files, as any reader of Delta would, so that the time goes into what is tested.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

import nabla
from nabla.dev.testing.random_programs import RandomProgram, Row, Shape, random_program
from nabla.engine.driver import driver_query
from nabla.frontends.datalog.naive import naive
from nabla.frontends.datalog.program import Program, parse_program
from nabla.lake.facade import Lake
from nabla.lake.reports import RefreshReport
from nabla.storage import reading
from nabla.storage.catalog import Part

TOGETHER = 8
"""Programs in one lake."""
_RELATION = re.compile(r"\b([tp]\d+[ab]?)(?=\()")
Bag = Counter[Row]


@dataclass
class LakeTally:
    """The counts of a run, and its failures."""

    programs: int = 0
    recursive: int = 0
    refreshes: int = 0
    changed_predicates: int = 0
    on_driver: int = 0
    on_spark: int = 0

    def __str__(self) -> str:
        return (
            f"{self.programs:,} programs ({self.recursive:,} recursive), {self.refreshes:,} refreshes of their lakes, "
            f"{self.changed_predicates:,} predicates changed, {self.on_driver:,} recursions on the driver, "
            f"{self.on_spark:,} on Spark"
        )


def named_apart(made: RandomProgram, prefix: str) -> RandomProgram:
    """The same program over tables and predicates that no other one has."""

    def all_of(of: Mapping[str, object]) -> dict[str, object]:
        return {prefix + name: value for name, value in of.items()}

    text = _RELATION.sub(lambda match: prefix + match[1], made.text)
    changes = [all_of(change) for change in made.changes]
    return replace(made, text=text, tables=all_of(made.tables), facts=all_of(made.facts), changes=changes)  # type: ignore[arg-type]


class Case:
    """A program in a lake, and what it must be now."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.seed = seed
        self.made = named_apart(random_program(Random(seed), shape), f"s{seed}_")
        self.program: Program = parse_program(self.made.text, self.made.tables)
        self.now = {name: Counter(rows) for name, rows in self.made.facts.items()}
        self.expected = self._evaluated()

    def _evaluated(self) -> dict[str, frozenset[Row]]:
        return naive(self.program, {name: list(rows) for name, rows in self.now.items()})

    @property
    def name(self) -> str:
        return f"s{self.seed}"

    def create(self, lake: Lake) -> None:
        for name, columns in self.made.tables.items():
            schema = ", ".join(f"{column} {kind}" for column, kind in columns)
            lake.create_table(name, schema=schema, data=self.made.facts[name])
        lake.create_rules(self.name, self.made.text)
        for predicate, rows in self.expected.items():
            _same(f"{predicate} from scratch", _stored(lake, predicate), Counter(rows))

    def change(self, lake: Lake, number: int) -> None:
        with lake.transaction() as tx:
            for table, (inserts, deletes) in self.made.changes[number].items():
                if deletes:
                    tx.delete(table, rows=deletes)
                if inserts:
                    tx.insert(table, inserts)
                self.now[table] = self.now[table] - Counter(deletes) + Counter(inserts)

    def check(self, lake: Lake, versions: Mapping[str, int], tally: LakeTally) -> None:
        before, self.expected = self.expected, self._evaluated()
        for predicate, rows in self.expected.items():
            old, new = Counter(before[predicate]), Counter(rows)
            _same(predicate, _stored(lake, predicate), new)
            _same(f"the feed of {predicate}", _fed(lake, predicate, versions[predicate]), (new - old, old - new))
            tally.changed_predicates += new != old

    def told(self, error: BaseException) -> str:
        facts = f"{self.made.facts}\n{self.made.changes}"
        return f"seed {self.seed}: {type(error).__name__} {error}\n{self.made.text}\n{facts}\n"


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")


def _rows(table: pa.Table) -> Bag:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _part(lake: Lake, view: str, part: str) -> Part:
    return lake.context.log.state().entries[view].parts[part]


def _stored(lake: Lake, view: str) -> Bag:
    return _rows(reading.read(lake.context.log.snapshot(_part(lake, view, "data"))))


def _fed(lake: Lake, view: str, since: int) -> tuple[Bag, Bag]:
    """The rows of the feed after a version, inserted and deleted."""
    feed = reading.read(lake.context.log.snapshot(_part(lake, view, "feed"))).filter(pc.field("_version") > since)
    kinds = (feed.filter(pc.field("_change_type") == kind) for kind in ("insert", "delete"))
    come, went = (_rows(rows.drop_columns(["_change_type", "_version", "_timestamp"])) for rows in kinds)
    return come, went


def run(
    seeds: Sequence[int],
    shape: Shape,
    tally: LakeTally,
    together: int = TOGETHER,
    progress: Callable[[], None] = lambda: None,
) -> list[str]:
    """Checks programs of these seeds; returns what failed. Of every other lake Spark does all, however small it is.
    `progress` is called after every lake."""
    failed: list[str] = []
    for number, start in enumerate(range(0, len(seeds), together)):
        cases = [Case(seed, shape) for seed in seeds[start : start + together]]
        folder = Path(tempfile.mkdtemp(prefix="nabla-programs-"))
        try:
            lake = nabla.open(folder / "lake")
            with _only_spark(lake) if number % 2 else nullcontext():
                failed += _Run(lake, cases, tally).all_changes(shape.changes)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        progress()
    return failed


@contextmanager
def _only_spark(lake: Lake) -> Iterator[None]:
    """Every query is computed by Spark, none by the driver."""
    most, lake.context.only_spark = driver_query.MOST_BYTES, True
    driver_query.MOST_BYTES = -1
    try:
        yield
    finally:
        driver_query.MOST_BYTES = most


class _Run:
    """Some programs in one lake. One that fails is told and left out of what follows."""

    def __init__(self, lake: Lake, cases: list[Case], tally: LakeTally) -> None:
        self.lake = lake
        self.going = cases
        self.tally = tally
        self.failed: list[str] = []
        tally.programs += len(cases)
        tally.recursive += sum(any(s.recursive for s in case.program.strata) for case in cases)

    def all_changes(self, changes: int) -> list[str]:
        self._each(lambda case: case.create(self.lake))
        for number in range(changes):
            versions = {name: status.version for name, status in self.lake.status().items()}
            self._each(lambda case, number=number: case.change(self.lake, number))  # type: ignore[misc]
            self._count(self.lake.refresh(mode="strict"))
            self._each(lambda case, versions=versions: case.check(self.lake, versions, self.tally))  # type: ignore[misc]
        return self.failed

    def _each(self, do: Callable[[Case], None]) -> None:
        good = []
        for case in self.going:
            try:
                do(case)
                good.append(case)
            except Exception as error:
                self.failed.append(case.told(error))
        self.going = good

    def _count(self, report: RefreshReport) -> None:
        self.tally.refreshes += 1
        recursions = [view for view in report.values() if view.rounds]
        self.tally.on_spark += sum(view.jobs > 0 for view in recursions)
        self.tally.on_driver += sum(view.jobs == 0 for view in recursions)
