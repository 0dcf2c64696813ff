"""The maintenance limit: where the costs of maintaining and recomputing cross."""

from __future__ import annotations

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Scan
from nabla.calculus.stages import cut
from nabla.planner.estimates import Measured, SourceFacts, ViewFacts
from nabla.planner.limit import CostPoint, crossing, estimated_points


def point(share: float, maintain: float, recompute: float) -> CostPoint:
    return CostPoint(share, round(share * 1000), maintain, recompute)


def test_the_limit_is_where_the_lines_cross() -> None:
    assert crossing([point(0.1, 1.0, 2.0), point(0.3, 3.0, 2.0)]) == 0.2


def test_maintaining_that_always_pays_has_no_limit() -> None:
    assert crossing([point(0.1, 1.0, 2.0), point(1.0, 2.0, 2.0)]) == 1.0


def test_maintaining_that_never_pays_has_the_limit_zero() -> None:
    assert crossing([point(0.1, 3.0, 2.0), point(1.0, 1.0, 2.0)]) == 0.0


def test_the_estimate_finds_the_share_between_two_measured_sizes() -> None:
    view = cut(Scan("orders", At.NEW, (Column("id#1", "bigint"),), ("id",)))
    past = (
        Measured("full", 2.0, 0, 1_000_000),
        Measured("incremental", 1.0, 10_000, 1_000_000, changed=("orders",)),
        Measured("incremental", 3.0, 300_000, 1_000_000, changed=("orders",)),
    )
    sources = (SourceFacts("orders", 1_000_000, 0, 0, False), SourceFacts("parts", 10, 0, 0, False))
    points = estimated_points(ViewFacts("v", 1_000_000, sources, past), view, {"orders"})
    assert 0.1 < crossing(points) < 0.3
    assert all(point.changed_rows == max(1, round(point.share * 1_000_000)) for point in points)
