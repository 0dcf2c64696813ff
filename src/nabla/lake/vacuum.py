"""Vacuum of a lake: every version of a source that a view reflects or a subscription knows is kept."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.keep import needed_versions
from nabla.storage import deltalog
from nabla.storage.vacuum import Vacuumed, vacuum

MOST_COMMITS = 2_000
"""Commits of a table that a vacuum reads for which nobody has asked."""


def vacuum_lake(context: LakeContext, dry_run: bool, older_than: datetime.timedelta) -> Vacuumed:
    """Delete files that no view, no subscription and no version younger than `older_than` needs."""
    context.log.refuse_here("a vacuum")
    keep = needed_versions(context, context.log.state())
    return vacuum(context.log, keep, grace=older_than.total_seconds(), dry_run=dry_run)


def vacuum_some(context: LakeContext, names: Collection[str], older_than: datetime.timedelta, most: int) -> Vacuumed:
    """The same for a few objects and a bounded number of files. Objects with so many commits since then that reading them all
    would take a while are left to a vacuum that somebody asks for."""
    state = context.log.state()
    keep, paths = needed_versions(context, state), set()
    for name in names:
        for part in state.entries[name].parts.values() if name in state.entries else ():
            if part.version - deltalog.oldest_version(context.log.folder(part)) <= MOST_COMMITS:
                paths.add(part.path)
    return vacuum(context.log, keep, grace=older_than.total_seconds(), only=paths, most=most)
