"""The logs of a lake trimmed: its own, and those of its tables, views, states and feeds."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.keep import needed_versions
from nabla.lake.housekeeping.settings import Retention, cutoff
from nabla.storage import locations, uncommitted
from nabla.storage.boundary import LOG, check_lake, check_table
from nabla.storage.catalog import LakeState, Part
from nabla.storage.machine import current
from nabla.storage.table import StoredTable
from nabla.storage.trim import Trimmed, trim


def trim_logs(
    context: LakeContext, history: Retention, names: Collection[str] | None = None, most: int | None = None
) -> Trimmed:
    """Delete what is older than the history that is kept, from the lake's log and those of all objects or the given ones.

    A version stays as long as a view reflects it, a subscription of this process knows it, or a writer that is at work may have
    begun with it. `most` bounds the number of files of each log.
    """
    log, state = context.log, context.log.state()
    before = cutoff(history, current().now())
    if before is None:
        return Trimmed()
    before = min(before, uncommitted.oldest_living(log.path) or before)
    check_lake(log.path)
    keep, done = needed_versions(context, state), Trimmed()
    for part in _own_parts(state, names):
        check_table(log.folder(part), log.path)
        done += trim(log.table(part.path), min(part.version, keep.get(part.path, part.version)), before, most=most)
    own = StoredTable(os.path.join(log.path, LOG))
    return done + trim(own, own.latest(), before, keeps_first=True, most=most)


def _own_parts(state: LakeState, names: Collection[str] | None) -> Iterator[Part]:
    for name, entry in state.entries.items():
        if names is None or name in names:
            yield from (p for p in entry.parts.values() if not locations.is_absolute(p.path) and p.pending is None)
