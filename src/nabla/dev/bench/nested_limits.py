"""Curves and maintenance limits from the measurements of nested views, beside those of the paper."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nabla.dev.bench.nested_run import Kind, Operand, Timed
from nabla.dev.bench.section import Section
from nabla.dev.bench.table24 import TABLE_24
from nabla.dev.bench.university import Design, Experiment


@dataclass(frozen=True)
class Limit:
    """The size of the update, in percent, at which maintaining costs as much as recomputing; `above` if it is larger than the
    largest measured one."""

    percent: float
    above: bool = False

    def __str__(self) -> str:
        return f"> {self.percent:g}" if self.above else f"{self.percent:.1f}"


@dataclass(frozen=True)
class Curves:
    """All measurements of one view with updates of one operand."""

    view: str
    operand: Operand
    timed: tuple[Timed, ...]
    creation: float
    """The seconds that creating the view took."""

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes that were measured completely: a run may have been interrupted."""
        return tuple(size for size in sorted({t.size for t in self.timed}) if self._rounds(size))

    def _rounds(self, size: float) -> set[int]:
        """The rounds in which a view was both maintained and recomputed."""
        maintained, recomputed = (
            {t.round for t in self.timed if (t.kind, t.size) == (k, size)} for k in ("mtn", "rec")
        )
        return maintained & recomputed

    def seconds(self, kind: Kind, size: float) -> float | None:
        """The median of all rounds."""
        found = [t.seconds for t in self.timed if t.kind == kind and t.size == size]
        return statistics.median(found) if found else None

    def curve(self, kind: Kind) -> list[tuple[float, float]]:
        """Seconds relative to those of view creation, against the update's size."""
        known = ((size, self.seconds(kind, size)) for size in self.sizes)
        return [(size, seconds / self.creation) for size, seconds in known if seconds is not None]

    def ratio(self, size: float) -> float:
        """The median over rounds of the time of maintaining divided by the time of recomputing."""
        return statistics.median(self._mean("mtn", size, n) / self._mean("rec", size, n) for n in self._rounds(size))

    def _mean(self, kind: Kind, size: float, number: int) -> float:
        return statistics.mean(t.seconds for t in self.timed if (t.kind, t.size, t.round) == (kind, size, number))

    @property
    def limit(self) -> Limit:
        """The size at which the curves of mtn and rec cross; measured sizes are joined by straight lines."""
        return _crossing([(size, self.ratio(size)) for size in self.sizes])

    @property
    def limit_of_deletion(self) -> Limit | None:
        """The size at which mtn crosses the falling line of figure 2: recomputing what is left after the share was deleted."""
        less, mtn = (dict(self.curve(kind)) for kind in ("less", "mtn"))
        points = [(size, mtn[size] / less[size]) for size in self.sizes if size in less]
        return _crossing(points) if points else None


def _crossing(points: Sequence[tuple[float, float]]) -> Limit:
    """The size at which a ratio becomes one."""
    for (low, before), (high, after) in zip([(0.0, 0.0), *points], points, strict=False):
        if after >= 1:
            if low == 0 and len(points) > 1 and points[1][1] > after:
                # The line of the first two, prolonged: not all costs grow with the size.
                (low, before), (high, after) = points[:2]
            return Limit(max(0.0, low + (high - low) * (1 - before) / (after - before)))
    return Limit(points[-1][0], above=True)


def curves(timed: Sequence[Timed], operand: Operand, design: Design = TABLE_24) -> dict[str, Curves]:
    """The curves by the names of the views, for views that were measured."""
    found = {}
    for experiment in design.experiments:
        own = tuple(t for t in timed if t.view == experiment.name and t.operand == operand and t.kind != "cre")
        creations = [t.seconds for t in timed if t.view == experiment.name and t.kind == "cre"]
        if own and creations:
            measured = Curves(experiment.name, operand, own, statistics.median(creations))
            if measured.sizes:
                found[experiment.name] = measured
    return found


def tables(timed: Sequence[Timed], design: Design = TABLE_24) -> str:
    """The seconds of every curve, the paper's figures 2 and 4, and its tables 25 and 26 beside the measured ones."""
    operands: tuple[Operand, ...] = ("left", "right")
    left, right = (curves(timed, operand, design) for operand in operands)
    pieces = [_seconds(left, "left"), _seconds(right, "right")]
    pieces += [section.text() for section in printed(timed, design)]
    return "\n\n".join(piece for piece in pieces if piece)


def printed(timed: Sequence[Timed], design: Design) -> list[Section]:
    """What the paper prints, with what was measured beside it: figures 2 and 4, tables 25 and 26."""
    left, right = curves(timed, "left", design), curves(timed, "right", design)
    tables = [_limits(title, operator, left, design) for title, operator in _TABLES] if left else []
    return [*figure_2(left, design), *figure_4(right), *tables]


