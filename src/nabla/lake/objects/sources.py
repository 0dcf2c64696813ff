"""What views read, as the lake's log has it: tables and views at a version, or between two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from nabla.engine.driver import key_lookup
from nabla.engine.relations import Source
from nabla.lake.objects.names import columns_of
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.key_counts import MOST_CHANGES, countable, key_counts, make_key_counts
from nabla.storage.names import safe
from nabla.storage.table import Snapshot

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


def current_source(lake: Lake, name: str, state: LakeState) -> Source:
    """A table or view as it is, without a change."""
    entry = state.entries[name]
    data = entry.parts["data"]
    version = lake._log.table(data).latest() if entry.kind == "registered" else data.version
    return make_source(lake, name, state, version, version)


def make_source(lake: Lake, name: str, state: LakeState, old: int, new: int) -> Source:
    entry = state.entries[name]
    table = lake._log.table(entry.parts["data"])
    feed = snapshot_of(lake, entry.parts["feed"]) if "feed" in entry.parts else None
    return Source(name, columns_of(entry), table, old, new, feed, _counted(entry))


def _counted(entry: Entry) -> frozenset[str]:
    """The stored columns of a table of the lake that are declared to be keys or foreign keys: joins will look them up."""
    if entry.kind != "table":
        return frozenset()
    names = StructType.fromJson(json.loads(entry.definition["schema"])).names
    declared = {*(entry.definition["key"] or ())[:1], *(entry.definition["foreign_keys"] or {})}
    return frozenset(stored for name, stored in zip(names, safe(names), strict=True) if name in declared)


def count_keys(lake: Lake, name: str, changed_rows: int) -> None:
    """Counts the declared keys of a table if they were not, or after a large change, which would take refreshes longer to
    add up. Refreshes then need not look up what a change shows."""
    state = lake._log.state()
    rows = state.entries[name].facts["rows"]
    if rows < key_lookup.SMALLEST:
        return
    source = current_source(lake, name, state)
    for column in source.counted:
        known = changed_rows <= MOST_CHANGES * rows and key_counts(source.table, column, source.new) is not None
        if not known and countable(source.after.schema.field(column).type):
            make_key_counts(source.table, column, source.after)


def snapshot_of(lake: Lake, part: Part) -> Snapshot:
    return lake._log.table(part).snapshot(part.version)
