"""Vacuum of a lake: every version of a source that a view reflects is kept."""

from __future__ import annotations

import datetime

from nabla.lake.context import LakeContext
from nabla.storage.vacuum import Vacuumed, vacuum


def vacuum_lake(context: LakeContext, dry_run: bool, older_than: datetime.timedelta) -> Vacuumed:
    """Delete files that no view and no version younger than `older_than` needs."""
    state = context.log.state()
    keep: dict[str, int] = {}
    for entry in state.entries.values():
        for source, version in entry.facts.get("sources", {}).items():
            path = state.entries[source].parts["data"].path
            keep[path] = min(version, keep.get(path, version))
    return vacuum(context.log, keep, grace=older_than.total_seconds(), dry_run=dry_run)
