"""Random programs in lakes, on Spark: several share a lake, whose one refresh then serves all of them.

After every change each predicate must be what naive evaluation says, and its feed exactly the difference to before. The
rows are read from the files, as any reader of Delta would, so that the time goes into what is tested.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

import nabla
from nabla.datalog.naive import naive
from nabla.datalog.program import Program, parse_program
from nabla.lake import Lake
from nabla.sources import snapshot_of
from nabla.storage import reading
from nabla.storage.catalog import Part
from nabla.testing.random_programs import RandomProgram, Row, Shape, random_program

TOGETHER = 8
"""Programs in one lake."""
_RELATION = re.compile(r"\b([tp]\d+[ab]?)(?=\()")
Bag = Counter[Row]


@dataclass
class LakeTally:
    """What a run has seen."""

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
    return lake._log.state().entries[view].parts[part]


def _stored(lake: Lake, view: str) -> Bag:
    return _rows(reading.read(snapshot_of(lake, _part(lake, view, "data"))))


def _fed(lake: Lake, view: str, since: int) -> tuple[Bag, Bag]:
    """What the feed says came and went after a version, every row that it has."""
    feed = reading.read(snapshot_of(lake, _part(lake, view, "feed"))).filter(pc.field("_version") > since)
    kinds = (feed.filter(pc.field("_change_type") == kind) for kind in ("insert", "delete"))
    come, went = (_rows(rows.drop_columns(["_change_type", "_version", "_timestamp"])) for rows in kinds)
    return come, went


def run(seeds: Iterable[int], shape: Shape, tally: LakeTally) -> list[str]:
    """Checks programs of these seeds; returns what failed. Of two lakes one leaves all recursion to Spark."""
    failed: list[str] = []
    waiting = list(seeds)
    for number, start in enumerate(range(0, len(waiting), TOGETHER)):
        folder = Path(tempfile.mkdtemp(prefix="nabla-programs-"))
        try:
            lake = nabla.open(folder / "lake")
            lake._only_spark_rounds = number % 2 == 1
            failed += _lake(lake, [Case(seed, shape) for seed in waiting[start : start + TOGETHER]], shape, tally)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return failed


def _lake(lake: Lake, cases: list[Case], shape: Shape, tally: LakeTally) -> list[str]:
    failed: list[str] = []

    def each(do: object, *given: object) -> list[Case]:
        good = []
        for case in going:
            try:
                do(case, lake, *given)  # type: ignore[operator]
                good.append(case)
            except Exception as error:
                failed.append(case.told(error))
        return good

    going = cases
    going = each(Case.create)
    for number in range(shape.changes):
        versions = {name: status.version for name, status in lake.status().items()}
        going = each(Case.change, number)
        report = lake.refresh(mode="strict")
        tally.refreshes += 1
        recursions = [view for view in report.values() if view.rounds]
        tally.on_driver += sum(view.jobs == 0 for view in recursions)
        tally.on_spark += sum(view.jobs > 0 for view in recursions)
        going = each(Case.check, versions, tally)
    tally.programs += len(cases)
    tally.recursive += sum(any(s.recursive for s in case.program.strata) for case in cases)
    return failed