def _seconds(found: dict[str, Curves], operand: Operand) -> str:
    if not found:
        return ""
    headings = ("view", "update %", "rec s", "less s", "inc s", "mtn s", "mtn / rec")
    kinds: tuple[Kind, ...] = ("rec", "less", "inc", "mtn")
    rows = [
        (c.view, f"{size:g}", *(c.seconds(kind, size) for kind in kinds), c.ratio(size))
        for c in found.values()
        for size in c.sizes
    ]
    return Section(f"Updates of the {operand} operand, medians", headings, rows).text()


def figure_2(left: dict[str, Curves], design: Design) -> list[Section]:
    """The paper's figure 2 for Q_s on the third level: times relative to view creation. The paper prints curves, not numbers;
    its text says where two of them are if half of the rows are deleted."""
    view = next((left[e.name] for e in design.experiments if e.name in left and _level(e) == "3"), None)
    if view is None:
        return []
    curve = {kind: dict(view.curve(kind)) for kind in _FIGURE_2}
    rows: list[tuple[object, ...]] = [("paper, 50 %", 0.5, 0.5, "above 0.5")]
    rows += [(f"here, {size:g} %", *(curve[kind].get(size) for kind in _FIGURE_2)) for size in view.sizes]
    headings = ("update", "rec of what is left", "inc", "mtn")
    return [Section("Figure 2: selection on level 3, times over that of view creation", headings, rows)]


_FIGURE_2: tuple[Kind, ...] = ("less", "inc", "mtn")


def figure_4(right: dict[str, Curves]) -> list[Section]:
    """The paper's figure 4: joins after updates of the relation that is joined, relative to view creation."""
    if not right:
        return []
    kinds: tuple[Kind, ...] = ("inc", "mtn")
    points = {(name, kind): dict(found.curve(kind)) for name, found in right.items() for kind in kinds}
    sizes = sorted({size for found in right.values() for size in found.sizes})
    rows: list[tuple[object, ...]] = [("paper, level 3", "inc", *["about 1"] * len(sizes))]
    rows += [(name, kind, *(curve.get(size) for size in sizes)) for (name, kind), curve in points.items()]
    title = "Figure 4: joins after updates of the right operand, times over that of view creation"
    return [Section(title, ("view", "line", *(f"{size:g} %" for size in sizes)), rows)]


_TABLES = (
    ("Table 25: maintenance limits for selection, percent", "selection"),
    ("Table 26: maintenance limits for join, percent", "join"),
)


def _limits(title: str, operator: str, found: dict[str, Curves], design: Design) -> Section:
    own = [e for e in design.experiments if e.operator == operator]
    rows = [
        ("paper", *(f"{e.paper:g}" for e in own)),
        ("here", *(str(found[e.name].limit) if e.name in found else "" for e in own)),
    ]
    falling = [found[e.name].limit_of_deletion if e.name in found else None for e in own]
    if any(falling):
        rows.append(("here, against rec of what is left", *("" if limit is None else str(limit) for limit in falling)))
    return Section(title, ("level", *map(_level, own)), rows)


def limits(timed: Sequence[Timed], design: Design = TABLE_24) -> Section:
    """All views, the paper's limits and ours, and how maintaining compares at every size."""
    left = curves(timed, "left", design)
    sizes = sorted({size for found in left.values() for size in found.sizes})
    rows: list[tuple[object, ...]] = []
    for e in design.experiments:
        if e.name in left:
            found = left[e.name]
            ratios = (found.ratio(size) if size in found.sizes else None for size in sizes)
            rows.append((e.title, f"{e.paper:g} %", f"{found.limit} %", f"{found.creation:.1f}", *ratios))
    headings = (
        "view",
        "limit in the paper",
        "limit here",
        "creation s",
        *(f"mtn / rec at {size:g} %" for size in sizes),
    )
    return Section(f"Maintenance limits, updates of the left operand{_settings(timed, design)}", headings, rows)


def _settings(timed: Sequence[Timed], design: Design) -> str:
    """How many students there were, and how often each time was taken, where that was recorded."""
    names = {e.name for e in design.experiments}
    own = [t for t in timed if t.view in names and t.students]
    if not own:
        return ""
    students = " and ".join(f"{n:,}" for n in sorted({t.students for t in own}))
    rounds = len({t.round for t in own})
    return f"; {students} students, {'one round' if rounds == 1 else f'medians of {rounds} rounds'}"


def _level(experiment: Experiment) -> str:
    return " and ".join(experiment.level)


def limits_json(timed: Sequence[Timed], design: Design = TABLE_24) -> str:
    left = curves(timed, "left", design)
    found: dict[str, list[float | None]] = {}
    for e in design.experiments:
        percent = round(left[e.name].limit.percent, 1) if e.name in left else None
        found.setdefault(e.operator, []).append(percent)
    return json.dumps({"limits": found})
