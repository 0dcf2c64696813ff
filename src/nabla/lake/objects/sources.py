"""Tables and views as sources of a query: at the version that the lake's log names, or between two versions."""

from __future__ import annotations

from functools import lru_cache

from nabla.engine import types
from nabla.engine.driver import key_lookup
from nabla.engine.relations import Source
from nabla.lake.objects.graph import is_derived
from nabla.storage.altered_table import AlteredTable, eras_after, eras_of
from nabla.storage.catalog import ERAS, FEED_FROM, LOST_COLUMNS, REPLACED_COLUMNS, Entry, LakeState
from nabla.storage.copied_table import PIECES, CopiedTable
from nabla.storage.key_counts import MOST_CHANGES, countable, key_counts, make_key_counts
from nabla.storage.lakelog import LakeLog
from nabla.storage.names import safe
from nabla.storage.registered_table import RegisteredColumns, RegisteredTable
from nabla.storage.table import StoredTable


def table_of(log: LakeLog, entry: Entry, shows_lost: bool = False) -> StoredTable:
    """The Delta table of a table or view, with the columns that the lake knows. A registered table that has lost columns
    which views read cannot be read, unless for those that do not read them (`shows_lost`)."""
    table = log.table(entry.parts["data"])
    if PIECES in entry.parts:
        return CopiedTable(table)
    if entry.kind != "registered":
        if ERAS not in entry.definition:
            return table
        return AlteredTable(table, eras_of(entry.definition), columns_of(entry), stored_columns(entry))
    lost, replaced = (frozenset(entry.definition.get(key, ())) for key in (LOST_COLUMNS, REPLACED_COLUMNS))
    columns = RegisteredColumns(entry.definition["schema"], lost, replaced, shows_lost)
    return RegisteredTable(table, entry.name, columns)


def stored_columns(entry: Entry) -> tuple[str, ...]:
    """The columns of a table or view as its Delta table has them."""
    return tuple(entry.definition["stored"]) if is_derived(entry) else safe(columns_of(entry))


def columns_at(entry: Entry, version: int) -> tuple[str, ...]:
    """The columns of a table or view at one of its versions, as users called them then."""
    missed = eras_after(entry.definition, version)
    return missed[0].names if missed else columns_of(entry)


def columns_of(entry: Entry) -> tuple[str, ...]:
    """The columns of a table or view as users call them."""
    if is_derived(entry):
        return tuple(entry.definition["outputs"])
    return tuple(types.from_json(entry.definition["schema"]).names)


def current_version(log: LakeLog, entry: Entry) -> int:
    """The newest version of a table or view. Others write to a registered table, so its own log is asked."""
    return table_of(log, entry).latest() if entry.kind == "registered" else entry.parts["data"].version


def current_source(log: LakeLog, name: str, state: LakeState) -> Source:
    """A table or view at its newest version, without a change."""
    version = current_version(log, state.entries[name])
    return make_source(log, name, state, version, version)


def make_source(log: LakeLog, name: str, state: LakeState, old: int, new: int) -> Source:
    """A table or view at version `new`, with its change since version `old`."""
    entry = state.entries[name]
    feed = log.snapshot(entry.parts["feed"]) if "feed" in entry.parts else None
    begins = int(entry.facts.get(FEED_FROM, 0))
    return Source(name, columns_of(entry), table_of(log, entry, True), old, new, feed, _declared_keys(entry), begins)


def _declared_keys(entry: Entry) -> frozenset[str]:
    """The stored columns of a table of the lake that are declared to be keys or foreign keys: joins will look them up."""
    if entry.kind != "table":
        return frozenset()
    declared = {*(entry.definition["key"] or ())[:1], *(entry.definition["foreign_keys"] or {})}
    return _stored_names(entry.definition["schema"], frozenset(declared)) if declared else frozenset()


@lru_cache(maxsize=1024)
def _stored_names(schema: str, names: frozenset[str]) -> frozenset[str]:
    """The names under which some columns of a table are stored."""
    shown = types.from_json(schema).names
    return frozenset(stored for name, stored in zip(shown, safe(shown), strict=True) if name in names)


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
