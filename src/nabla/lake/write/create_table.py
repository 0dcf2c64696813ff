"""Creating tables: what users declare is checked before anything is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructType

from nabla.engine import intake, types
from nabla.frontends.nested.schema import check_order
from nabla.lake.constraints import constraints
from nabla.lake.context import LakeContext
from nabla.lake.objects.names import check_columns, key_of, shape_of
from nabla.lake.objects.sources import count_keys
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.new_table import new_table
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.table import StoredTable


def create_table(
    context: LakeContext,
    name: str,
    schema: str | StructType | None,
    data: intake.Data,
    key: str | Sequence[str] | None,
    foreign_keys: Mapping[str, str] | None,
    enforce: bool | str,
) -> None:
    state = context.log.state()
    shape = _new_shape(context, state, name, schema, data)
    what = f'table "{name}"'
    keys = key_of(key, shape, what)
    foreign = context.names(state).foreign_keys(foreign_keys, shape, what)
    definition = {"schema": shape.json(), "key": keys, "foreign_keys": foreign}
    action = constraints.check_action("reject" if enforce is True else enforce) if enforce else ""
    entry = new_table(context, name, shape, data, definition)
    entries = constraints.enforced(context, entry, action, state) if action else {name: entry}
    _commit(context, entries, state, entry)
    count_keys(context.log, name, entry.facts["rows"])


def create_nested(context: LakeContext, name: str, schema: str | StructType | None, data: intake.Data) -> None:
    state = context.log.state()
    shape = _new_shape(context, state, name, schema, data)
    shape = types.stored(shape, shape.names)  # NULLs are keys like others
    check_order(shape)
    definition = {"schema": shape.json(), "key": nests.nested_key(shape), "foreign_keys": {}, "nested": True}
    if data is not None:
        data = nests.canonical(data, shape, name)
    entry = new_table(context, name, shape, data, definition)
    _commit(context, {name: entry}, state, entry)


def register(context: LakeContext, name: str, path: str | os.PathLike[str], key: str | Sequence[str] | None) -> None:
    state = context.log.state()
    context.names(state).check_new(name)
    table = StoredTable(path)
    snapshot = table.snapshot()
    keys = key_of(key, types.from_json(snapshot.schema_json), f'table "{name}"')
    definition = {"schema": snapshot.schema_json, "key": keys, "foreign_keys": {}}
    entry = Entry(name, "registered", definition, {"data": Part(table.folder, snapshot.version)})
    context.log.commit({name: entry}, state, "register", {name: {"path": table.folder}})


def _new_shape(
    context: LakeContext, state: LakeState, name: str, schema: str | StructType | None, data: intake.Data
) -> StructType:
    context.names(state).check_new(name)
    what = f'table "{name}"'
    shape = shape_of(schema, data, what, context.spark.session)
    types.check_storable(shape, what)
    check_columns(shape.names, what)
    return shape


def _commit(context: LakeContext, entries: Mapping[str, Entry], state: LakeState, table: Entry) -> None:
    said = {table.name: {"inserted": table.facts["rows"], "deleted": 0}}
    context.log.commit(entries, state, "create table", said)
