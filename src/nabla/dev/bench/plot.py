"""Curves of measurements: the cost against the size of the change, and against the size of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nabla.dev.bench.duckdb_peer import DuckDB
from nabla.dev.bench.measure import Measurement, Summary, geometric_mean, summarize
from nabla.dev.bench.nested_limits import Curves
from nabla.dev.bench.nested_run import Kind
from nabla.dev.bench.suite import Suite
from nabla.dev.bench.university import Design
from nabla.errors import NablaError

_SCALES = ("#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e")
_COLOURS: Mapping[Kind, str] = {"rec": "#d62728", "less": "#ff9896", "inc": "#2ca02c", "mtn": "#1f77b4"}
_LINES: Mapping[Kind, str] = {"less": "rec after deletions"}


def draw_curves(suite: Suite, measurements: Sequence[Measurement], folder: Path, change: str, base: str) -> None:
    """The curves of a benchmark: against the size of the change for refreshes in the mode `change`, and against the size of
    the tables for those in the mode `base`."""
    by_mode: dict[str, list[Summary]] = {change: [], base: [], DuckDB.name: []}
    for summary in summarize(measurements):
        by_mode.setdefault(summary.asked, []).append(summary)
    draw_change(by_mode[change], by_mode[DuckDB.name], folder / f"{suite.name}-change.svg")
    draw_base(by_mode[base], suite.title, folder / f"{suite.name}-base.svg")


def draw_change(summaries: Sequence[Summary], by_duckdb: Sequence[Summary], path: Path) -> None:
    """The ratio of refresh to recompute against the size of the change; where a curve crosses one, recomputing wins. DuckDB's
    recompute is drawn beside it, as a mean over the views that it recomputed."""
    shown = [s for s in summaries if s.mode != "skip"]
    scales = sorted({s.scale for s in shown})
    figure = _figure(8, 5)
    axes = figure.subplots()
    for scale, colour in zip(scales, _SCALES * len(scales), strict=False):
        curves = _by_view((s.view, s.change, 1 / s.ratio) for s in shown if s.scale == scale)
        _all_and_mean(axes, curves, colour, f"scale {scale:g}, mean")
        peer = _by_view((s.view, s.change, 1 / s.ratio) for s in by_duckdb if s.scale == scale)
        if peer:
            points = zip(*_means(peer.values()), strict=True)
            axes.plot(
                *points, color=colour, linestyle=":", marker="s", label=f"scale {scale:g}, DuckDB recomputes, mean"
            )
    axes.axhline(1, color="#d62728", linewidth=1, linestyle="--", label="recompute and write")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("changed rows, percent")
    axes.set_ylabel("time over that of recomputing by Spark")
    axes.legend()
    _save(figure, path)


def draw_base(summaries: Sequence[Summary], title: str, path: Path) -> None:
    """Seconds against the size of the tables, for the change that was measured at the most scales."""
    kinds = [s.kind for s in summaries]
    shown = [s for s in summaries if s.mode != "skip" and s.kind == max(kinds, key=kinds.count)]
    figure = _figure(6, 4)
    axes = figure.subplots()
    scales_of: dict[float, set[float]] = {}
    for s in shown:
        scales_of.setdefault(round(s.scale * s.change, 9), set()).add(s.scale)
    if scales_of:
        size = max(scales_of, key=lambda one: len(scales_of[one]))
        same = [s for s in shown if round(s.scale * s.change, 9) == size]
        for what, colour, seconds in (
            ("recompute and write", "#d62728", [(s.view, s.scale, s.recompute_seconds) for s in same]),
            (
                f"refresh after a change of {size:g} % of scale 1",
                "#1f77b4",
                [(s.view, s.scale, s.refresh_seconds) for s in same],
            ),
        ):
            _all_and_mean(axes, _by_view(seconds), colour, what)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(f"{title} scale")
    axes.set_ylabel("seconds")
    axes.legend()
    _save(figure, path)


def _all_and_mean(axes: Any, curves: Mapping[str, Mapping[float, float]], colour: str, label: str) -> None:
    for curve in curves.values():
        axes.plot(*zip(*sorted(curve.items()), strict=True), color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(*zip(*_means(curves.values()), strict=True), color=colour, linewidth=2.5, marker="o", label=label)


def _by_view(points: Iterable[tuple[str, float, float]]) -> dict[str, dict[float, float]]:
    curves: dict[str, dict[float, float]] = {}
    for view, x, y in points:
        curves.setdefault(view, {})[x] = y
    return curves


def _means(curves: Iterable[Mapping[float, float]]) -> list[tuple[float, float]]:
    """The geometric means of all curves at each point."""
    values: dict[float, list[float]] = {}
    for curve in curves:
        for x, y in curve.items():
            values.setdefault(x, []).append(y)
    return [(x, geometric_mean(values[x])) for x in sorted(values)]


def draw_limits(found: Mapping[str, Curves], design: Design, path: Path) -> None:
    """The paper's figure 2, for every view: where the curves of rec and mtn cross is the maintenance limit."""
    shown = [e for e in design.experiments if e.name in found]
    columns = min(3, len(shown))
    figure = _figure(3.6 * columns, 3.1 * -(-len(shown) // columns))
    panels = figure.subplots(-(-len(shown) // columns), columns, squeeze=False).flat
    for experiment, axes in zip(shown, panels, strict=False):
        for kind, colour in _COLOURS.items():
            curve = found[experiment.name].curve(kind)
            if curve:
                axes.plot(
                    *zip(*curve, strict=True), color=colour, marker="o", markersize=3, label=_LINES.get(kind, kind)
                )
        axes.axvline(experiment.paper, color="0.6", linewidth=1, linestyle=":", label="limit in the paper")
        axes.set_title(experiment.title, fontsize=10)
        _against_size(axes)
    for axes in list(panels)[len(shown) :]:
        axes.set_visible(False)
    _save(figure, path)


def draw_right(found: Mapping[str, Curves], design: Design, path: Path) -> None:
    """The paper's figure 4: maintaining joins after updates of the relation that is joined."""
    figure = _figure(5, 3.6)
    axes = figure.subplots()
    for experiment in design.experiments:
        if experiment.name in found:
            curve = found[experiment.name].curve("mtn")
            level = " and ".join(experiment.level)
            axes.plot(*zip(*curve, strict=True), marker="o", markersize=3, label=f"mtn, level {level}")
    axes.axhline(1, color="#d62728", linewidth=1, linestyle="--", label="view creation")
    _against_size(axes)
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        raise NablaError(
            "NABLA_NO_MATPLOTLIB", "matplotlib is not installed", remedy="Install nabla-spark[bench]."
        ) from None
    rcParams["svg.hashsalt"] = "nabla"
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(
        path, metadata={"Date": None} if path.suffix == ".svg" else None
    )  # the same curves give the same file


def _against_size(axes: Any) -> None:
    axes.set_xlabel("size of the update, percent", fontsize=9)
    axes.set_ylabel("time over that of view creation", fontsize=9)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
