"""All housekeeping at once, for those who ask for it: `lake.optimize()`."""

from __future__ import annotations

from collections.abc import Sequence

from nabla.errors import Conflict
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.compaction import Compacted, Effort, compact_or_give_way
from nabla.lake.housekeeping.feeds import shorten_feeds
from nabla.lake.housekeeping.settings import load_settings
from nabla.lake.housekeeping.trimming import trim_logs
from nabla.lake.reports import Optimized, OptimizeReport

ATTEMPTS = 5
"""Other writers come first, so many times; then an object stays as it is."""
GAVE_WAY = "others wrote to it; optimize again"


def optimize(context: LakeContext, names: Sequence[str]) -> OptimizeReport:
    """Merge small files, shorten feeds and trim logs: of all objects, or of the given ones and the lake itself."""
    with context.events.run("optimize", names):
        return _optimize(context, names)


def _optimize(context: LakeContext, names: Sequence[str]) -> OptimizeReport:
    context.log.refuse_here("housekeeping")
    state, settings = context.log.state(), load_settings(context.log)
    wanted = [context.names(state).entry(name).name for name in names] or list(state.entries)
    wanted = [name for name in wanted if state.entries[name].kind != "registered"]
    reports: dict[str, Optimized] = {}
    for name in wanted:
        rows, notes = 0, []
        for _ in range(ATTEMPTS):
            try:
                rows = shorten_feeds(context, settings.feeds, [name]).get(name, 0)
                break
            except Conflict:
                continue
        done = compact_or_give_way(context, [name], Effort(), ATTEMPTS)
        if done is None:
            notes.append(GAVE_WAY)
        found = (done or {}).get(name, Compacted())
        if found.replaced or rows or notes:
            reports[name] = Optimized(name, found.replaced, found.written, found.saved_bytes, rows, "; ".join(notes))
    trimmed = trim_logs(context, settings.history, wanted if names else None)
    return OptimizeReport(reports, trimmed.files, trimmed.bytes)
