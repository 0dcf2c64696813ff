"""Beside the times of a benchmark: which views are exact, how good the planner's estimates were, what was recomputed and why,
and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from nabla.dev.bench.measure import Measurement
from nabla.dev.bench.section import Section
from nabla.planner.steps import Mode

FACTOR = 2
"""An estimate is good if the refresh took between a half and the double of it."""


def findings(measurements: Sequence[Measurement]) -> list[Section]:
    parts = (
        exactness(measurements),
        estimates(estimated(measurements)),
        recomputed(measurements),
        failures(measurements),
    )
    return [part for part in parts if part.rows]


def exactness(measurements: Sequence[Measurement]) -> Section:
    """How many views were what their query gives, in every round that was verified."""
    rows = []
    for setting, mine in _by_setting(measurements, lambda m: bool(m.verdict)).items():
        verdicts = {m.view: m.verdict for m in sorted(mine, key=lambda m: m.verdict != "exact")}
        counted = Counter(verdicts.values())
        others = ", ".join(f"{view} {verdict}" for view, verdict in verdicts.items() if verdict != "exact")
        rows.append((setting, len(verdicts), counted["exact"], others))
    return Section("Verified", ("setting", "views", "exact", "others"), rows)


@dataclass(frozen=True)
class Estimated:
    """The planner's estimate of one refresh over the time that it took."""

    setting: str
    view: str
    ratio: float

    @property
    def good(self) -> bool:
        return 1 / FACTOR <= self.ratio <= FACTOR


def estimated(measurements: Sequence[Measurement]) -> list[Estimated]:
    """The last estimate for each view and setting: by then the planner has seen all rounds but one."""
    last = {
        (m.setting, m.view): Estimated(m.setting, m.view, m.estimate / m.refresh_seconds)
        for m in measurements
        if m.estimate is not None and m.asked in get_args(Mode) and m.refresh_seconds
    }
    return list(last.values())


def estimates(found: Sequence[Estimated]) -> Section:
    rows = []
    for setting in dict.fromkeys(e.setting for e in found):
        mine = sorted((e for e in found if e.setting == setting), key=lambda e: e.ratio)
        good = sum(e.good for e in mine)
        low, high = mine[0], mine[-1]
        rows.append((setting, len(mine), good, low.ratio, low.view, high.ratio, high.view))
    headings = ("setting", "views", f"within a factor of {FACTOR}", "lowest", "view", "highest", "view")
    return Section("The planner's last estimate over the time that the refresh took", headings, rows)


def recomputed(measurements: Sequence[Measurement]) -> Section:
    """Views that were recomputed though that was not asked for."""
    rows: dict[tuple[str, str, str], None] = {}
    for setting, mine in _by_setting(measurements, lambda m: bool(m.reason)).items():
        rows |= {(setting, m.view, m.reason): None for m in mine}
    return Section("Recomputed", ("setting", "view", "reason"), list(rows))


def failures(measurements: Sequence[Measurement]) -> Section:
    counted = Counter((m.setting, m.view, m.problem) for m in measurements if m.problem)
    rows = [(*key, times) for key, times in counted.items()]
    return Section("Failures", ("setting", "view", "error", "times"), rows)


def _by_setting(
    measurements: Sequence[Measurement], wanted: Callable[[Measurement], bool]
) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for m in filter(wanted, measurements):
        found.setdefault(m.setting, []).append(m)
    return found
