"""Liu and Vincent's experiments: views of the university database, recomputed and maintained, against the update's size.

`rec` recomputes a view: its query over the updated tables is run and written. `mtn` maintains it in the worst case, if all
keys of the update are in the table: rows of the view are deleted and their new versions inserted. `inc` maintains it in the
best case, if no key of the update is there: the change is only computed and added. `less` recomputes it after the share was
deleted, which is the falling line of the paper's figure 2. The tables themselves are updated before, in the same way for all.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import nabla
from nabla.dev.bench.table24 import TABLE_24
from nabla.dev.bench.university import Design, Experiment, University
from nabla.errors import NablaError
from nabla.lake.facade import Lake

Say = Callable[[str], None]
Operand = Literal["left", "right"]
Kind = Literal["cre", "rec", "less", "inc", "mtn"]
AGAIN = "again"
"""The view that is recomputed, so that the maintained ones are never."""


@dataclass(frozen=True)
class Workload:
    """The settings of a measurement. `sizes` are in percent of the rows of the updated table."""

    students: int
    sizes: tuple[float, ...] = (10, 20, 30, 40, 50)
    design: Design = TABLE_24
    experiments: tuple[Experiment, ...] = TABLE_24.experiments
    rounds: int = 3
    operands: tuple[Operand, ...] = ("left", "right")
    verify: bool = False


@dataclass(frozen=True)
class Timed:
    """One measurement of a view after an update of `size` percent of the left or right operand."""

    view: str
    operand: Operand
    size: float
    round: int
    kind: Kind
    seconds: float
    students: int = 0


def clear_measurements(docs: Path, design: Design) -> tuple[Path, Path]:
    """The files of measurements that the pages in a folder are made from, of measurements and of costs, without those of a
    design: all of it is to be measured again."""
    files = docs / "measurements/nested.jsonl", docs / "measurements/nested_costs.jsonl"
    own = {experiment.name for experiment in design.experiments}
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        kept = [line for line in lines if json.loads(line)["view"] not in own]
        file.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    return files


def next_round(timed: Iterable[Timed]) -> int:
    return max((one.round + 1 for one in timed), default=0)


def run(workload: Workload, folder: Path, say: Say, first_round: int = 0) -> Iterator[Timed]:
    """Yield all measurements as they are made. A lake in the folder from an earlier run is used again."""
    university = University(nabla.open(folder), workload.students, workload.design)
    build_university(university, workload, say)
    run = _Run(university, say)
    for experiment in workload.experiments:
        run.recompute(experiment)  # the first one is slower than all others
        yield run.timed(experiment, "left", 0, first_round, "cre", run.recompute(experiment))
    for number in range(first_round, first_round + workload.rounds):
        for size in workload.sizes:
            if "left" in workload.operands:
                yield from run.left(workload.experiments, size, number)
            if "right" in workload.operands:
                for experiment in workload.experiments:
                    if experiment.right:
                        yield from run.right(experiment, size, number)
            university.lake.vacuum(older_than=datetime.timedelta(0))
    if workload.verify:
        university.lake.verify(*(experiment.name for experiment in workload.experiments))
        say("verified: every view equals its query")


def build_university(university: University, workload: Workload, say: Say) -> None:
    """Create the relations and the views that are missing, and bring the views up to date."""
    lake = university.lake
    if not lake.status():
        say(f"building the university database with {workload.students} students")
    elif lake.status()["stud"].rows != workload.students:
        raise NablaError(
            "NABLA_BENCH",
            f"the lake has {lake.status()['stud'].rows} students, not {workload.students}",
            place=lake.path,
            remedy="Name another folder with --lake, or remove this one.",
        )
    university.build({"stud", "lect"} | {experiment.right for experiment in workload.experiments if experiment.right})
    for experiment in workload.experiments:
        if experiment.name not in lake.status():
            report = lake.create_view(experiment.name, experiment.view)
            say(f"built {experiment.name} in {report.seconds:.1f} s, {report.inserted} rows")
    lake.refresh(*(experiment.name for experiment in workload.experiments))


def recompute(lake: Lake, experiment: Experiment) -> float:
    """The seconds that a view takes to be built anew."""
    seconds = lake.create_view(AGAIN, experiment.view, rebuild=True).seconds
    lake.drop_view(AGAIN)
    return seconds


def maintain(lake: Lake, experiment: Experiment) -> float:
    """The seconds that a view takes to be brought up to date from the change."""
    report = lake.refresh(experiment.name, mode="strict")[experiment.name]
    assert report.mode == "incremental", report
    return report.seconds


@dataclass(frozen=True)
class _Run:
    university: University
    say: Say

    @property
    def lake(self) -> Lake:
        return self.university.lake

    def recompute(self, experiment: Experiment) -> float:
        return recompute(self.lake, experiment)

    def maintain(self, experiment: Experiment) -> float:
        return maintain(self.lake, experiment)

    def left(self, experiments: Sequence[Experiment], size: float, number: int) -> Iterator[Timed]:
        parts = self.university.parts("stud", size / 100)
        for sign in ("⊕", "⊖"):
            self.university.update("stud", parts, sign)
            for e in experiments:
                yield self.timed(e, "left", size, number, "mtn", self.maintain(e))
                yield self.timed(e, "left", size, number, "rec", self.recompute(e))
        rows = self.university.rows("stud", size / 100)
        self.university.update("stud", rows, "⊖")
        self.lake.refresh(*(e.name for e in experiments), mode="strict")
        for e in experiments:
            yield self.timed(e, "left", size, number, "less", self.recompute(e))
        self.university.update("stud", rows, "⊕")
        for e in experiments:
            yield self.timed(e, "left", size, number, "inc", self.maintain(e))

    def right(self, experiment: Experiment, size: float, number: int) -> Iterator[Timed]:
        parts = self.university.parts(experiment.right, size / 100)
        for sign in ("⊕", "⊖"):
            self.university.update(experiment.right, parts, sign)
            yield self.timed(experiment, "right", size, number, "mtn", self.maintain(experiment))
        yield self.timed(experiment, "right", size, number, "rec", self.recompute(experiment))
        rows = self.university.rows(experiment.right, size / 100)
        self.university.update(experiment.right, rows, "⊖")
        self.lake.refresh(experiment.name, mode="strict")
        self.university.update(experiment.right, rows, "⊕")
        yield self.timed(experiment, "right", size, number, "inc", self.maintain(experiment))

    def timed(
        self, experiment: Experiment, operand: Operand, size: float, number: int, kind: Kind, seconds: float
    ) -> Timed:
        self.say(f"{experiment.name}, {size:g} % of its {operand} operand, round {number + 1}: {kind} {seconds:.2f} s")
        return Timed(experiment.name, operand, size, number, kind, seconds, self.university.students)
