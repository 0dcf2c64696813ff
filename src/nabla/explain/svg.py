"""The plan of a view as a picture: operators from the view at the top down to its tables, in plain SVG."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from nabla.algebra.notation.formula import JOIN_SIGNS
from nabla.algebra.notation.words import plural
from nabla.explain.layout import Anchor, Box, arrange
from nabla.explain.notes import NodeNote, ReadNote, StageNote
from nabla.explain.text import versions

if TYPE_CHECKING:
    from nabla.explain.explanation import Explanation

# role: the colour of edge and border, of the background, and the text of the legend
COLOURS = {
    "change": ("#d97706", "#fff7e8", "the change passes through"),
    "recompute": ("#9333ea", "#faf3ff", "computed again"),
    "lookup": ("#2563eb", "#eff5ff", "looked up"),
    "rest": ("#9aa3af", "#f8f9fb", "not touched"),
    "state": ("#059669", "#ecfbf4", "stored state"),
}
INK, MUTED = "#1f2937", "#5b6472"
SANS = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MARGIN, PAD, LINE = 24.0, 12.0, 15.0
STATE_WIDTH, STATE_GAP = 176.0, 34.0
MOST_LINES = 3
SIGNS = {
    "Filter": ("σ", "filter"),
    "Project": ("π", "project"),
    "Aggregate": ("γ", "aggregate"),
    "Distinct": ("δ", "distinct"),
    "Window": ("ω", "window"),
    "TopK": ("τ", "top k"),
    "UnionAll": ("+", "union all"),
    "ExceptAll": ("∸", "except all"),
    "IntersectAll": ("∩", "intersect all"),
    "Generate": ("μ", "generate"),
    "Recursion": ("↻", "recursion"),
    "Scan": ("", "the level before"),
    "Constant": ("", "constants"),
    "Opaque": ("", "query"),
}


@dataclass(frozen=True)
class Line:
    text: str
    size: float = 11.5
    colour: str = INK
    bold: bool = False
    mono: bool = False

    @property
    def width(self) -> float:
        """A guess of the width, which is rather too large than too small, because the reader's font is not known."""
        if self.mono:
            return len(self.text) * self.size * 0.61
        return sum(0.72 if c.isupper() else 0.57 for c in self.text) * self.size * (1.08 if self.bold else 1.0)


@dataclass(frozen=True)
class Card:
    """A box with lines of text; `corner` is the text at the right of the first line."""

    lines: tuple[Line, ...]
    role: str
    title: str
    corner: str = ""
    table: bool = False

    @property
    def box(self) -> Box:
        first = self.lines[0].width + (len(self.corner) * 6.4 + 22 if self.corner else 0)
        width = max(128.0, first, *(line.width for line in self.lines)) + 2 * PAD
        return Box(width, len(self.lines) * LINE + 2 * PAD - 3 + (10 if self.table else 0))


