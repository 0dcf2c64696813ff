"""What maintaining and recomputing will take: from what the Delta log knows (rows of tables, changes and view) and from what
the view's refreshes took before; never from an extra Spark job.
"""

from __future__ import annotations

from collections.abc import Sequence

from nabla.algebra.nodes import At, Node, Scan
from nabla.calculus.stages import Staged
from nabla.planner.facts import Measured, ViewFacts
from nabla.planner.steps import Build, Estimate, Finish, Iterate, Produce, Recompute, Replace, Settle, Step, Touch

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
ALIKE = 2.0
"""Changes whose sizes differ by less than this factor are of one size."""


def incremental_cost(facts: ViewFacts, steps: tuple[Step, ...]) -> Estimate:
    rows = facts.source_rows
    # What a step reads of one version of a table serves for the other, and for all its terms.
    tables = [{scan.table for scan in _scans(step) if scan.at is not At.DELTA} for step in steps]
    read = sum(rows.get(table, 0) for read_by_step in tables for table in read_by_step)
    queries = sum(not isinstance(step, Finish) for step in steps)
    because = f"{queries} queries, {read} rows looked at"
    past = facts.measured("incremental")
    if not past:
        modelled = queries * QUERY_SECONDS + read / READ_ROWS_PER_SECOND + facts.changed_rows / CHANGE_ROWS_PER_SECOND
        return Estimate(modelled, because, untried=True)
    seconds, alike = _as_measured(past, facts.changed_rows)
    return Estimate(max(seconds, FASTEST), f"as measured, {because}", alike)


def _as_measured(past: Sequence[Measured], changed: int) -> tuple[float, bool]:
    """What this view's refreshes took, moved to the size of this change, and whether there was one of about this size.

    Of these the fastest of the last ones counts: whatever disturbs a measurement makes it slower. Otherwise it is the line
    between the next smaller and the next larger change, and beyond all of them the model's slope.
    """

    def moved(p: Measured) -> float:
        return p.seconds + (changed - p.changed_rows) / CHANGE_ROWS_PER_SECOND

    alike = [p for p in past if p.changed_rows / ALIKE <= changed <= p.changed_rows * ALIKE][-LEARNT_FROM:]
    if alike:
        return min(map(moved, alike)), True
    smaller = max((p for p in past if p.changed_rows < changed), key=lambda p: p.changed_rows, default=None)
    larger = min((p for p in past if p.changed_rows > changed), key=lambda p: p.changed_rows, default=None)
    if smaller and larger:
        share = (changed - smaller.changed_rows) / (larger.changed_rows - smaller.changed_rows)
        return smaller.seconds + share * (larger.seconds - smaller.seconds), False
    return min(moved(p) for p in (smaller, larger) if p), False


def full_cost(facts: ViewFacts, staged: Staged) -> Estimate:
    rows = sum(s.rows for s in facts.sources)
    built = facts.measured("full")[-LEARNT_FROM:]
    if built:
        seconds = min(p.seconds * max(1.0, rows) / max(1.0, p.source_rows) for p in built)
        return Estimate(max(seconds, FASTEST), f"as measured, {rows} source rows", measured=True)
    queries = 1 + len(staged.stages)
    seconds = queries * QUERY_SECONDS + (rows + facts.rows) / WORK_ROWS_PER_SECOND
    return Estimate(seconds, f"{queries} queries, {rows} source rows")


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
