"""Curves of what was measured: cost against the size of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nabla.bench.measure import Summary, geometric_mean
from nabla.bench.nested_limits import Curves
from nabla.bench.nested_run import Kind
from nabla.bench.university import EXPERIMENTS
from nabla.errors import NablaError

_COLOURS: Mapping[Kind, str] = {"rec": "#d62728", "inc": "#2ca02c", "mtn": "#1f77b4"}


def draw(summaries: Sequence[Summary], path: Path, title: str) -> None:
    """The ratio of refresh to recompute against the size of the change; where a curve crosses one, recomputing wins."""
    figure = _figure(8, 5)
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


def draw_limits(found: Mapping[str, Curves], path: Path) -> None:
    """The paper's figure 2, for every view: where the curves of rec and mtn cross is the maintenance limit."""
    shown = [e for e in EXPERIMENTS if e.name in found]
    columns = min(3, len(shown))
    figure = _figure(3.6 * columns, 3.1 * -(-len(shown) // columns))
    panels = figure.subplots(-(-len(shown) // columns), columns, squeeze=False).flat
    for experiment, axes in zip(shown, panels, strict=False):
        for kind, colour in _COLOURS.items():
            curve = found[experiment.name].curve(kind)
            if curve:
                axes.plot(*zip(*curve, strict=True), color=colour, marker="o", markersize=3, label=kind)
        axes.axvline(experiment.paper, color="0.6", linewidth=1, linestyle=":", label="limit in the paper")
        axes.set_title(f"{experiment.operator} on level {' and '.join(experiment.level)}", fontsize=10)
        _against_size(axes)
    for axes in list(panels)[len(shown) :]:
        axes.set_visible(False)
    figure.savefig(path)


def draw_right(found: Mapping[str, Curves], path: Path) -> None:
    """The paper's figure 4: maintaining joins after updates of the relation that is joined."""
    figure = _figure(5, 3.6)
    axes = figure.subplots()
    for name, curves in found.items():
        level = " and ".join(name.rpartition("_")[2])
        axes.plot(*zip(*curves.curve("mtn"), strict=True), marker="o", markersize=3, label=f"mtn, level {level}")
    axes.axhline(1, color="#d62728", linewidth=1, linestyle="--", label="view creation")
    _against_size(axes)
    figure.savefig(path)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        raise NablaError("NABLA_NO_MATPLOTLIB", "matplotlib is not installed", remedy="Install nabla[bench].") from None
    rcParams["svg.hashsalt"] = "nabla"  # the same curves make the same file
    return Figure(figsize=(width, height), layout="constrained")


def _against_size(axes: Any) -> None:
    axes.set_xlabel("size of the update, percent", fontsize=9)
    axes.set_ylabel("time over that of view creation", fontsize=9)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
