"""Rows replaced by key, against dicts; equality of columns of any type, against how bags group them."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import pyarrow as pa
from deltalake import Schema
from hypothesis import given
from hypothesis import strategies as st
from storage_oracle import few, some, tables

from nabla.storage import bags, files, reading
from nabla.storage.equality import same_rows
from nabla.storage.replace import Replaced, replace_rows
from nabla.storage.table import Snapshot, StoredTable

MARKS = pa.list_(pa.struct([("test", pa.string()), ("notes", pa.list_(pa.struct([("note", pa.float64())])))]))
SCHEMA = pa.schema([("name", pa.string()), ("year", pa.int32()), ("marks", MARKS)])
Relation = dict[tuple[Any, ...], Any]

keys = st.tuples(st.sampled_from([None, *"abcdefgh"]), st.integers(0, 2))
marks = st.sampled_from(
    [
        [],
        [{"test": "t", "notes": []}],
        [{"test": "t", "notes": [{"note": 1.0}, {"note": math.nan}]}],
        [{"test": None, "notes": [{"note": None}]}, {"test": "u", "notes": []}],
    ]
)
relations = st.dictionaries(keys, marks, max_size=12)


def arrow(relation: Relation) -> pa.Table:
    rows = [{"name": name, "year": year, "marks": value} for (name, year), value in relation.items()]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def shown(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def stored(folder: str, *pieces: pa.Table) -> StoredTable:
    written = [file for piece in pieces for file in files.write(folder, piece)]
    return StoredTable.create(folder, Schema.from_arrow(SCHEMA).to_json(), written)


def applied(table: StoredTable, done: Replaced) -> Snapshot:
    table.commit(done.adds, done.removes, {}, table.latest())
    return StoredTable(table.folder).snapshot()


@few
@given(relations, relations, st.sets(keys, max_size=6), st.integers(1, 3))
def test_rows_of_touched_keys_give_way_to_new_ones(old: Relation, new: Relation, more: set[Any], pieces: int) -> None:
    touched = new.keys() | more
    expected = {key: value for key, value in old.items() if key not in touched} | new
    gone = {key: value for key, value in old.items() if key in touched and repr(new.get(key)) != repr(value)}
    come = {key: value for key, value in new.items() if repr(old.get(key)) != repr(value)}
    with tempfile.TemporaryDirectory() as folder:
        table = stored(folder, *(arrow(dict(list(old.items())[i::pieces])) for i in range(pieces)))
        wanted = arrow({key: [] for key in touched}).select(["name", "year"])
        done = replace_rows(table.snapshot(), ["name", "year"], wanted, arrow(new))
        assert shown(done.deleted) == shown(arrow(gone))
        assert shown(done.inserted) == shown(arrow(come))
        assert shown(reading.read(applied(table, done))) == shown(arrow(expected))


def test_files_without_a_touched_key_stay_and_new_versions_go_where_the_old_ones_were() -> None:
    with tempfile.TemporaryDirectory() as folder:
        numbers = [pa.table({"id": pa.arange(i, i + 20_000), "n": pa.repeat(0, 20_000)}) for i in (0, 20_000, 40_000)]
        written = [file for piece in numbers for file in files.write(folder, piece)]
        table = StoredTable.create(folder, Schema.from_arrow(numbers[0].schema).to_json(), written)
        new = pa.table({"id": [5, 20_007, 20_008], "n": [0, 1, 1]})
        done = replace_rows(table.snapshot(), ["id"], new.select(["id"]), new)
        assert [file.path for file in done.removes] == [written[1].path]
        assert done.inserted.to_pylist() == [{"id": 20_007, "n": 1}, {"id": 20_008, "n": 1}]
        (file,) = done.adds
        assert (file.minimum["id"], file.maximum["id"], file.rows) == (20_000, 39_999, 20_000)


@some
@given(tables(number=2))
def test_rows_are_the_same_exactly_where_bags_take_them_for_one(drawn: tuple[pa.Table, ...]) -> None:
    size = min(table.num_rows for table in drawn)
    one, other = (table.slice(table.num_rows - size) for table in drawn)
    found = same_rows(one, other).to_pylist()
    for place, equal in enumerate(found):
        pair = pa.concat_tables([one.slice(place, 1), other.slice(place, 1)])
        assert equal == (bags.consolidate(bags.counted(pair)).num_rows == 1), pair.to_pylist()
