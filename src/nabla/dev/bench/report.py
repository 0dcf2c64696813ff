"""A report of measurements: ratios, the planner's choices, growth with the tables, builds, and peers."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

from nabla.dev.bench.findings import estimated, findings
from nabla.dev.bench.measure import BUILD, Measurement, Summary, geometric_mean, summarize
from nabla.dev.bench.section import Section
from nabla.planner.steps import Mode


@dataclass(frozen=True)
class Ratios:
    """The time of recomputing over the time of refreshing, for all views of one setting."""

    summaries: tuple[Summary, ...]

    @property
    def mean(self) -> float:
        return geometric_mean([s.ratio for s in self.summaries])

    @property
    def worked(self) -> tuple[Summary, ...]:
        """Without the views that read no table that changed."""
        return tuple(s for s in self.summaries if s.mode != "skip")

    @property
    def worst(self) -> Summary:
        return min(self.summaries, key=lambda s: s.ratio)

    @property
    def of_worked(self) -> float | None:
        return geometric_mean([s.ratio for s in self.worked]) if self.worked else None

    def __str__(self) -> str:
        said = f"geometric mean of the ratios: {self.mean:.2f}, worst {self.worst.ratio:.2f} ({self.worst.view})"
        skipped = len(self.summaries) - len(self.worked)
        if not skipped or not self.worked:
            return said
        return f"{said}; {self.of_worked:.2f} without the {skipped} views that nothing was to be done for"


def sections(measurements: Sequence[Measurement]) -> list[Section]:
    """All sections of the report."""
    settings = by_setting(measurements)
    found = [views(setting, ratios) for setting, ratios in settings.items()]
    if len(settings) > 1:
        found.append(overview(settings))
    return found + together(measurements) + findings(measurements)


def together(measurements: Sequence[Measurement], change: float | None = None) -> list[Section]:
    """All sections but the ratios and findings; peers view by view for all sizes of change, or for one."""
    followed = followers(measurements)
    parts = (
        builds(measurements),
        peers([f for f in followed if change in (None, f.change)]),
        peer_means(followed),
        planner(choices(measurements)),
        growth_section(measurements),
    )
    return [part for part in parts if part.rows]


def tables(measurements: Sequence[Measurement]) -> str:
    return "\n\n".join(section.text() for section in sections(measurements))


def by_setting(measurements: Sequence[Measurement]) -> dict[str, Ratios]:
    """Refreshes by Nabla, for each scale, size and kind of change, and mode."""
    refreshed = [s for s in summarize(measurements) if s.asked in get_args(Mode)]
    names = dict.fromkeys(s.setting for s in refreshed)
    return {name: Ratios(tuple(s for s in refreshed if s.setting == name)) for name in names}


def views(setting: str, ratios: Ratios) -> Section:
    headings = ("view", "mode", "refresh s", "recompute s", "ratio", "jobs", "rows read", "recompute reads")
    rows = [list(vars(s).values())[: len(headings)] for s in ratios.summaries]
    return Section(setting, headings, rows, str(ratios))


def overview(settings: dict[str, Ratios]) -> Section:
    headings = ("setting", "views", "ratio", "of views that changed", "worst", "view")
    rows = [(name, len(r.summaries), r.mean, r.of_worked, r.worst.ratio, r.worst.view) for name, r in settings.items()]
    return Section("Recomputing over refreshing, geometric means", headings, rows)


def builds(measurements: Sequence[Measurement]) -> Section:
    found = [s for s in summarize(measurements) if s.asked == BUILD]
    rows = [(f"{s.scale:g}", s.view, s.refresh_seconds, s.recompute_seconds, 1 / s.ratio) for s in found]
    note = f"geometric mean of the ratios: {geometric_mean([1 / s.ratio for s in found]):.2f}" if found else ""
    return Section("Initial builds", ("scale", "view", "built s", "Spark writes s", "ratio"), rows, note)


@dataclass(frozen=True)
class Follower:
    """A peer's time and Nabla's for one view, after the same changes."""

    peer: str
    view: str
    scale: float
    change: float
    kind: str
    peer_seconds: float
    seconds: float

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    @property
    def setting(self) -> str:
        return f"scale {self.scale:g}, {self.change:g} % {self.kind}"


def followers(measurements: Sequence[Measurement]) -> list[Follower]:
    """The peers of views that changed, beside the planner's own choice; beside another mode if that was not measured."""
    summaries = summarize(measurements)
    ours: dict[tuple[float, float, str, str], Summary] = {}
    for s in summaries:
        if s.asked == "auto" or (s.asked in get_args(Mode) and _change(s) not in ours):
            ours[_change(s)] = s
    return [
        Follower(s.asked, s.view, s.scale, s.change, s.kind, s.refresh_seconds, ours[_change(s)].refresh_seconds)
        for s in summaries
        if s.asked not in (*get_args(Mode), BUILD) and _change(s) in ours and ours[_change(s)].mode != "skip"
    ]


