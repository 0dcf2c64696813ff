"""The maintenance limit of a view (Liu, Vincent 6.3): the share of changed rows from which on recomputing is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from nabla.calculus.stages import Staged
from nabla.planner.choose import costs
from nabla.planner.estimates import SourceFacts, ViewFacts

SHARES = (0.0001, 0.001, 0.01, 0.1, 0.3, 1.0)
"""The shares of changed rows at which both costs are compared first."""
_STEPS = 12
"""Halvings between the two shares where the costs cross."""


@dataclass(frozen=True)
class CostPoint:
    """The seconds of both ways after a change of this share of the rows."""

    share: float
    changed_rows: int
    maintain: float
    recompute: float

    @property
    def pays(self) -> bool:
        """Whether maintaining is the cheaper way."""
        return self.maintain <= self.recompute


def crossing(points: Collection[CostPoint]) -> float:
    """The share at which recomputing becomes cheaper, between the last point where maintaining pays and the next one; 1 if
    maintaining always pays, 0 if it never does."""
    below: CostPoint | None = None
    for point in sorted(points, key=lambda point: point.share):
        if not point.pays:
            return 0.0 if below is None else _between(below, point)
        below = point
    return 1.0 if below is not None else 0.0


def _between(pays: CostPoint, loses: CostPoint) -> float:
    """The share where the straight lines through two points cross."""
    gain, loss = pays.recompute - pays.maintain, loses.maintain - loses.recompute
    return pays.share + (loses.share - pays.share) * gain / (gain + loss)


def estimated_points(facts: ViewFacts, staged: Staged, changed: Collection[str]) -> list[CostPoint]:
    """The planner's estimates for growing changes of these sources, closer and closer to where they cross."""

    def at(share: float) -> CostPoint:
        after = _changed_by(facts, changed, share)
        found = costs(after, staged)
        return CostPoint(share, after.changed_rows, found["incremental"].seconds, found["full"].seconds)

    points = [at(share) for share in SHARES]
    return _refine(points, at)


def _refine(points: list[CostPoint], at: Callable[[float], CostPoint]) -> list[CostPoint]:
    loses = next((i for i, point in enumerate(points) if not point.pays), 0)
    if loses == 0:
        return points
    low, high = points[loses - 1], points[loses]
    for _ in range(_STEPS):
        middle = at((low.share + high.share) / 2)
        low, high = (middle, high) if middle.pays else (low, middle)
    return sorted([*points, low, high], key=lambda point: point.share)


def _changed_by(facts: ViewFacts, changed: Collection[str], share: float) -> ViewFacts:
    """The facts of a view after a change of a share of the rows of some sources: half of it deletions, half insertions."""

    def source(of: SourceFacts) -> SourceFacts:
        rows = max(1, round(of.rows * share)) if of.name in changed else 0
        return replace(of, inserted=rows - rows // 2, deleted=rows // 2, moved=rows > 0)

    return replace(facts, sources=tuple(map(source, facts.sources)))
