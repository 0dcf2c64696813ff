"""Estimates of the time to maintain and to recompute a view, from the Delta log (rows of tables, changes and view) and from the
times of earlier refreshes; never from an extra Spark job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nabla.algebra.clock import CLOCK
from nabla.algebra.nodes import At
from nabla.algebra.notation.words import list_in_words
from nabla.calculus.obstacles import Obstacle
from nabla.calculus.stages import Staged
from nabla.planner.steps import Estimate, Step

QUERY_SECONDS = 0.25
"""The seconds that a small Spark query takes before it reads anything."""
READ_ROWS_PER_SECOND = 8_000_000.0
"""The speed of reading a table in which the change is looked up."""
WORK_ROWS_PER_SECOND = 1_500_000.0
"""The speed of joining, grouping and writing rows when the view is recomputed."""
CHANGE_ROWS_PER_SECOND = 100_000.0
"""The speed of propagating and applying rows of the change."""
FASTEST = 0.05
"""No refresh is expected to take less."""
COLD_SECONDS, COLD_TIMES = 3.0, 5.0
"""The first refresh of a process takes up to so much longer than later ones, and up to so many times as long. The estimate of
later ones is the least that this leaves: what is tried in vain is given up soon, what is never tried is never learnt."""
LEARNT_FROM = 3
"""Past refreshes of a kind that an estimate looks at."""
DOUBTED_AFTER = 10
"""Full refreshes after which a single measurement is doubted: it may have been disturbed."""
ALIKE = 2.0
"""Changes whose sizes differ by less than this factor are of one size."""


@dataclass(frozen=True)
class SourceFacts:
    """A source between the version that the view reflects and the current one."""

    name: str
    rows: int
    inserted: int
    deleted: int
    moved: bool
    bytes: int = 0
    past_is_gone: bool = False

    @property
    def changed_bytes(self) -> float:
        """An estimate of the bytes of the changed rows: each takes as many as an average row."""
        return self.bytes * self.changed_rows / max(1, self.rows)

    @property
    def changed_rows(self) -> int:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class Measured:
    """A past refresh of this view. It is `cold` if it was the first of its kind in its process, when Spark is slow."""

    mode: str
    seconds: float
    changed_rows: int
    source_rows: int
    cold: bool = False
    changed: tuple[str, ...] = ()
    """The sources that had changed, in order of their names: one may cost much more than another."""
    gave_up: bool = False
    """Whether it was given up: it would have taken longer than that, or more memory than there is."""


@dataclass(frozen=True)
class ViewFacts:
    """A view before a refresh: its size, its sources, its past refreshes, and reasons to recompute it."""

    name: str
    rows: int
    sources: tuple[SourceFacts, ...]
    past: tuple[Measured, ...] = ()
    """Past refreshes, oldest first."""
    obstacles: tuple[Obstacle, ...] = ()
    must_rebuild: str = ""
    cold: bool = False
    """Whether this process has not computed the view yet, in any mode."""
    clock_moved: bool = False

    def measured(self, mode: str) -> list[Measured]:
        """The past refreshes that estimates learn from: those of the same mode and sources, and cold ones only if the next
        refresh is cold. A process pays for a cold refresh once and for many warm ones, so warm ones must not be estimated
        from cold ones."""
        found = [p for p in self.past if p.mode == mode and p.cold == self.cold]
        return found if mode == "full" else [p for p in found if p.changed and p.changed == self.changed_sources]

    @property
    def changed_sources(self) -> tuple[str, ...]:
        return tuple(sorted(s.name for s in self.sources if s.changed_rows))

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(self.changed_sources) | ({CLOCK} if self.clock_moved else frozenset())

    @property
    def all_rows(self) -> int:
        """Rows of all sources together."""
        return sum(s.rows for s in self.sources)

    @property
    def source_rows(self) -> dict[str, int]:
        return {s.name: s.rows for s in self.sources}

    @property
    def changes(self) -> str:
        """The changes, in words."""
        rows = self.changed_sources
        said = [f"{self.changed_rows} changed rows in {', '.join(rows)}"] if rows else []
        gone = [s.name for s in self.sources if s.past_is_gone]
        said += (
            [f"the old state of {list_in_words(gone)} was vacuumed and is taken as the new one less its change"]
            if gone
            else []
        )
        return "; ".join([*said, *["the clock moved"] * self.clock_moved])

    @property
    def changed_rows(self) -> int:
        return sum(s.changed_rows for s in self.sources)


def incremental_cost(facts: ViewFacts, staged: Staged, steps: tuple[Step, ...]) -> Estimate:
    rows = facts.source_rows
    # A step reads a table once: the rows of one version serve for the other version and for all terms.
    tables = [{scan.table for scan in step.scans(as_a_rule=True) if scan.at is not At.DELTA} for step in steps]
    read = sum(rows.get(table, 0) for read_by_step in tables for table in read_by_step)
    queries = len(steps)
    because = f"{queries} queries, {read} rows looked at"
    past = facts.measured("incremental")
    if not past:
        modelled = queries * QUERY_SECONDS + read / READ_ROWS_PER_SECOND + facts.changed_rows / CHANGE_ROWS_PER_SECOND
        return Estimate(max(modelled * _speed(facts, staged), _warm_part(facts)), because, untried=True)
    seconds, alike = _interpolate(past, facts.changed_rows)
    doubtful = _is_doubtful(facts, _of_like_size(past, facts.changed_rows))
    return Estimate(max(seconds, FASTEST), f"as measured, {because}", alike, untried=not alike, doubtful=doubtful)


def _warm_part(facts: ViewFacts) -> float:
    """The seconds that a refresh after a change of this size takes at least, judging by the first one of a process."""
    cold = [p for p in facts.past if p.mode == "incremental" and p.changed and p.changed == facts.changed_sources]
    if not cold:
        return 0.0
    first, _ = _interpolate(cold, facts.changed_rows)
    return min(first - COLD_SECONDS, first / COLD_TIMES)


def _interpolate(past: Sequence[Measured], changed: int) -> tuple[float, bool]:
    """The seconds for a change of this size, from earlier refreshes of this view, and whether one was of like size.

    Of refreshes after a change of like size, the fastest of the last ones counts, because disturbances only make a refresh
    slower. Otherwise the time is interpolated between the next smaller and the next larger change. Beyond the largest change
    the time grows as it did up to there, or by the slope of the model if only one refresh was measured.
    """
    alike = _of_like_size(past, changed)
    if alike:
        return min(_move_to(p, changed) for p in alike), True
    smaller = max((p for p in past if p.changed_rows < changed), key=lambda p: p.changed_rows, default=None)
    larger = min((p for p in past if p.changed_rows > changed), key=lambda p: p.changed_rows, default=None)
    if smaller and larger:
        share = (changed - smaller.changed_rows) / (larger.changed_rows - smaller.changed_rows)
        return smaller.seconds + share * (larger.seconds - smaller.seconds), False
    if smaller:
        return _extrapolate(past, smaller.changed_rows, changed), False
    assert larger is not None
    return _move_to(larger, changed), False


def _of_like_size(past: Sequence[Measured], changed: int) -> list[Measured]:
    return [p for p in past if p.changed_rows / ALIKE <= changed <= p.changed_rows * ALIKE][-LEARNT_FROM:]


def _is_doubtful(facts: ViewFacts, alike: Sequence[Measured]) -> bool:
    if len(alike) != 1 or alike[0].gave_up:
        return False
    since = [p.mode for p in facts.past[facts.past.index(alike[0]) :]]
    return since.count("full") >= DOUBTED_AFTER


def _move_to(p: Measured, changed: int) -> float:
    return p.seconds + (changed - p.changed_rows) / CHANGE_ROWS_PER_SECOND


def _extrapolate(past: Sequence[Measured], largest: int, changed: int) -> float:
    """The seconds for a change beyond the largest that was measured: they grow by a power of its size, at most linearly."""
    last = min(_of_like_size(past, largest), key=lambda p: p.seconds)
    below = [p for p in past if p.changed_rows * ALIKE < last.changed_rows]
    if not below:
        return _move_to(last, changed)
    first = max(below, key=lambda p: p.changed_rows)
    times, sizes = last.seconds / max(first.seconds, FASTEST), last.changed_rows / first.changed_rows
    power = min(max(math.log(times) / math.log(sizes), 0.0), 1.0)
    return last.seconds * math.pow(changed / last.changed_rows, power)


def full_cost(facts: ViewFacts, staged: Staged) -> Estimate:
    built = _fastest_build(facts, facts.measured("full"))
    if built is not None:
        return Estimate(max(built, FASTEST), f"as measured, {facts.all_rows} source rows", measured=True)
    modelled = _model(facts, staged)
    because = f"{_queries(staged)} queries, {facts.all_rows} source rows"
    cold = _fastest_build(facts, [p for p in facts.past if p.mode == "full"])
    # The first refresh of a process is slower than later ones, so its time is an upper bound. It is not used if maintaining is
    # only modelled, too: then the two models are compared.
    if facts.measured("incremental") and cold is not None and cold < modelled:
        return Estimate(max(cold, FASTEST), f"less than the first took, {because}")
    return Estimate(modelled, because)


def _model(facts: ViewFacts, staged: Staged) -> float:
    """The modelled seconds of a full refresh, for a view without a measured one."""
    return _queries(staged) * QUERY_SECONDS + (facts.all_rows + facts.rows) / WORK_ROWS_PER_SECOND


def _queries(staged: Staged) -> int:
    return 1 + len(staged.stages)


def _speed(facts: ViewFacts, staged: Staged) -> float:
    """The measured time of recomputing divided by the modelled one. For this view on this machine, the model of maintaining
    is assumed to be wrong by the same factor."""
    built = _fastest_build(facts, facts.measured("full"))
    return 1.0 if built is None else max(built, FASTEST) / _model(facts, staged)


def _fastest_build(facts: ViewFacts, past: Sequence[Measured]) -> float | None:
    """The time of the fastest of the last full refreshes, scaled to the present number of rows."""
    taken = [p.seconds * max(1.0, facts.all_rows) / max(1.0, p.source_rows) for p in past[-LEARNT_FROM:]]
    return min(taken, default=None)