def peers(found: Sequence[Follower]) -> Section:
    """The time of peers divided by the time of Nabla after the same change."""
    rows = [(f"{f.scale:g}", f"{f.change:g}", f.view, f.peer, f.peer_seconds, f.seconds, f.ratio) for f in found]
    return Section("Peers", ("scale", "change %", "view", "peer", "peer s", "Nabla s", "ratio"), rows)


def peer_means(found: Sequence[Follower]) -> Section:
    rows = []
    for peer, setting in dict.fromkeys((f.peer, f.setting) for f in found):
        mine = [f for f in found if (f.peer, f.setting) == (peer, setting)]
        worst = min(mine, key=lambda f: f.ratio)
        rows.append((peer, setting, len(mine), geometric_mean([f.ratio for f in mine]), worst.ratio, worst.view))
    headings = ("peer", "setting", "views that changed", "mean", "worst", "view")
    return Section("Time of peers over that of a refresh, geometric means", headings, rows)


def _change(s: Summary) -> tuple[float, float, str, str]:
    return s.scale, s.change, s.kind, s.view


@dataclass(frozen=True)
class Choice:
    """The mode that the planner chose, and its cost divided by that of the better mode."""

    scale: float
    change: float
    kind: str
    view: str
    mode: str
    ratio: float


def choices(measurements: Iterable[Measurement]) -> list[Choice]:
    """The choices for views with measurements of both modes. Skipped views are left out.

    The planner's own refreshes count for the mode that they used: choosing the better mode is no loss, even if it took a
    little longer than at another time.
    """
    found: dict[tuple[float, float, str, str], list[Measurement]] = {}
    for m in measurements:
        if m.asked in get_args(Mode) and m.mode != "skip":
            found.setdefault((m.scale, m.change, m.kind, m.view), []).append(m)
    chosen = []
    for key, mine in found.items():
        seconds = {mode: [m.refresh_seconds for m in mine if m.mode == mode] for mode in ("incremental", "full")}
        own = [m.mode for m in mine if m.asked == "auto"]
        if own and all(seconds.values()):
            median = {mode: statistics.median(times) for mode, times in seconds.items()}
            mode = statistics.mode(own)
            chosen.append(Choice(*key, mode, median[mode] / min(median.values())))
    return chosen


def planner(found: Sequence[Choice]) -> Section:
    rows = []
    for scale, change, kind in dict.fromkeys((c.scale, c.change, c.kind) for c in found):
        mine = [c for c in found if (c.scale, c.change, c.kind) == (scale, change, kind)]
        worst = max(mine, key=lambda c: c.ratio)
        recomputed = sum(c.mode == "full" for c in mine)
        mean = geometric_mean([c.ratio for c in mine])
        rows.append((f"{scale:g}", f"{change:g}", kind, len(mine), recomputed, mean, worst.ratio, worst.view))
    headings = ("scale", "change %", "kind", "views", "recomputed", "mean", "worst", "view")
    return Section("The planner's choice over the better of maintaining and recomputing", headings, rows)


def growth(
    summaries: Iterable[Summary], kinds: tuple[str, ...] = ("mixed", "facts"), asked: str = "auto"
) -> dict[tuple[float, float, float], float]:
    """The cost of a change at a larger scale over the cost of the same change at a smaller one, as a mean over views;
    by both scales and the size of the change in percent of the smaller tables."""
    by_scale: dict[tuple[float, float], dict[str, float]] = {}
    for s in summaries:
        if s.kind in kinds and s.asked == asked and s.mode != "skip":
            by_scale.setdefault((s.scale, round(s.scale * s.change, 9)), {})[s.view] = s.refresh_seconds
    found = {}
    for (small, size), before in by_scale.items():
        for (large, same), after in by_scale.items():
            views = before.keys() & after.keys()
            if small < large and size == same and views:
                found[small, large, round(size / small, 9)] = geometric_mean([after[v] / before[v] for v in views])
    return found


def growth_section(measurements: Sequence[Measurement]) -> Section:
    found = growth(summarize(measurements))
    rows = [(f"{small:g}", f"{large:g}", f"{size:g}", ratio) for (small, large, size), ratio in found.items()]
    headings = ("scale", "larger scale", "change % of the smaller", "cost at the larger over cost at the smaller")
    return Section("The same change of tables of different sizes", headings, rows)


def to_json(measurements: Sequence[Measurement]) -> str:
    refreshed = [s for ratios in by_setting(measurements).values() for s in ratios.summaries]
    said: dict[str, object] = {
        "views": [asdict(s) for s in summarize(measurements)],
        "choices": [asdict(c) for c in choices(measurements)],
        "peers": [asdict(f) | {"ratio": f.ratio} for f in followers(measurements)],
        "estimates": [asdict(e) for e in estimated(measurements)],
        "verdicts": dict(Counter(m.verdict for m in measurements if m.verdict)),
        "problems": [{"view": m.view, "setting": m.setting, "problem": m.problem} for m in measurements if m.problem],
    }
    if refreshed:
        said |= {"mean": Ratios(tuple(refreshed)).mean, "worst": Ratios(tuple(refreshed)).worst.ratio}
    return json.dumps(said)