def svg(e: Explanation) -> str:
    """The whole picture as an SVG document."""
    top = len(e.nodes)
    stages = {s.name: s for s in e.stages}
    cards = {n.id: _card(n, e) for n in e.nodes} | {top: _view_card(e)}
    children = {n.id: n.children for n in e.nodes} | {top: (top - 1,)}
    beside = {n.id: STATE_GAP + STATE_WIDTH for n in e.nodes if n.stage}
    boxes = {i: Box(c.box.width, c.box.height, beside.get(i, 0.0)) for i, c in cards.items()}
    layout = arrange(top, children, boxes)
    parts = []
    for parent, below in children.items():
        for i, child in enumerate(below):
            # A group that is computed again gives a change to its parent, unless the whole view is computed again.
            role = "change" if e.mode == "incremental" and cards[child].role == "recompute" else cards[child].role
            arrival = layout.places[parent].x + boxes[parent].width / 2 * ((i + 0.5) / len(below) - 0.5)
            end = Anchor(arrival, layout.places[parent].y + boxes[parent].height)
            parts.append(_edge(layout.places[child], end, role))
    for i, card in cards.items():
        parts.append(_draw_card(card, layout.places[i]))
    for n in e.nodes:
        if n.stage:
            parts.append(_state(stages[n.stage], layout.places[n.id], boxes[n.id]))
    used = [role for role in COLOURS if role in {c.role for c in cards.values()} or (role == "state" and stages)]
    legend, legend_width = _legend(used)
    width = max(layout.width, legend_width) + 2 * MARGIN
    height = layout.height + 2 * MARGIN + 34
    left = MARGIN + (width - 2 * MARGIN - layout.width) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="{SANS}" role="img">'
        f"<title>{escape(f'How the view {e.view} is kept')}</title>"
        f'<rect width="100%" height="100%" rx="10" fill="#ffffff"/>'
        f'<g transform="translate({left:.1f} {MARGIN})">{"".join(parts)}</g>'
        f'<g transform="translate({MARGIN} {height - MARGIN - 8:.1f})">{legend}</g></svg>\n'
    )


def _wrap(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][: width - 2] + " …"]
    return lines


def _card(n: NodeNote, e: Explanation) -> Card:
    if n.table:
        return _table_card(n, next(r for r in e.reads if r.stored.name == n.table))
    sign, word = SIGNS[n.operator] if not n.kind else (JOIN_SIGNS[n.kind], f"{n.kind} join")
    heading, detail = f"{sign} {word}".strip(), " ".join((n.detail, ", ".join(n.columns))).strip()
    lines = [Line(heading, 13, bold=True), *(Line(t) for t in _wrap(detail, 44))]
    lines += [Line(t, 10.5, MUTED, mono=True) for t in _wrap(n.law, 44)]
    rows = "" if n.rows is None else f"{n.rows:,} rows" if n.exact else f"~ {n.rows:,} rows"
    return Card(tuple(lines), n.role, f"{n.label}\n{n.law}\n{n.source}", rows)


def _table_card(n: NodeNote, read: ReadNote) -> Card:
    stored = read.stored
    what = COLOURS[n.role][0]
    lines = [
        Line(n.detail, 13, bold=True),
        Line(f"{versions(stored)}, {plural(stored.rows, 'row')}"),
        Line(f"{plural(stored.changed_rows, 'changed row')}" if stored.changed_rows else "unchanged", 11.5, what, True),
    ]
    lines += [Line(t, 10.5, MUTED) for t in _wrap(f"reads {', '.join(read.states)}" if read.states else "not read", 34)]
    lines += [Line(t, 10.5, MUTED) for t in _wrap(", ".join(n.columns), 34)]
    return Card(tuple(lines), n.role, f"{stored.kind} {stored.name}: {', '.join(read.columns)}", table=True)


def _view_card(e: Explanation) -> Card:
    role = {"incremental": "change", "full": "recompute", "skip": "rest"}[e.mode]
    lines = (Line(e.view, 15, bold=True), Line(f"next refresh: {e.mode}", 11.5, COLOURS[role][0], True))
    return Card(lines, role, e.reason, f"version {e.version}, {plural(e.rows, 'row')}")


def _draw_card(card: Card, place: Anchor) -> str:
    edge, fill, _ = COLOURS[card.role]
    box = card.box
    left, top = place.x - box.width / 2, place.y
    shape = _cylinder if card.table else _rectangle
    out = [f"<g><title>{escape(card.title)}</title>{shape(left, top, box.width, box.height, edge, fill)}"]
    y = top + PAD + 8 + (8 if card.table else 0)
    for line in card.lines:
        out.append(_text(left + PAD, y, line))
        y += LINE
    if card.corner:
        corner = Line(card.corner, 10.5, MUTED)
        out.append(_text(left + box.width - PAD, top + PAD + 8, corner, "end"))
    return "".join(out) + "</g>"


