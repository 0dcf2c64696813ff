"""The change between two versions equals the difference of their rows, whoever made it."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_foreign import allow, commit_file, delete_by_vector
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from hypothesis import example, given
from hypothesis import strategies as st
from storage_oracle import bag, few

from nabla.errors import NablaError
from nabla.storage import bags, changes, files, reading, schemas
from nabla.storage.changes import ChangeFile, between, signed
from nabla.storage.rewrite import rewrite
from nabla.storage.table import StoredTable


def rows(*pairs: tuple[int | None, str | None]) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    return pa.Table.from_pylist([{"id": i, "text": t} for i, t in pairs], schema)


def difference(new: pa.Table, old: pa.Table) -> Counter[Any]:
    result = bag(new)
    result.subtract(bag(old))
    return Counter({row: n for row, n in result.items() if n})


def own_commit(table: StoredTable, delete: pa.Table, insert: pa.Table) -> None:
    """As a transaction of the lake does it: rewrite, record, commit."""
    snapshot = table.snapshot()
    done = rewrite(snapshot, delete, insert)
    change = bags.consolidate(pa.concat_tables([bags.negated(bags.counted(delete)), bags.counted(insert)]))
    recorded = changes.record(table.folder, change)
    table.commit(done.adds, done.removes, {changes.KEY: [file.to_json() for file in recorded]}, snapshot.version)


pairs = st.lists(st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["a", "b", None])), max_size=4)
operations = st.one_of(
    st.tuples(st.sampled_from(["append", "overwrite", "merge", "own"]), pairs),
    st.tuples(st.sampled_from(["delete", "update", "optimize", "properties", "restore"]), st.just([])),
)


def perform(folder: str, operation: str, pairs: list[tuple[int | None, str | None]]) -> None:
    table, data = DeltaTable(folder), rows(*pairs)
    if operation in ("append", "overwrite"):
        write_deltalake(table, data, mode=operation)  # type: ignore[call-overload]
    elif operation == "merge":
        source = rows(*{i: (i, t) for i, t in pairs}.values())
        merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
    elif operation == "own":
        stored = StoredTable(folder)
        held = reading.read(stored.snapshot())
        own_commit(stored, held.slice(0, 1), data)
    elif operation == "delete":
        table.delete("id = 1")
    elif operation == "update":
        table.update({"text": "'c'"}, predicate="id = 2")
    elif operation == "optimize":
        table.optimize.compact()
    elif operation == "restore":
        if table.version() > 0:
            table.restore(max(table.version() - 2, 0))
    else:
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})


@few
@example([("append", [(1, "a")]), ("optimize", []), ("delete", []), ("restore", [])])
@given(st.lists(operations, min_size=1, max_size=5))
def test_any_writers_change_is_the_difference_of_the_rows(steps: list[tuple[str, list[Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, rows((1, "a"), (1, "a"), (2, "b"), (None, None)))
        for operation, pairs in steps:
            perform(folder, operation, pairs)
        table = StoredTable(folder)
        latest = table.latest()
        for old in (0, latest // 2):
            change = between(table, old, latest)
            before, after = reading.read(table.snapshot(old)), reading.read(table.snapshot(latest))
            assert bag(signed(change)) == difference(after, before)
            assert change.rows >= len(difference(after, before))
            assert bag(signed(between(table, latest, old))) == difference(before, after)


@pytest.fixture
def table(tmp_path: Path) -> StoredTable:
    start = rows(*[(i, "a") for i in range(1000)])
    return StoredTable.create(tmp_path, Schema.from_arrow(start.schema).to_json(), files.write(tmp_path, start))


def test_a_recorded_change_is_all_there_is_to_look_at(table: StoredTable) -> None:
    own_commit(table, rows((7, "a")), rows((7, "b"), (7, "b")))
    own_commit(table, rows((8, "a")), rows())
    change = between(table, 0, 2)
    assert [(file.rows, file.inserted, file.deleted) for file in change.recorded] == [(2, 2, 1), (1, 0, 1)]
    assert (change.rows, change.added, change.removed) == (3, (), ())
    assert bag(signed(change)) == {(7, "b"): 2, (7, "a"): -1, (8, "a"): -1}
    assert change.recorded[0].path.startswith("_changes/")
    assert ChangeFile.from_json(change.recorded[0].to_json()) == change.recorded[0]


def test_rearranging_commits_cost_nothing(table: StoredTable) -> None:
    own_commit(table, rows(), rows((1001, "new")))
    DeltaTable(table.folder).optimize.compact()
    own_commit(table, rows(), rows((1002, "new")))
    change = between(table, 0, 3)
    assert change.rows == 2
    write_deltalake(table.folder, rows((1003, "x")), mode="append")
    DeltaTable(table.folder).optimize.compact()
    assert between(table, 3, 5).rows == 1
    assert between(table, 4, 5).empty


def test_a_commit_that_records_no_change_is_none(table: StoredTable) -> None:
    done = rewrite(table.snapshot(), insert=None)
    table.commit(done.adds, done.removes, {changes.KEY: []}, 0)
    assert between(table, 0, 1).empty
    assert between(table, 1, 1).empty


def test_recorded_and_other_commits_add_up(table: StoredTable) -> None:
    own_commit(table, rows((7, "a")), rows())
    write_deltalake(table.folder, rows((7, "a"), (8, "new")), mode="append")
    change = between(table, 0, 2)
    assert (len(change.recorded), len(change.added), change.removed) == (1, 1, ())
    assert bag(signed(change)) == {(8, "new"): 1}


def test_a_change_whose_record_is_gone_is_found_by_files(table: StoredTable) -> None:
    own_commit(table, rows((7, "a")), rows())
    (file,) = between(table, 0, 1).recorded
    os.remove(os.path.join(table.folder, file.path))
    change = between(table, 0, 1)
    assert change.recorded == ()
    assert bag(signed(change)) == {(7, "a"): -1}


def test_a_version_vacuumed_in_between_does_not_matter(table: StoredTable) -> None:
    DeltaTable(table.folder).update({"text": "'b'"}, predicate="id = 7")
    DeltaTable(table.folder).optimize.compact()
    write_deltalake(table.folder, rows((1001, "new")), mode="append")
    own_commit(table, rows((8, "a")), rows())
    fresh = StoredTable(table.folder)
    between_them = {path for version in (1, 2) for path in fresh.snapshot(version).paths}
    for path in between_them - {*fresh.snapshot(0).paths, *fresh.snapshot().paths}:
        os.remove(path)
    assert bag(signed(between(StoredTable(table.folder), 0, 3))) == {
        (7, "a"): -1, (7, "b"): 1, (8, "a"): -1, (1001, "new"): 1
    }  # fmt: skip


def test_a_cleaned_log_in_between_does_not_matter(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a")), configuration={"delta.checkpointInterval": "2"})
    for i in range(5):
        write_deltalake(tmp_path, rows((i, "b")), mode="append")
    table = StoredTable(tmp_path)
    change = between(table, 2, 5)
    commit_file(tmp_path, 3).unlink()  # version 4 has a checkpoint, version 2 is known
    assert bag(signed(between(table, 2, 5))) == bag(signed(change)) == {(2, "b"): 1, (3, "b"): 1, (4, "b"): 1}


def test_the_order_of_columns_matters_and_what_may_be_null_does_not() -> None:
    one, other = pa.field("a", pa.list_(pa.int64())), pa.field("b", pa.string(), nullable=False)
    shapes = [Schema.from_arrow(pa.schema(fields)).to_json() for fields in ([one, other], [other, one])]
    assert not schemas.same_type(*map(json.loads, shapes))
    nullable = shapes[0].replace('"nullable":false', '"nullable":true')
    assert schemas.same_type(json.loads(shapes[0]), json.loads(nullable))


def test_a_changed_deletion_vector_is_a_change_of_just_its_rows(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": pa.arange(0, 10)}))
    allow(tmp_path, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    table = StoredTable(tmp_path)
    path = table.snapshot().files[0].path
    delete_by_vector(tmp_path, 1, path, [1, 3], before=[])
    delete_by_vector(tmp_path, 2, path, [1, 3, 4], before=[1, 3])
    delete_by_vector(tmp_path, 3, path, [3, 9], before=[1, 3, 4])
    for old, new, expected in (
        (0, 1, {(1,): -1, (3,): -1}),
        (1, 2, {(4,): -1}),
        (0, 2, {(1,): -1, (3,): -1, (4,): -1}),
        (2, 3, {(1,): 1, (4,): 1, (9,): -1}),
        (3, 0, {(3,): 1, (9,): 1}),
    ):
        change = between(table, old, new)
        assert bag(signed(change)) == expected
        assert change.rows == len(expected)


def test_partitioned_tables_change_like_others(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a b"), (2, "c")), partition_by=["text"])
    DeltaTable(tmp_path).delete("id = 1")
    write_deltalake(tmp_path, rows((3, "c")), mode="append")
    assert bag(signed(between(StoredTable(tmp_path), 0, 2))) == {(1, "a b"): -1, (3, "c"): 1}


def test_the_change_from_a_version_that_is_gone_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a")))
    write_deltalake(tmp_path, rows((2, "b")), mode="overwrite")
    os.remove(StoredTable(tmp_path).snapshot(0).paths[0])
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        between(StoredTable(tmp_path), 0, 1)


def test_metadata_of_others_is_not_mistaken_for_nablas(tmp_path: Path) -> None:
    said = CommitProperties(custom_metadata={"change": "mine", "userMetadata": "hello"})
    write_deltalake(tmp_path, rows((1, "a")), commit_properties=said)
    assert StoredTable(tmp_path).metadata(0) == {}
