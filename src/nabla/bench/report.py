"""What the measurements say together: the planner's choices, growth with the tables, builds, and peers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from nabla.bench.measure import BUILD, Measurement, Summary, geometric_mean, summarize, table
from nabla.results import text_table


@dataclass(frozen=True)
class Choice:
    """What the planner's own mode cost over the better of maintaining and recomputing."""

    scale: float
    change: float
    kind: str
    view: str
    mode: str
    ratio: float


def choices(summaries: Sequence[Summary]) -> list[Choice]:
    """Where all three were measured. Views that nothing had to be done for are left out."""
    seconds = {(s.scale, s.change, s.kind, s.view, s.asked): s.refresh_seconds for s in summaries}
    found = []
    for s in summaries:
        key = (s.scale, s.change, s.kind, s.view)
        others = [seconds[(*key, mode)] for mode in ("incremental", "full") if (*key, mode) in seconds]
        if s.asked == "auto" and s.mode != "skip" and len(others) == 2:
            found.append(Choice(*key, s.mode, s.refresh_seconds / min(others)))
    return found


def growth(summaries: Iterable[Summary], kind: str = "mixed", asked: str = "auto") -> dict[tuple[float, float], float]:
    """What the same change costs at a larger scale over what it costs at a smaller, as a mean over views."""
    by_scale: dict[float, dict[tuple[str, float], float]] = {}
    for s in summaries:
        if (s.kind, s.asked) == (kind, asked) and s.mode != "skip":
            by_scale.setdefault(s.scale, {})[s.view, round(s.scale * s.change, 9)] = s.refresh_seconds
    found = {}
    for small in by_scale:
        for large in by_scale:
            same = by_scale[small].keys() & by_scale[large].keys()
            if small < large and same:
                found[small, large] = geometric_mean([by_scale[large][key] / by_scale[small][key] for key in same])
    return found


def tables(measurements: Sequence[Measurement]) -> str:
    """Everything, as text."""
    summaries = summarize(measurements)
    refreshed = [s for s in summaries if s.asked != BUILD]
    pieces = [table(refreshed)] if refreshed else []
    pieces += [_builds([s for s in summaries if s.asked == BUILD])]
    pieces += [_choices(choices(summaries))]
    for (small, large), ratio in growth(summaries).items():
        pieces.append(f"the same change at scale {large:g} over scale {small:g}: {ratio:.2f} times the cost")
    return "\n\n".join(piece for piece in pieces if piece)


def _builds(summaries: Sequence[Summary]) -> str:
    if not summaries:
        return ""
    rows = [(s.view, s.refresh_seconds, s.recompute_seconds, 1 / s.ratio) for s in summaries]
    mean = geometric_mean([1 / s.ratio for s in summaries])
    headings = ("view", "built s", "Spark writes s", "ratio")
    return f"Initial builds\n{text_table(headings, rows)}\ngeometric mean of the ratios: {mean:.2f}"


def _choices(found: Sequence[Choice]) -> str:
    if not found:
        return ""
    rows = []
    for change, kind in dict.fromkeys((c.change, c.kind) for c in found):
        mine = [c for c in found if (c.change, c.kind) == (change, kind)]
        worst = max(mine, key=lambda c: c.ratio)
        recomputed = sum(c.mode == "full" for c in mine)
        mean = geometric_mean([c.ratio for c in mine])
        rows.append((f"{change:g}", kind, len(mine), recomputed, mean, worst.ratio, worst.view))
    headings = ("change %", "kind", "views", "recomputed", "mean", "worst", "view")
    return f"The planner's choice over the better of maintaining and recomputing\n{text_table(headings, rows)}"


def to_json(measurements: Sequence[Measurement]) -> str:
    summaries = summarize(measurements)
    refreshed = [s for s in summaries if s.asked != BUILD]
    said = {
        "mean": geometric_mean([s.ratio for s in refreshed]),
        "worst": min(s.ratio for s in refreshed),
        "views": [asdict(s) for s in summaries],
        "choices": [asdict(c) for c in choices(summaries)],
    }
    return json.dumps(said)