def _state(stage: StageNote, place: Anchor, box: Box) -> str:
    edge, fill, _ = COLOURS["state"]
    left, height = place.x + box.width / 2 + STATE_GAP, 62.0
    top = place.y + (box.height - height) / 2
    middle = place.y + box.height / 2
    lines = (
        Line(f"state {stage.name}", 12, edge, True),
        Line(f"{plural(stage.stored.rows, 'row')}, {plural(len(stage.state), 'column')}", 11),
        Line(stage.method, 10.5, MUTED),
    )
    keeps = f"{stage.name}: {stage.law}\nkeeps {', '.join(stage.state)}"
    out = [
        f"<g><title>{escape(keeps)}</title>",
        f'<path d="M{left - STATE_GAP:.1f} {middle:.1f}h{STATE_GAP:.1f}" stroke="{edge}" stroke-width="1.6" '
        'stroke-dasharray="4 3" fill="none"/>',
        _cylinder(left, top, STATE_WIDTH, height, edge, fill),
    ]
    out += [_text(left + PAD, top + 24 + i * 14, line) for i, line in enumerate(lines)]
    return "".join(out) + "</g>"


def _edge(start: Anchor, end: Anchor, role: str) -> str:
    """The line from the top of a child to the lower edge of its parent."""
    colour, middle = COLOURS[role][0], (start.y + end.y) / 2
    width = {"change": 3, "recompute": 3, "lookup": 1.8}.get(role, 1.2)
    dash = ' stroke-dasharray="5 4"' if role == "lookup" else ""
    curve = (
        f"M{start.x:.1f} {start.y:.1f}C{start.x:.1f} {middle:.1f} {end.x:.1f} {middle:.1f} {end.x:.1f} {end.y + 4:.1f}"
    )
    head = f"M{end.x - 4.5:.1f} {end.y + 8:.1f}L{end.x:.1f} {end.y:.1f}L{end.x + 4.5:.1f} {end.y + 8:.1f}Z"
    return (
        f'<path d="{curve}" stroke="{colour}" stroke-width="{width}"{dash} fill="none"/>'
        f'<path d="{head}" fill="{colour}"/>'
    )


def _rectangle(x: float, y: float, width: float, height: float, edge: str, fill: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7" fill="{fill}" '
        f'stroke="{edge}" stroke-width="1.5"/>'
    )


def _cylinder(x: float, y: float, width: float, height: float, edge: str, fill: str) -> str:
    rx, ry = width / 2, 6.0
    body = (
        f"M{x:.1f} {y + ry:.1f}v{height - 2 * ry:.1f}a{rx:.1f} {ry} 0 0 0 {width:.1f} 0v{-(height - 2 * ry):.1f}"
        f"a{rx:.1f} {ry} 0 0 0 {-width:.1f} 0a{rx:.1f} {ry} 0 0 0 {width:.1f} 0"
    )
    return f'<path d="{body}" fill="{fill}" stroke="{edge}" stroke-width="1.5"/>'


def _text(x: float, y: float, line: Line, anchor: str = "start") -> str:
    weight = ' font-weight="600"' if line.bold else ""
    family = f' font-family="{MONO}"' if line.mono else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{line.size}" fill="{line.colour}" text-anchor="{anchor}"'
        f"{weight}{family}>{escape(line.text)}</text>"
    )


def _legend(roles: list[str]) -> tuple[str, float]:
    parts, x = [], 0.0
    for role in roles:
        edge, fill, said = COLOURS[role]
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="13" height="13" rx="3" fill="{fill}" stroke="{edge}" stroke-width="1.5"/>'
        )
        parts.append(_text(x + 20, 10.5, Line(said, 11, MUTED)))
        x += 20 + len(said) * 6.3 + 24
    guess = "~ a rough guess"
    return "".join(parts) + _text(x, 10.5, Line(guess, 11, MUTED)), x + len(guess) * 6.3
