"""Maintain or recompute: the planner's choice, with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nabla.algebra.notation.words import list_in_words
from nabla.calculus.by_key import bounding_tables, meets_changed
from nabla.calculus.stages import Staged
from nabla.planner.delta_steps import maintenance_steps, rebuild_steps
from nabla.planner.estimates import ViewFacts, full_cost, incremental_cost
from nabla.planner.steps import Estimate, Mode, Plan, Replace, Size, Step

MARGIN = 1.25
"""Recomputing must promise to be this much faster to be preferred: estimates are rough, and a maintained view reads less."""
MEASURED_MARGIN = 1.05
"""The same where both were measured after changes of this size."""
UNTRIED_MARGIN = 3.0
"""The same where the view was never maintained after a change of these tables and of about this size: nothing is learnt of
what is never tried."""
DOUBTFUL_MARGIN = 10.0
"""The same where it was measured only once, long ago: a disturbed measurement must not decide all later refreshes."""
TINY_TABLES = 200_000
"""Below so many rows there is nothing to adapt to: Spark plans once and runs."""
LARGE_CHANGE = 400_000
"""From so many changed rows on nothing is collected on the driver or broadcast."""
LARGE_REPLACEMENT, LARGE_REPLACEMENT_BYTES = 1_000_000, 256 << 20
"""Changed rows, and bytes that they may take in the tables' files, up to which rows of a view are replaced by key on the
driver. Half of the changed rows are old versions, which are not read."""


Derive = Callable[[Staged, frozenset[str], Mapping[str, int]], tuple[Step, ...]]
"""Makes the steps that maintain a view, from what changed and the sizes of its tables."""


def choose(facts: ViewFacts, staged: Staged, mode: Mode, derive: Derive = maintenance_steps) -> Plan:
    """The plan for a view after a source or the clock has moved: to maintain it or to recompute it."""
    moved = [s.name for s in facts.sources if s.moved]
    if facts.must_rebuild:
        return _full(facts, staged, facts.must_rebuild)
    if mode == "full":
        return _full(facts, staged, "asked for")
    if not facts.changed:
        return Plan(facts.name, "incremental", f"{list_in_words(moved)} moved on without a change of rows", ())
    if facts.obstacles:
        return _full(facts, staged, str(facts.obstacles[0]))
    staged = _drop_key_if_large(facts, staged)
    steps = _add_if_only_new(facts, staged, derive(staged, facts.changed, facts.source_rows))
    ours, theirs = incremental_cost(facts, staged, steps), full_cost(facts, staged)
    if mode == "auto" and theirs.seconds * _margin(ours, theirs) < ours.seconds:
        return _full(facts, staged, f"recomputing is cheaper: {theirs}, maintaining {ours}", ours, theirs)
    reason = f"{facts.changes}; {_why(ours, theirs, mode)}: {ours}, recomputing {theirs}"
    size = _size(facts, 0 if staged.keyed else facts.changed_rows)
    return Plan(facts.name, "incremental", reason, steps, facts.changed, ours, theirs, size)


def _margin(ours: Estimate, theirs: Estimate) -> float:
    if ours.untried:
        return UNTRIED_MARGIN
    if ours.doubtful:
        return DOUBTFUL_MARGIN
    return MEASURED_MARGIN if ours.measured and theirs.measured else MARGIN


def _why(ours: Estimate, theirs: Estimate, mode: Mode) -> str:
    if ours.seconds <= theirs.seconds:
        return "cheaper than recomputing"
    if mode != "auto":
        return "asked for"
    if ours.doubtful:
        return "tried once, and long ago"
    return "not tried yet" if ours.untried else "about as cheap"


def _drop_key_if_large(facts: ViewFacts, staged: Staged) -> Staged:
    """The view without its key if too many rows would be replaced for the driver; it is then maintained by rules."""
    rows, size = facts.changed_rows, sum(s.changed_bytes for s in facts.sources)
    if staged.keyed and meets_changed(staged.root, facts.changed):  # any row of the view may meet a changed one
        rows, size = facts.rows, sum(s.bytes for s in facts.sources)
    large = rows > LARGE_REPLACEMENT or size > LARGE_REPLACEMENT_BYTES
    return replace(staged, key=()) if large else staged


def _add_if_only_new(facts: ViewFacts, staged: Staged, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of a view that is computed key by key, in the limited standard form where it holds: if tables that have all
    keys of the view only got new ones, the view has none of these, and nothing of it has to be looked at."""
    changed = [s for s in facts.sources if s.changed_rows]
    match steps:
        case (Replace(met=None) as step,) if all(s.deleted == 0 for s in changed):
            if {s.name for s in changed} <= bounding_tables(staged.root):
                return (replace(step, only_new=True),)
    return steps


def costs(facts: ViewFacts, staged: Staged) -> dict[str, Estimate]:
    """The costs of recomputing a view, and of maintaining it if something changed and rules apply."""
    found = {}
    if facts.changed and not facts.obstacles and not facts.must_rebuild:
        steps = maintenance_steps(_drop_key_if_large(facts, staged), facts.changed, facts.source_rows)
        found["incremental"] = incremental_cost(facts, staged, steps)
    return found | {"full": full_cost(facts, staged)}


def _full(
    facts: ViewFacts, staged: Staged, reason: str, ours: Estimate | None = None, theirs: Estimate | None = None
) -> Plan:
    size = _size(facts, facts.rows + facts.all_rows)
    return Plan(facts.name, "full", reason, rebuild_steps(staged), facts.changed, ours, theirs, size)


def _size(facts: ViewFacts, rows: int) -> Size:
    if rows > LARGE_CHANGE:
        return "large"
    return "tiny" if facts.rows + facts.all_rows < TINY_TABLES else "small"
