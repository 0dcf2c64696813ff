"""Tables and views as sources of a query: at the version that the lake's log names, or between two versions."""

from __future__ import annotations

import json

from pyspark.sql.types import StructType

from nabla.engine.driver import key_lookup
from nabla.engine.relations import Source
from nabla.lake.objects.names import columns_of
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.key_counts import MOST_CHANGES, countable, key_counts, make_key_counts
from nabla.storage.lakelog import LakeLog
from nabla.storage.names import safe


def current_version(log: LakeLog, entry: Entry) -> int:
    """The newest version of a table or view. Others write to a registered table, so its own log is asked."""
    part = entry.parts["data"]
    return log.table(part).latest() if entry.kind == "registered" else part.version


def current_source(log: LakeLog, name: str, state: LakeState) -> Source:
    """A table or view at its newest version, without a change."""
    version = current_version(log, state.entries[name])
    return make_source(log, name, state, version, version)


def make_source(log: LakeLog, name: str, state: LakeState, old: int, new: int) -> Source:
    """A table or view at version `new`, with its change since version `old`."""
    entry = state.entries[name]
    feed = log.snapshot(entry.parts["feed"]) if "feed" in entry.parts else None
    return Source(name, columns_of(entry), log.table(entry.parts["data"]), old, new, feed, _declared_keys(entry))


def _declared_keys(entry: Entry) -> frozenset[str]:
    """The stored columns of a table of the lake that are declared to be keys or foreign keys: joins will look them up."""
    if entry.kind != "table":
        return frozenset()
    declared = {*(entry.definition["key"] or ())[:1], *(entry.definition["foreign_keys"] or {})}
    if not declared:
        return frozenset()
    names = StructType.fromJson(json.loads(entry.definition["schema"])).names
    return frozenset(stored for name, stored in zip(names, safe(names), strict=True) if name in declared)


def count_keys(log: LakeLog, name: str, changed_rows: int) -> None:
    """Count the declared keys of a table if nobody did yet, or after a large change, whose rows every refresh would have to
    add up. With counts, a refresh need not look up keys that cannot be in the table."""
    state = log.state()
    rows = state.entries[name].facts["rows"]
    if rows < key_lookup.SMALLEST:
        return
    source = current_source(log, name, state)
    for column in source.counted:
        known = changed_rows <= MOST_CHANGES * rows and key_counts(source.table, column, source.new) is not None
        if not known and countable(source.after.schema.field(column).type):
            make_key_counts(source.table, column, source.after)
