"""Drawings of the past, as SVG that takes its colours from the page: the refreshes of a view, and a timeline of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from markupsafe import Markup

from nabla.console.commits import PastRefresh
from nabla.console.words import moment, number, seconds

WIDTH, HEIGHT = 760.0, 240.0
WIDE = 1240.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 12.0, 14.0, 30.0
LANE, NAMES = 26.0, 170.0
MOST_LANES = 40
Scale = Callable[[float], float]


def history_plot(refreshes: Sequence[PastRefresh]) -> Markup:
    """Seconds of each refresh of one view as bars in the order of time, rows changed as dots, and a line for what recomputing
    was expected to take. The scale is logarithmic: maintaining often takes a hundredth of recomputing."""
    shown = list(reversed(refreshes))[-60:]
    if not shown:
        return Markup("")
    costs = [one.seconds for one in shown] + [one.recompute for one in shown if one.recompute]
    y = _log_scale(min(costs), max(costs), HEIGHT - BOTTOM, TOP)
    step = (WIDTH - LEFT - RIGHT) / len(shown)
    parts = [*_grid(min(costs), max(costs), y)]
    line, most = [], max((one.changed for one in shown), default=0)
    for place, one in enumerate(shown):
        x = LEFT + step * (place + 0.5)
        width = min(26.0, step * 0.62)
        top = y(max(one.seconds, 0.001))
        said = f"{moment(one.at)}: {_words(one)}. {one.reason}"
        parts.append(
            f'<g class="bar m-{_mode_class(one.mode)}"><title>{escape(said)}</title>'
            f'<rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{HEIGHT - BOTTOM - top:.1f}" rx="3"/></g>'
        )
        if one.changed and most:
            radius = 2.5 + 5 * math.sqrt(one.changed / most)
            parts.append(
                f'<circle class="rows" cx="{x:.1f}" cy="{HEIGHT - 13:.1f}" r="{radius:.1f}">'
                f"<title>{escape(f'{number(one.changed)} rows changed')}</title></circle>"
            )
        if one.recompute:
            line.append((x, y(one.recompute)))
    if line:
        points = " ".join(f"{x:.1f},{at:.1f}" for x, at in line)
        parts.append(
            f'<polyline class="estimate" points="{points}"><title>recomputing, as estimated</title></polyline>'
        )
        parts += [f'<circle class="estimate-dot" cx="{x:.1f}" cy="{at:.1f}" r="2.5"/>' for x, at in line]
    parts.append(f'<text class="axis" x="{LEFT - 8}" y="{HEIGHT - 9}" text-anchor="end">rows</text>')
    label = f"Seconds of the last {len(shown)} refreshes, and what recomputing was expected to take"
    return _svg(WIDTH, HEIGHT, label, parts)


def timeline(refreshes: Sequence[PastRefresh]) -> Markup:
    """Refreshes on a line for each view, in the order of the commits; gaps in time are cut, so that work stays visible."""
    views = list(dict.fromkeys(one.view for one in refreshes))[:MOST_LANES]
    shown = [one for one in reversed(refreshes) if one.view in set(views)]
    if not shown:
        return Markup("")
    lanes = {view: place for place, view in enumerate(views)}
    x, ticks = _time_scale(shown)
    height = TOP + LANE * len(views) + 26
    parts = []
    for view, place in lanes.items():
        top = TOP + LANE * place
        parts.append(
            f'<g class="lane" data-view="{escape(view)}"><line x1="{NAMES}" x2="{WIDE - RIGHT}" y1="{top + LANE / 2:.1f}" '
            f'y2="{top + LANE / 2:.1f}"/><text x="{NAMES - 10}" y="{top + LANE / 2 + 4:.1f}" text-anchor="end">'
            f"{escape(_cut(view, 23))}</text></g>"
        )
    for at, label in ticks:
        parts.append(
            f'<line class="tick" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{height - 24:.1f}"/>'
            f'<text class="axis" x="{at:.1f}" y="{height - 8:.1f}" text-anchor="middle">{escape(label)}</text>'
        )
    for one in shown:
        begin, end = x(one.began), x(one.at)
        width = max(4.0, end - begin)
        top = TOP + LANE * lanes[one.view] + 6
        said = f"{one.view}: {_words(one)}, {moment(one.at)}"
        parts.append(
            f'<g class="bar m-{_mode_class(one.mode)}" data-view="{escape(one.view)}" data-mode="{escape(one.mode)}">'
            f"<title>{escape(said)}</title>"
            f'<rect x="{end - width:.1f}" y="{top:.1f}" width="{width:.1f}" height="{LANE - 12:.1f}" rx="3"/></g>'
        )
    return _svg(WIDE, height, f"Timeline of {len(shown)} refreshes of {len(views)} views", parts)


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> Markup:
    kind = "plot wide" if width == WIDE else "plot"
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _mode_class(mode: str) -> str:
    return mode if mode in ("incremental", "full", "skip", "held", "ahead", "reload") else "other"


def _words(one: PastRefresh) -> str:
    return f"{one.mode}, {seconds(one.seconds)}, +{number(one.inserted)} −{number(one.deleted)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _log_scale(low: float, high: float, bottom: float, top: float) -> Scale:
    low, high = math.log10(max(low, 0.001) / 2), math.log10(max(high, 0.002) * 1.3)
    span = max(high - low, 0.3)

    def scale(value: float) -> float:
        return bottom - (math.log10(max(value, 0.001)) - low) / span * (bottom - top)

    return scale


def _grid(low: float, high: float, y: Scale) -> list[str]:
    """Lines at powers of ten, or between them if there are few."""
    first, last = math.floor(math.log10(max(low, 0.001) / 2)), math.ceil(math.log10(max(high, 0.002) * 1.3))
    steps = (1, 3) if last - first <= 2 else (1,)
    marks = [mark * 10.0**power for power in range(first, last + 1) for mark in steps]
    return [
        f'<line class="tick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
        f'<text class="axis" x="{LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{escape(seconds(mark))}</text>'
        for mark in marks
        if TOP - 1 <= y(mark) <= HEIGHT - BOTTOM + 1
    ]


GAP = 30.0
"""Seconds without work beyond which a timeline is cut."""


def _time_scale(shown: Sequence[PastRefresh]) -> tuple[Scale, list[tuple[float, str]]]:
    """The places of moments on the timeline, with marks where its pieces begin. Time without work takes a little room only."""
    pieces: list[list[float]] = []
    for begin, end in sorted((one.began, one.at) for one in shown):
        if pieces and begin - pieces[-1][1] <= GAP:
            pieces[-1][1] = max(pieces[-1][1], end)
        else:
            pieces.append([begin, end])
    pieces = pieces[-12:]
    cut = 14.0
    room = WIDE - NAMES - RIGHT - cut * (len(pieces) - 1)
    weights = [math.sqrt(max(end - begin, 0.5)) for begin, end in pieces]
    widths = [room * weight / sum(weights) for weight in weights]
    starts = [NAMES + sum(widths[:place]) + cut * place for place in range(len(pieces))]

    def scale(at: float) -> float:
        for (begin, end), start, width in zip(pieces, starts, widths, strict=True):
            if at <= end:
                return start + width * max(0.0, at - begin) / max(end - begin, 0.5)
        return WIDE - RIGHT

    ticks, last = [], -100.0
    for (begin, _), start in zip(pieces, starts, strict=True):
        if start - last >= 50:
            ticks.append((start, moment(begin)[11:16]))
            last = start
    return scale, ticks
