"""Checks of the partitioned normal form of nested tables: of rows that were written, and of keys before a commit."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.engine.driver.row_search import RowSearch
from nabla.errors import NablaError
from nabla.frontends.nested import model
from nabla.frontends.nested.schema import Schema
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags, files, locations, reading
from nabla.storage.bags import N
from nabla.storage.equality import same

_ONE = pa.scalar(1, pa.int64())


def check_written(folder: str, visible: StructType, table: str) -> None:
    """Refuses files of canonical rows in which a key is there twice, at any level, or a tuple is NULL."""
    schema = Schema.of(visible)
    keys = []
    for path in locations.parquet_files(folder):
        rows = locations.read_parquet(path).rename_columns(visible.names)
        for name, part in schema.parts:
            wrong = _not_pnf(rows[name].combine_chunks(), part)
            if pc.any(wrong).as_py():
                model.relation(rows.filter(wrong).slice(0, 1).to_pylist(), schema, table)
        keys.append(bags.counted(rows.select(list(schema.key))))
    twice = _more_than_once(bags.consolidate(pa.concat_tables(keys))) if keys else ()
    if twice:
        raise model.not_pnf(schema, twice, table=f'table "{table}", ')


def _not_pnf(lists: pa.ListArray, schema: Schema) -> pa.BooleanArray:
    """For each subrelation whether it is not in PNF. Tuples with one key stand side by side, since they are sorted."""
    tuples, owner = lists.flatten(), pc.list_parent_indices(lists)
    wrong = tuples.is_null()
    fields = dict(zip(schema.names, tuples.flatten(), strict=True))
    for name, part in schema.parts:
        wrong = pc.or_(wrong, _not_pnf(fields[name], part))
    if len(tuples) > 1:
        before, after = slice(0, len(tuples) - 1), slice(1, len(tuples))
        twice = pc.equal(owner[before], owner[after])
        for name in schema.key:
            twice = pc.and_(twice, same(fields[name][before], fields[name][after]))
        wrong = pc.or_(wrong, pa.concat_arrays([pa.array([False]), twice]))
    return pc.is_in(pa.arange(0, len(lists)), value_set=owner.filter(wrong).cast(pa.int64()))


def _more_than_once(counted: pa.Table) -> model.Key:
    twice = counted.filter(pc.greater(counted[N], _ONE)).slice(0, 1).drop_columns([N]).to_pylist()
    return tuple(map(model.frozen, twice[0].values())) if twice else ()


def check_keys(c: TableChange) -> None:
    """Refuses a change after which two rows have one key."""
    schema, names = Schema.of(c.visible), stored_key(c)
    deleted, inserted = bags.split(c.net())
    keys = [bags.counted(types.conform(files.read_folder(path), c.stored)).select([*names, N]) for path in c.written]
    keys.append(inserted.select([*names, N]))
    new = bags.consolidate(pa.concat_tables(keys))
    there = bags.counted(near(c, new, names)).select([*names, N])
    key = _more_than_once(bags.consolidate(pa.concat_tables([there, bags.negated(deleted.select([*names, N])), new])))
    if key:
        raise NablaError(
            "NABLA_PNF",
            f"two rows would have the key {model.shown(schema, key)}",
            place=f'table "{c.name}", level 1',
            remedy="The atomic attributes are the key. Use merge to add to a row that is there.",
        )


def stored_key(c: TableChange) -> list[str]:
    places = [c.visible.names.index(name) for name in Schema.of(c.visible).key]
    return [c.stored.names[place] for place in places]


def near(c: TableChange, keys: pa.Table, columns: list[str]) -> pa.Table:
    """Rows of the table with some of the keys' values: all with the keys, and maybe others."""
    for name in stored_key(c):
        kind = c.snapshot.schema.field(name).type
        if not pa.types.is_floating(kind) and not pa.types.is_nested(kind):
            found = RowSearch().rows(c.snapshot, name, pc.unique(keys[name].combine_chunks()), columns)
            return reading.read(c.snapshot, columns) if found is None else found
    return reading.read(c.snapshot, columns)
