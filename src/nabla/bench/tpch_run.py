"""The 22 TPC-H queries as views: rounds of changes, each view refreshed and recomputed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nabla
from nabla.bench import tpch
from nabla.bench.measure import Measurement, Summary, geometric_mean, measure_round, summarize
from nabla.planner.steps import Mode

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workload:
    """What is measured. `changes` are in percent of the orders, or of the customers, parts and suppliers; `rounds` are per
    size and kind of change and mode."""

    scale: float = 1.0
    changes: tuple[float, ...] = (0.1,)
    views: tuple[int, ...] = tpch.QUERIES
    rounds: int = 3
    modes: tuple[Mode, ...] = ("auto",)
    kinds: tuple[tpch.Kind, ...] = ("mixed",)
    place: tpch.Place = "scattered"
    verify: bool = False


@dataclass
class Outcome:
    workload: Workload
    measurements: list[Measurement] = field(default_factory=list)
    build_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def summaries(self) -> list[Summary]:
        return summarize(self.measurements)

    def to_json(self) -> str:
        mean = geometric_mean([s.ratio for s in self.summaries])
        worst = min(s.ratio for s in self.summaries)
        said = {"workload": asdict(self.workload), "mean": mean, "worst": worst, "builds": self.build_seconds}
        return json.dumps(said | {"views": [asdict(s) for s in self.summaries]})


def run(workload: Workload, data: Path, folder: Path, say: Say) -> Outcome:
    lake = nabla.open(folder / "tpch")
    say(f"loading TPC-H scale {workload.scale:g}")
    tpch.load(lake, tpch.generate(data, workload.scale))
    outcome = Outcome(workload)
    views = {tpch.view_name(n): tpch.query(n) for n in workload.views}
    for name, sql in views.items():
        report = lake.create_view(name, sql)
        outcome.build_seconds[name] = report.seconds
        say(f"built {name} in {report.seconds:.1f} s, {report.inserted} rows")
    rounds = itertools.product(workload.changes, workload.modes, workload.kinds, range(workload.rounds))
    for number, (change, mode, kind, _) in enumerate(rounds):
        changed = tpch.change(lake, change / 100, number, kind, workload.place)
        say(f"{change:g} % {kind}, {mode}: {changed}")
        outcome.measurements += measure_round(lake, views, change, kind, folder / "scratch", mode)
        if workload.verify:
            lake.verify()
            say("verified: every view equals its query")
    return outcome


def chosen(text: str) -> tuple[int, ...]:
    """`all`, or query numbers: `1,3,6` or `q01,q03`."""
    if text == "all":
        return tpch.QUERIES
    return tuple(int(part.strip().lower().removeprefix("q")) for part in text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
