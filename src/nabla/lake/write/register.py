"""Registering sources: tables of others that the lake reads, in place or by way of a copy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from nabla.engine import types
from nabla.engine.spark.meaning import meaning, zone_of
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.names import check_columns, key_of
from nabla.lake.objects.origins import Known, describe_table, is_copy, is_delta_by_path, restore
from nabla.lake.objects.sources import table_of
from nabla.lake.refresh.create import Built, create
from nabla.sources.files import Files, files_origin, with_rescued
from nabla.sources.iceberg import Iceberg
from nabla.sources.port import Definition, Origin, Position
from nabla.sources.query import own_rows
from nabla.storage import files, locations
from nabla.storage.catalog import LISTED, ORIGIN, Entry, LakeState, Part
from nabla.storage.copied_table import PIECE, PIECES
from nabla.storage.foreign_files import path_of
from nabla.storage.locations import is_inside
from nabla.storage.names import safe
from nabla.storage.table import StoredTable

Location = str | os.PathLike[str]


@dataclass(frozen=True)
class Sought:
    """What a user registers: exactly one kind of source, and for files what they are."""

    path: Location | None = None
    table: str | None = None
    iceberg: str | None = None
    files: Location | None = None
    query: str | None = None
    schema: str | StructType | None = None
    format: str | None = None
    options: Mapping[str, str] | None = None
    bad_rows: str | None = None

    def check(self) -> None:
        """Refuse none or several kinds of sources, and what belongs to files for another kind."""
        kinds = ("path", "table", "iceberg", "files", "query")
        said = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(said) != 1:
            raise NablaError(
                "NABLA_ARGUMENT",
                f"a source is named in one way, not by {' and '.join(said)}" if said else "no source is named",
                place="register",
                remedy=f"Pass one of {', '.join(f'{kind}=' for kind in kinds)}.",
            )
        of_files = ("schema", "format", "options", "bad_rows")
        if self.files is None and (other := next((n for n in of_files if getattr(self, n) is not None), None)):
            raise NablaError("NABLA_ARGUMENT", f"only files have {other}=", place=f"{other}=", remedy="Leave it out.")


@dataclass(frozen=True)
class RegisteredDefinition:
    """A Delta table that others write, to be read only. Registered again, it has the columns that were added since.
    `listed` is its name in a catalog, which then has to stand for the same table."""

    name: str
    table: StoredTable
    key: str | Sequence[str] | None
    listed: str = ""

    def build(self, context: LakeContext, state: LakeState) -> Built:
        snapshot = self.table.snapshot()
        existing = context.names(state).find(self.name)
        if existing is not None and existing.kind == "registered" and existing.parts["data"].path == self.table.folder:
            table_of(context.log, existing).snapshot()  # readers go on, so no column of theirs may be gone
            key = self.key or existing.definition["key"]
        else:
            context.names(state).check_new(self.name)
            key = self.key
        keys = key_of(key, types.from_json(snapshot.schema_json), f'table "{self.name}"')
        definition = {"schema": snapshot.schema_json, "key": keys, "foreign_keys": {}}
        if self.listed:
            definition[LISTED] = self.listed
        entry = Entry(self.name, "registered", definition, {"data": Part(self.table.folder, snapshot.version)})
        return Built({self.name: entry}, {self.name: {"path": self.table.folder}})


@dataclass(frozen=True)
class CopyDefinition:
    """A source that the lake copies: with its first rows."""

    name: str
    definition: Definition
    schema: StructType | None
    key: str | Sequence[str] | None

    def build(self, context: LakeContext, state: LakeState) -> Built:
        context.names(state).check_new(self.name)
        origin = restore(context, self.definition)
        with context.translating(f'table "{self.name}"'):
            entry = self._copied(context, origin)
        said = {"inserted": entry.facts["rows"], "deleted": 0, "source": origin.place}
        return Built({self.name: entry}, {self.name: said})

    def _copied(self, context: LakeContext, origin: Origin) -> Entry:
        position, what = origin.look({}), f'table "{self.name}"'
        refuse_own(context, position)
        shape = self._shape(origin, position)
        types.check_storable(shape, what)
        check_columns(shape.names, what)
        if PIECE in (name.casefold() for name in shape.names):
            raise NablaError(
                "NABLA_RESERVED_COLUMN", f'"{PIECE}" is a name that Nabla uses', place=what, remedy="Rename it."
            )
        keys = key_of(self.key, shape, what)
        pieces = position.pieces or {}
        numbers = {name: number for number, name in enumerate(sorted(pieces))}
        stored = types.to_stored(shape, safe(shape.names))
        physical = stored if position.pieces is None else StructType([*stored.fields, StructField(PIECE, LongType())])
        path, staging = context.log.new_path(self.name), context.log.new_staging()
        try:
            read = origin.write(position, shape, None if position.pieces is None else numbers, staging)
            adds = files.adopt(staging, context.log.folder(path)) if locations.exists(staging) else ()
        finally:
            locations.remove_folder(staging)
        StoredTable.create(context.log.folder(path), physical.json(), adds, marks_rows=context.log.marks_rows)
        parts = {"data": Part(path, 0)}
        if position.pieces is not None:
            parts[PIECES] = _new_pieces(context, self.name, Known(pieces, numbers))
        definition = {"schema": shape.json(), "key": keys, "foreign_keys": {}, ORIGIN: self.definition}
        rows = sum(file.rows for file in adds)
        copied = {"seconds": 0.0, "read_bytes": read, "pieces": len(pieces)}
        facts = {"rows": rows, ORIGIN: {**stands_at(position), "next": len(numbers), "last": copied}}
        return Entry(self.name, "table", definition, parts, facts)

    def _shape(self, origin: Origin, position: Position) -> StructType:
        if self.schema is not None:
            types.check_declared(self.schema, f'table "{self.name}"')
        if not isinstance(origin, Files):
            return position.schema
        given = self.schema if self.schema is not None else origin.infer(position)
        return with_rescued(origin, types.nullable(given))


def stands_at(position: Position) -> dict[str, Any]:
    return {"identity": position.identity, "version": position.version}


def refuse_own(context: LakeContext, position: Position) -> None:
    """Refuse a source with files of the lake itself."""
    own = next((name for name in position.pieces or () if is_inside(path_of(name), context.path)), None)
    if own is not None:
        raise in_own_folder(own)


def in_own_folder(place: str) -> NablaError:
    return NablaError(
        "NABLA_PATH",
        "the lake cannot register what is in its own folder",
        place=place,
        remedy="Read its tables by their names, and register what comes from elsewhere.",
    )


def register(context: LakeContext, name: str, sought: Sought, key: str | Sequence[str] | None) -> None:
    """Take a table of others into the lake."""
    sought.check()
    if sought.path is not None:
        _register_delta(context, name, StoredTable(sought.path), key)
        return
    if sought.table is not None:
        described = describe_table(context, sought.table)
        if described.location and is_inside(path_of(described.location), context.path):
            raise own_rows(f"table {sought.table}")
        if is_delta_by_path(described):
            table = StoredTable(path_of(described.location))
            _register_delta(context, name, table, key, described.name)
            return
    schema = _schema(context, sought.schema)
    definition = _definition(context, sought)
    state = context.log.state()
    existing = context.names(state).find(name)
    replaced: set[str] = set()
    if existing is not None and is_copy(existing) and _same_source(existing.definition[ORIGIN], definition):
        replaced = {existing.name}
        key = key or existing.definition["key"]
    made = CopyDefinition(existing.name if existing and replaced else name, definition, schema, key)
    definitions = [_Again(made, existing)] if existing and replaced else [made]
    create(context, state, "register", definitions, replaced=frozenset(replaced))


def _schema(context: LakeContext, schema: str | StructType | None) -> StructType | None:
    """The columns that a user gives. Spark parses texts, so a session must be there for one."""
    return types.parse(schema) if isinstance(schema, str) and context.spark.session else schema  # type: ignore[return-value]


def _register_delta(
    context: LakeContext, name: str, table: StoredTable, key: str | Sequence[str] | None, listed: str = ""
) -> None:
    if is_inside(table.folder, context.path):
        raise in_own_folder(table.folder)
    create(context, context.log.state(), "register", [RegisteredDefinition(name, table, key, listed)])


def _definition(context: LakeContext, sought: Sought) -> Definition:
    """What the lake stores of a source, once its arguments were checked."""
    if sought.files is not None:
        workspace = partial(context.spark.workspace, "large")
        origin = files_origin(
            sought.files,
            sought.format,
            sought.options,
            sought.bad_rows or "error",
            workspace,
            lambda: zone_of(meaning(context.spark.session)),
        )
        if is_inside(origin.pattern.base, context.path):
            raise in_own_folder(origin.place)
        return origin.to_json()
    if sought.table is not None:
        return {"kind": "table", "table": sought.table}
    if sought.iceberg is not None:
        return Iceberg.find(sought.iceberg).to_json()
    assert sought.query is not None
    return {"kind": "query", "query": sought.query}


@dataclass(frozen=True)
class _Again:
    """A copy that is made again, with columns that its source has got since. What reads it goes on."""

    made: CopyDefinition
    before: Entry

    def build(self, context: LakeContext, state: LakeState) -> Built:
        built = self.made.build(context, state)
        entry = built.entries[self.made.name]
        have = {field.name: field.dataType for field in types.from_json(entry.definition["schema"])}
        for field in types.from_json(self.before.definition["schema"]):
            if have.get(field.name) != field.dataType:
                raise schema_changed(self.made.name, [field.name])
        return built


def _same_source(before: Definition, now: Definition) -> bool:
    places = ("kind", "files", "query", "iceberg", "table")
    return all(before.get(place) == now.get(place) for place in places)


def schema_changed(name: str, columns: Sequence[str]) -> NablaError:
    """The error for a source without columns that the lake has of it, or with others of their names."""
    return NablaError(
        "NABLA_SCHEMA_CHANGED",
        f'"{name}" has lost {", ".join(columns)} since it was registered, or has values of another type there',
        place=f'table "{name}"',
        remedy="Drop the views that read it and the table, register it again, and create the views again.",
    )


def _new_pieces(context: LakeContext, name: str, known: Known) -> Part:
    """The list of the pieces of a new copy, as a table of its own."""
    path = context.log.new_path(f"{name}_pieces")
    folder, table = context.log.folder(path), known.to_table()
    shape = StructType.fromDDL("number BIGINT, name STRING, stamp STRING, digest STRING")
    StoredTable.create(folder, shape.json(), files.write(folder, table))
    return Part(path, 0)
