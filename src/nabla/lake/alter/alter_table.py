"""Altering a table of the lake: its columns, the files that need it, and all views that read it, in one commit.

Columns that are added or dropped are a matter of the schema alone. Every reader of Delta takes columns from files by their
names, so that a file without a column has NULLs there. Renamed and widened columns, and those with a default, are
written into new files: Delta's column mapping and type widening would do without, but many readers refuse such tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from nabla.engine import intake, types
from nabla.errors import NablaError
from nabla.lake.alter.alteration import Alteration, SchemaChange, Wanted, read_alteration
from nabla.lake.alter.follow import new_key_texts, readers, refuse_loss
from nabla.lake.alter.follow_change import follow_change
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import quarantined_tables
from nabla.lake.objects.names import is_nested
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.refresh import Refresh
from nabla.lake.reports import Altered, AlterReport
from nabla.lake.write.commit import Commit, retry
from nabla.lake.write.generated import DEFAULTS, IDENTITIES
from nabla.storage import changes, files, locations, reading, schemas
from nabla.storage.altered_table import Era, added_columns, eras_of, marked_as_added
from nabla.storage.catalog import CLUSTER_BY, ERAS, ORIGIN, SAME_AS, Entry, LakeState, Part
from nabla.storage.deltalog import REARRANGED
from nabla.storage.files import DataFile
from nabla.storage.names import safe
from nabla.storage.statistics import Value
from nabla.storage.table import Snapshot


def alter_table(context: LakeContext, name: str, wanted: Wanted) -> AlterReport:
    """Change the columns of a table. Views that read it go on without being built again where their meaning is the same."""
    if wanted.parses:
        context.spark.session  # noqa: B018  # Spark reads types that are given as text
    _check(context, context.log.state(), name, wanted)
    try:
        _catch_up(context, name)
        with context.events.run("alter", [name]):
            return retry(context, lambda: _attempt(context, name, wanted))
    finally:
        context.subscriptions.deliver()


def _attempt(context: LakeContext, name: str, wanted: Wanted) -> AlterReport:
    state = context.log.state()
    entry, alteration = _check(context, state, name, wanted)
    with Commit(context, state) as commit:
        new = _new_entry(context, entry, alteration)
        keys = new_key_texts(entry, alteration.change, state)
        commit.put({entry.name: new}, {entry.name: {"altered": str(alteration.change)}})
        commit.put(_referring_tables(entry, alteration.change, commit.state), {})
        reports = follow_change(context, commit, alteration.change, new.parts["data"].version, keys)
        commit.follow()
        commit.check()
        commit.publish("alter table")
        commit.end_views()
    kept = Altered(entry.name, "altered", str(alteration.change), 0, 0, new.parts["data"].version)
    return AlterReport({entry.name: kept, **reports})


def _check(context: LakeContext, state: LakeState, name: str, wanted: Wanted) -> tuple[Entry, Alteration]:
    """The table, and its alteration, if it can be made and no view that reads the table is in the way."""
    entry = context.names(state).entry(name)
    _check_alterable(context, entry, state)
    alteration = read_alteration(entry.name, types.from_json(entry.definition["schema"]), wanted)
    _check_declared(entry, alteration.change, state)
    for reader in readers(state, entry.name):
        refuse_loss(load_view(reader.name, reader.definition), alteration.change)
    _defaults(entry, alteration, context.log.snapshot(entry.parts["data"]).rows)
    return entry, alteration


def _defaults(entry: Entry, alteration: Alteration, rows: int) -> dict[str, pa.Scalar]:
    """The values that all rows get in new columns, but for NULL."""
    added = [column for column in alteration.columns if column.origin is None]
    values = {column.field.name: _fit_default(column.field, column.default, entry, rows) for column in added}
    return {name: value for name, value in values.items() if value is not None}


def _check_alterable(context: LakeContext, entry: Entry, state: LakeState) -> None:
    if entry.kind != "table" or ORIGIN in entry.definition:
        remedy = "Use alter_view for a view. A registered table is altered by whoever writes it: the lake follows."
        raise NablaError(
            "NABLA_NOT_WRITABLE", f'"{entry.name}" is a {entry.kind}', place=f'"{entry.name}"', remedy=remedy
        )
    if is_nested(entry):
        why = "the columns of a nested table are the keys of its levels"
    elif entry.name in quarantined_tables(state) or entry.definition.get("quarantine"):
        why = "rows of it may be set aside in a quarantine, which has its columns"
    elif locations.is_url(context.path):
        why = "a lake at a URL cannot change the schema of a table yet"
    else:
        return
    remedy = "Create a table with the new columns, and insert the rows of this one."
    raise NablaError("NABLA_ALTER", why, place=f'table "{entry.name}"', remedy=remedy)


def _check_declared(entry: Entry, change: SchemaChange, state: LakeState) -> None:
    """Refuse to drop a column that a declared key or foreign key names, and to change one whose values are generated."""
    generated = {*(entry.definition.get(DEFAULTS) or {}), *(entry.definition.get(IDENTITIES) or {})}
    changed = [column for column in (*change.dropped, *change.renamed, *change.widened) if column in generated]
    if changed:
        raise NablaError(
            "NABLA_COLUMN_IN_USE",
            f'column "{changed[0]}" has a default, or is an identity column',
            place=f'table "{entry.name}"',
            remedy="Create a table with the new columns, and insert the rows of this one.",
        )
    own = f"{entry.name}.".casefold()
    named = dict.fromkeys(entry.definition.get("key") or (), "its key")
    for other in state.entries.values():
        for target in (other.definition.get("foreign_keys") or {}).values():
            if target.casefold().startswith(own):
                named[target[len(own) :]] = f'a foreign key of "{other.name}"'
    lost = next((column for column in change.dropped if column in named), None)
    if lost is not None:
        raise NablaError(
            "NABLA_COLUMN_IN_USE",
            f'column "{lost}" belongs to {named[lost]}',
            place=f'table "{entry.name}"',
            remedy="Create a table without it, and insert the rows of this one.",
        )


def _catch_up(context: LakeContext, name: str) -> None:
    """Refresh the views that lag behind a table, so that no refresh has to reach across the alteration. Those that are
    refreshed by hand stay, and are recomputed when it is their turn."""
    state = context.log.state()
    table = context.names(state).entry(name)
    version = table.parts["data"].version
    lagging = [
        entry.name
        for entry in readers(state, table.name)
        if entry.kind == "view"
        and entry.definition.get("maintain") != "manual"
        and entry.facts.get("sources", {}).get(table.name, version) != version
    ]
    if lagging:
        with context.events.run("refresh", lagging):
            Refresh(context, context.log.state(), "auto", holds_unreadable=True).run(lagging)


@dataclass(frozen=True)
class _Files:
    """The files that a table gains and loses by an alteration, and the schema that it gets."""

    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    schema: str


def _new_entry(context: LakeContext, entry: Entry, alteration: Alteration) -> Entry:
    """The altered table, with its files written."""
    snapshot = context.log.snapshot(entry.parts["data"])
    filled = _defaults(entry, alteration, snapshot.rows)
    done = _write(snapshot, entry, alteration, filled)
    metadata: dict[str, Any] = {changes.KEY: [], REARRANGED: True}
    part: Part = entry.parts["data"].advanced(done.adds, done.removes, metadata, schema=done.schema)
    before, change = alteration.before, alteration.change
    era = Era(part.version, tuple(before.names), safe(before.names), alteration.origin, _plain_values(filled))
    new = {old: column for column, old in alteration.origin.items()}
    foreign = {new[c]: to for c, to in (entry.definition["foreign_keys"] or {}).items() if c in new}
    declared = {
        "schema": alteration.after.json(),
        "key": [new[column] for column in entry.definition["key"] or ()],
        "foreign_keys": _renamed_targets(foreign, change),
        ERAS: [*(known.to_json() for known in eras_of(entry.definition)), era.to_json()],
    }
    clusters = [new[column] for column in entry.definition.get(CLUSTER_BY, ()) if column in new]
    definition = {**entry.definition, **declared, **({CLUSTER_BY: clusters} if CLUSTER_BY in entry.definition else {})}
    facts = {fact: value for fact, value in entry.facts.items() if fact != SAME_AS}
    return replace(entry, definition=definition, parts={**entry.parts, "data": part}, facts=facts)


def _fit_default(field: Any, value: object, entry: Entry, rows: int) -> pa.Scalar | None:
    """The value that all rows get in a new column, as it is stored; None if that is NULL."""
    place = f'table "{entry.name}"'
    if value is None:
        if not field.nullable and rows:
            remedy = f'Pass default={{"{field.name}": …}}, or leave out NOT NULL.'
            raise NablaError(
                "NABLA_ALTER", f'column "{field.name}" would be NULL in {rows} rows', place=place, remedy=remedy
            )
        return None
    if types.has_nested(types.to_stored(StructType([field]), ["x"])):
        remedy = "Add the column without a default, and fill it with update."
        raise NablaError(
            "NABLA_ALTER", f'column "{field.name}" is nested, and can have no default', place=place, remedy=remedy
        )
    shape = StructType([field])
    row = types.conform(intake.arrow_rows([(value,)], shape, entry.name), types.to_stored(shape, safe(shape.names)))
    return row.column(0)[0]


def _plain_values(filled: Mapping[str, pa.Scalar]) -> dict[str, Value]:
    return {name: scalar.as_py() for name, scalar in filled.items()}


def _write(snapshot: Snapshot, entry: Entry, alteration: Alteration, filled: Mapping[str, pa.Scalar]) -> _Files:
    before, after = alteration.before, alteration.after
    old, new = dict(zip(before.names, snapshot.schema.names, strict=True)), safe(after.names)
    stored = types.to_stored(after, new)
    used = {name for era in eras_of(entry.definition) for name in era.stored} | set(old.values())
    moves, added = bool(filled), []
    for column, place in zip(alteration.columns, new, strict=True):
        if column.origin is None:
            moves = moves or place in used  # older files may have another column of this name
            added.append(place)
        else:
            kinds = (types.to_stored(StructType([f]), ["x"]) for f in (before[column.origin], column.field))
            moves = moves or old[column.origin] != place or len(set(map(repr, kinds))) > 1
    if not moves:
        known = added_columns(snapshot.schema_json)
        return _Files((), (), marked_as_added(stored.json(), [*added, *(name for name in new if name in known)]))
    schema = schemas.arrow(stored.json())
    adds: list[DataFile] = []
    for file in snapshot.files:
        rows = reading.read_file(snapshot, file)
        columns = [
            _altered_column(rows, None if c.origin is None else old[c.origin], filled.get(c.field.name), field.type)
            for c, field in zip(alteration.columns, schema, strict=True)
        ]
        adds += files.write(snapshot.folder, pa.Table.from_arrays(columns, schema=schema), rows=max(rows.num_rows, 1))
    return _Files(tuple(adds), snapshot.files, stored.json())


def _altered_column(
    rows: pa.Table, origin: str | None, default: pa.Scalar | None, kind: pa.DataType
) -> pa.ChunkedArray:
    if origin is not None:
        return rows[origin] if rows[origin].type == kind else rows[origin].cast(kind)
    if default is None:
        return pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.chunked_array([pa.repeat(default.cast(kind), rows.num_rows)])


def _referring_tables(entry: Entry, change: SchemaChange, state: LakeState) -> dict[str, Entry]:
    """Other tables, whose foreign keys name columns of this one."""
    found = {}
    for other in state.entries.values():
        targets = other.definition.get("foreign_keys") or {}
        if other.name != entry.name and (new := _renamed_targets(targets, change)) != targets:
            found[other.name] = replace(other, definition={**other.definition, "foreign_keys": new})
    return found


def _renamed_targets(foreign_keys: Mapping[str, str], change: SchemaChange) -> dict[str, str]:
    def renamed(target: str) -> str:
        table, _, column = target.partition(".")
        own = table.casefold() == change.name.casefold()
        return f"{table}.{change.renamed.get(column, column)}" if own else target

    return {column: renamed(target) for column, target in foreign_keys.items()}
