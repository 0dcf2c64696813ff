"""Skip, maintain or recompute: the planner's choice, with its reason.

Costs come from what the Delta log knows (rows of tables, changes and view) and from the view's own measured past; never
from an extra Spark job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.clock import CLOCK
from nabla.algebra.nodes import At, Node, Scan
from nabla.calculus.obstacles import Obstacle
from nabla.calculus.stages import Staged
from nabla.planner.maintain import maintenance, rebuilding
from nabla.planner.steps import (
    Build,
    Estimate,
    Finish,
    Iterate,
    Mode,
    Plan,
    Produce,
    Recompute,
    Replace,
    Settle,
    Size,
    Step,
    Touch,
)

QUERY_SECONDS = 0.25
"""What a small Spark query costs before it reads anything."""
READ_ROWS_PER_SECOND = 8_000_000.0
"""How fast a table is read when the change is looked up in it."""
WORK_ROWS_PER_SECOND = 1_500_000.0
"""How fast rows are joined, grouped and written when everything is computed."""
CHANGE_ROWS_PER_SECOND = 100_000.0
"""How fast rows of the change are propagated and applied."""
FASTEST = 0.05
"""No refresh is expected to take less."""
LEARNT_FROM = 3
"""Past refreshes of a kind that an estimate looks at."""
MARGIN = 1.25
"""Recomputing must promise to be this much faster to be preferred: estimates are rough, and a maintained view reads less."""
TINY_TABLES = 200_000
"""Below so many rows there is nothing to adapt to: Spark plans once and runs."""
LARGE_CHANGE = 400_000
"""From so many changed rows on nothing is collected on the driver or broadcast."""
LARGE_REPLACEMENT, LARGE_REPLACEMENT_BYTES = 1_000_000, 256 << 20
"""Changed rows, and bytes that they may take in the tables' files, up to which rows of a view are replaced by key on the
driver. Half of the changed rows are old versions, which nobody looks at."""


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
        """What the changed rows may take: as much as others."""
        return self.bytes * self.changed_rows / max(1, self.rows)

    @property
    def changed_rows(self) -> int:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class Measured:
    """A past refresh of this view; `cold` if it was the first of its kind in its process, when Spark is slow."""

    mode: str
    seconds: float
    changed_rows: int
    source_rows: int
    cold: bool = False


@dataclass(frozen=True)
class ViewFacts:
    name: str
    rows: int
    sources: tuple[SourceFacts, ...]
    past: tuple[Measured, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    must_rebuild: str = ""
    cold: frozenset[str] = frozenset()
    """The modes that this process has not yet refreshed the view in."""
    clock_moved: bool = False

    def measured(self, mode: str) -> list[Measured]:
        """Past refreshes to learn from: like is compared with like."""
        return [p for p in self.past if p.mode == mode and p.cold == (mode in self.cold)]

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(s.name for s in self.sources if s.changed_rows) | (
            {CLOCK} if self.clock_moved else frozenset()
        )

    @property
    def source_rows(self) -> dict[str, int]:
        return {s.name: s.rows for s in self.sources}

    @property
    def changes(self) -> str:
        """What changed, in words."""
        rows = [s.name for s in self.sources if s.changed_rows]
        said = [f"{self.changed_rows} changed rows in {_and(sorted(rows))}"] if rows else []
        gone = [s.name for s in self.sources if s.past_is_gone]
        said += (
            [f"the old state of {_and(gone)} was vacuumed and is taken as the new one less its change"] if gone else []
        )
        return "; ".join([*said, *["the clock moved"] * self.clock_moved])

    @property
    def changed_rows(self) -> int:
        return sum(s.changed_rows for s in self.sources)


def choose(facts: ViewFacts, staged: Staged, mode: Mode) -> Plan:
    moved = [s.name for s in facts.sources if s.moved]
    if facts.must_rebuild:
        return _full(facts, staged, facts.must_rebuild)
    if mode == "full":
        return _full(facts, staged, "asked for")
    if not moved and not facts.clock_moved:
        return Plan(facts.name, "skip", "no source changed", ())
    if not facts.changed:
        return Plan(facts.name, "incremental", f"{_and(moved)} moved on without a change of rows", ())
    if facts.obstacles:
        return _full(facts, staged, str(facts.obstacles[0]))
    staged = _by_key_or_not(facts, staged)
    steps = maintenance(staged, facts.changed, facts.source_rows)
    ours, theirs = _incremental_cost(facts, steps), _full_cost(facts, staged)
    if mode == "auto" and theirs.seconds * MARGIN < ours.seconds:
        return _full(facts, staged, f"recomputing is cheaper: {theirs}, maintaining {ours}", ours, theirs)
    why = (
        "cheaper than recomputing"
        if ours.seconds <= theirs.seconds
        else "asked for"
        if mode != "auto"
        else "about as cheap"
    )
    reason = f"{facts.changes}; {why}: {ours}, recomputing {theirs}"
    size = _size(facts, 0 if staged.keyed else facts.changed_rows)
    return Plan(facts.name, "incremental", reason, steps, facts.changed, ours, theirs, size)


def _by_key_or_not(facts: ViewFacts, staged: Staged) -> Staged:
    """A view whose rows could be replaced by key is maintained like any other where these are too many for the driver."""
    size = sum(s.changed_bytes for s in facts.sources)
    large = facts.changed_rows > LARGE_REPLACEMENT or size > LARGE_REPLACEMENT_BYTES
    return replace(staged, key=()) if large else staged


def costs(facts: ViewFacts, staged: Staged) -> dict[str, Estimate]:
    """What each way of refreshing would cost; maintaining only where something changed and there is a rule for it."""
    found = {}
    if facts.changed and not facts.obstacles and not facts.must_rebuild:
        steps = maintenance(_by_key_or_not(facts, staged), facts.changed, facts.source_rows)
        found["incremental"] = _incremental_cost(facts, steps)
    return found | {"full": _full_cost(facts, staged)}


def _full(
    facts: ViewFacts, staged: Staged, reason: str, ours: Estimate | None = None, theirs: Estimate | None = None
) -> Plan:
    size = _size(facts, facts.rows + sum(s.rows for s in facts.sources))
    return Plan(facts.name, "full", reason, rebuilding(staged), facts.changed, ours, theirs, size)


def _size(facts: ViewFacts, rows: int) -> Size:
    if rows > LARGE_CHANGE:
        return "large"
    return "tiny" if facts.rows + sum(s.rows for s in facts.sources) < TINY_TABLES else "small"


def _and(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _scans(step: Step) -> list[Scan]:
    queries: list[Node] = []
    match step:
        case Settle():
            queries = [step.query_if_none_lost]
        case Touch() | Produce() | Replace() | Build() | Recompute():
            queries = [step.query]
        case Iterate():
            queries = [*step.queries]
        case Finish():
            pass
    return [node for query in queries for node in query.walk() if isinstance(node, Scan)]


def _incremental_cost(facts: ViewFacts, steps: tuple[Step, ...]) -> Estimate:
    rows = facts.source_rows
    # What a step reads of one version of a table serves for the other, and for all its terms.
    tables = [{scan.table for scan in _scans(step) if scan.at is not At.DELTA} for step in steps]
    read = sum(rows.get(table, 0) for read_by_step in tables for table in read_by_step)
    queries = sum(not isinstance(step, Finish) for step in steps)
    modelled = queries * QUERY_SECONDS + read / READ_ROWS_PER_SECOND + facts.changed_rows / CHANGE_ROWS_PER_SECOND
    because = f"{queries} queries, {read} rows looked at"
    alike = [p for p in facts.measured("incremental") if p.changed_rows][-LEARNT_FROM:]
    if not alike:
        return Estimate(modelled, because)
    # What this view really took, moved along the model's slope to the size of this change. The fastest of the last ones:
    # whatever disturbs a measurement makes it slower.
    moved = (p.seconds + (facts.changed_rows - p.changed_rows) / CHANGE_ROWS_PER_SECOND for p in alike)
    return Estimate(max(min(moved), FASTEST), f"as measured, {because}")


def _full_cost(facts: ViewFacts, staged: Staged) -> Estimate:
    rows = sum(s.rows for s in facts.sources)
    built = facts.measured("full")[-LEARNT_FROM:]
    if built:
        seconds = min(p.seconds * max(1.0, rows) / max(1.0, p.source_rows) for p in built)
        return Estimate(max(seconds, FASTEST), f"as measured, {rows} source rows")
    queries = 1 + len(staged.stages)
    seconds = queries * QUERY_SECONDS + (rows + facts.rows) / WORK_ROWS_PER_SECOND
    return Estimate(seconds, f"{queries} queries, {rows} source rows")
