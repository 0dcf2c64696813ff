"""Feeds shortened: files with changes that are older than feeds are kept, and that all readers know, are left out."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import replace

from nabla.engine.feed import FEED_TIME, FEED_VERSION
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.keep import known_everywhere
from nabla.lake.housekeeping.settings import Retention, cutoff
from nabla.lake.write.commit import Commit
from nabla.storage.catalog import FEED_FROM, Entry, LakeState
from nabla.storage.files import DataFile
from nabla.storage.machine import current


def shorten_feeds(context: LakeContext, kept: Retention, names: Collection[str]) -> Mapping[str, int]:
    """Take old changes out of the feeds of these views, in one commit; the number of rows by view. Conflict where another
    commit has changed one of them."""
    before = cutoff(kept, current().now())
    state = context.log.state()
    entries = [e for name in names if (e := state.entries.get(name)) is not None and "feed" in e.parts]
    found = {e.name: old for e in entries if before is not None and (old := _old_files(context, state, e, before))}
    if not found:
        return {}
    with Commit(context, state) as commit:
        for name, old in found.items():
            entry, rows = state.entries[name], sum(file.rows for file in old)
            upto = max(int(str(file.maximum[FEED_VERSION])) for file in old)
            facts = {**entry.facts, FEED_FROM: max(upto, entry.facts.get(FEED_FROM, 0))}
            parts = {**entry.parts, "feed": entry.parts["feed"].advanced(removes=old)}
            reason = f"{rows} rows up to version {upto} left the feed"
            said = {"version": entry.parts["data"].version, "inserted": 0, "deleted": 0, "reason": reason}
            commit.put({name: replace(entry, parts=parts, facts=facts)}, {name: said})
        commit.publish("optimize")
    return {name: sum(file.rows for file in old) for name, old in found.items()}


def _old_files(context: LakeContext, state: LakeState, view: Entry, before: float) -> tuple[DataFile, ...]:
    if any(part.pending for part in view.parts.values()):
        return ()
    known = known_everywhere(context, state, view)
    return tuple(f for f in context.log.snapshot(view.parts["feed"]).files if _is_old(f, known, before))


def _is_old(file: DataFile, known: int, before: float) -> bool:
    version, time = file.maximum.get(FEED_VERSION), file.maximum.get(FEED_TIME)
    if not isinstance(version, int) or not isinstance(time, datetime.datetime):
        return False
    moment = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return version <= known and moment.timestamp() < before
