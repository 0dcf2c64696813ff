"""Runs the matrix: a lake with views of some kinds and shapes, changed and refreshed, and compared with Spark's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from nabla.dev.testing.fuzz.lake_trial import Batch, Change, Fault, Refused, Trial
from nabla.dev.testing.matrix import functions, shapes
from nabla.dev.testing.matrix.columns import GROUPS, ROWS, Kind, rows, stored, table
from nabla.dev.testing.random_data import Row
from nabla.lake.reports import ViewReport

TABLES = ("t", "u")
TOGETHER = 4
"""Kinds whose views share a lake."""

Wanted = Callable[[str], bool]
"""Whether a view of that name is to be made."""


@dataclass
class Findings:
    """What was tried, and what disagreed. `refused` are views that Spark itself does not take, by its reasons."""

    views: int = 0
    refreshes: int = 0
    modes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)


def run(
    spark: SparkSession,
    kinds: Sequence[Kind],
    wanted: Wanted = lambda _: True,
    seed: int = 0,
    with_functions: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Try the views of all kinds, those of a few kinds in one lake."""
    findings = Findings()
    for first in range(0, len(kinds), TOGETHER):
        some = tuple(kinds[first : first + TOGETHER])
        with TemporaryDirectory(prefix="nabla-matrix-") as folder:
            _Lake(spark, Path(folder) / "lake", some, Random(seed), findings, say).run(wanted, with_functions)
        names = ", ".join(kind.name for kind in some)
        say(f"{names}: {findings.views} views so far, {len(findings.faults)} faults")
    return findings


class _Lake:
    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        kinds: tuple[Kind, ...],
        rng: Random,
        findings: Findings,
        say: Callable[[str], None],
    ) -> None:
        self.kinds = kinds
        self.stored = stored(kinds)
        self.rng = rng
        self.findings = findings
        self.say = say
        self.trial = Trial(spark, folder)
        for session in (self.trial.lake.spark, self.trial.reference.session):
            session.conf.set("spark.sql.session.timeZone", "UTC")  # Python has no years 0 and 10000
        for name in TABLES:
            self.trial.create_table(table(name, self.stored), tuple(rows(rng, self.stored, range(ROWS))))

    def run(self, wanted: Wanted, with_functions: bool) -> None:
        for name, sql in self._views(with_functions):
            if wanted(name):
                self._create(name, sql)
        for batch in self._batches():
            self.trial.change(batch)
            before = set(self.trial.views)
            reports, faults = self.trial.refresh()
            for name in before - reports.keys() - {fault.view for fault in faults}:
                self.findings.refused[f"{name} on later data"] += 1
            self._note([*faults, *filter(None, map(_recomputed_without_reason, reports.values()))])
            self._count(reports.values())

    def _views(self, with_functions: bool) -> Iterator[tuple[str, str]]:
        for kind in self.kinds:
            yield from shapes.views(kind).items()
        if with_functions:
            session = self.trial.reference.session
            names = functions.names_of_functions(session)
            for kind in self.kinds:
                if kind.functions:
                    yield from functions.views(session, kind, names).items()

    def _create(self, name: str, sql: str) -> None:
        try:
            fault = self.trial.create_view(name, sql)
        except Refused as refused:
            self.findings.refused[str(refused).split("]")[0].strip("[ ")] += 1
            return
        self.findings.views += 1
        if fault is not None:
            self.trial.drop(name)
            self._note([Fault(name, f"{fault.what}\n  {sql}")])

    def _note(self, faults: Sequence[Fault]) -> None:
        self.findings.faults += faults
        for fault in faults:
            self.say(f"{fault.view}: {fault.what}")

    def _count(self, reports: Iterable[ViewReport]) -> None:
        for report in reports:
            self.findings.refreshes += 1
            self.findings.modes[report.mode] += 1
            if report.mode == "full":
                self.findings.reasons[report.reason.split(":")[0]] += 1

    def _batches(self) -> Iterator[Batch]:
        """Rows come and are updated; the first, the last, every third and a whole group go; all go, and others come."""
        for change in (self._insert_and_update, self._delete, self._replace_all):
            yield tuple(Change(name, *change(self._rows(name))) for name in TABLES)

    def _rows(self, name: str) -> list[Row]:
        return sorted(self.trial.reference.rows[name].elements(), key=lambda row: int(row[0]))

    def _insert_and_update(self, have: list[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        gone = tuple(self.rng.sample(have, len(have) // 4))
        updated = tuple((old[0], *new[1:]) for old, new in zip(gone, self._new(0, len(gone)), strict=True))
        return gone, (*updated, *self._new(100, 6))

    def _delete(self, have: list[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        group = self.rng.randrange(GROUPS)
        gone = (row for row in have if row in (have[0], have[-1]) or row[0] % 3 == 0 or row[1] == group)
        return tuple(gone), ()

    def _replace_all(self, have: list[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        return tuple(have), tuple(self._new(200, 8))

    def _new(self, first: int, count: int) -> Iterator[Row]:
        return rows(self.rng, self.stored, range(first, first + count))


def _recomputed_without_reason(report: ViewReport) -> Fault | None:
    if report.mode == "full" and not report.reason.startswith("NABLA_"):
        return Fault(report.name, f"recomputed without a reason code: {report.reason}")
    return None
