"""Curves of what was measured: cost against the size of the change, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nabla.bench.measure import Summary, geometric_mean
from nabla.errors import NablaError


def draw(summaries: Sequence[Summary], path: Path, title: str) -> None:
    """The ratio of refresh to recompute against the size of the change; where a curve crosses one, recomputing wins."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NablaError("NABLA_NO_MATPLOTLIB", "matplotlib is not installed", remedy="Install nabla[bench].") from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    changes = sorted({s.change for s in summaries})
    for view in dict.fromkeys(s.view for s in summaries):
        mine = sorted((s.change, 1 / s.ratio) for s in summaries if s.view == view)
        axes.plot(*zip(*mine, strict=True), color="0.75", linewidth=0.8)
    means = [geometric_mean([1 / s.ratio for s in summaries if s.change == c]) for c in changes]
    axes.plot(changes, means, color="#1f77b4", linewidth=2.5, marker="o", label="geometric mean of all views")
    axes.axhline(1, color="#d62728", linewidth=1, linestyle="--", label="recompute and write")
    axes.set(xscale="log", yscale="log", title=title)
    axes.set_xlabel("changed orders, percent")
    axes.set_ylabel("refresh time over recompute time")
    axes.legend()
    figure.savefig(path)
