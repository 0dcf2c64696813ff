"""A Delta table in a folder: versions, commits that win or fail, and everything that other writers may have done."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from delta_foreign import actions, allow, commit_file, delete_by_vector, rename, write_actions
from deltalake import DeltaTable, Schema, write_deltalake
from storage_oracle import bag

from nabla.errors import Conflict, NablaError
from nabla.storage import files, reading
from nabla.storage.table import StoredTable

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})
SCHEMA = Schema.from_arrow(ROWS.schema).to_json()


def made(folder: Path) -> StoredTable:
    return StoredTable.create(folder, SCHEMA, files.write(folder, ROWS))


def code(error: pytest.ExceptionInfo[NablaError]) -> str:
    return error.value.code


def test_a_table_has_the_versions_that_were_committed(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.snapshot()
    more = files.write(tmp_path, ROWS)
    assert table.commit(more, first.files, {"why": "test"}, 0) == 1
    assert (table.latest(), table.snapshot().files) == (1, more)
    assert table.snapshot(0) == first
    assert table.metadata(1) == {"why": "test"}
    assert bag(reading.read(table.snapshot())) == bag(ROWS)
    assert table.snapshot().paths == [str(tmp_path / more[0].path)]


def test_a_version_known_from_a_commit_equals_the_one_read_back(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.snapshot()
    table.commit(files.write(tmp_path, ROWS), table.snapshot().files, {}, 0)
    assert StoredTable(tmp_path).snapshot() == table.snapshot()


def test_a_commit_may_add_and_remove_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.commit([], [], {"empty": True}, 0) == 1
    assert StoredTable(tmp_path).snapshot().files == table.snapshot(0).files


def test_the_second_of_two_commits_on_one_version_fails(tmp_path: Path) -> None:
    one, other = made(tmp_path), StoredTable(tmp_path)
    one.commit(files.write(tmp_path, ROWS), [], {}, 0)
    with pytest.raises(Conflict):
        other.commit(files.write(tmp_path, ROWS), [], {}, 0)
    assert other.snapshot().rows == 6


def test_of_many_threads_one_gets_each_version(tmp_path: Path) -> None:
    made(tmp_path)

    def race(worker: int) -> int:
        table, won = StoredTable(tmp_path), 0
        for version in range(4):
            try:
                table.commit([], [], {"worker": worker}, version)
                won += 1
            except Conflict:
                pass
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(race, range(4))) == 4
    assert StoredTable(tmp_path).latest() == 4


def test_creating_a_table_twice_is_a_conflict(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(Conflict):
        made(tmp_path)


@pytest.mark.parametrize("name", ["with space", "100%", "hash#", "größe", "a=b", "question?"])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    table = made(tmp_path / name)
    table.commit(files.write(table.folder, ROWS), [], {}, 0)
    assert reading.read(StoredTable(tmp_path / name).snapshot()).num_rows == 6


def test_a_folder_that_would_be_confused_with_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NablaError) as error:
        made(tmp_path / "a%20b")
    assert code(error) == "NABLA_PATH"


def test_a_type_that_delta_lacks_is_refused(tmp_path: Path) -> None:
    local = {"type": "map", "keyType": "string", "valueType": "timestamp_ntz", "valueContainsNull": True}
    for kind in ("calendarinterval", local, {"type": "array", "elementType": local, "containsNull": True}):
        field = {"name": "x", "type": kind, "nullable": True, "metadata": {}}
        with pytest.raises(NablaError) as error:
            StoredTable.create(tmp_path, json.dumps({"type": "struct", "fields": [field]}))
        assert code(error) == "NABLA_TYPE"
    assert not StoredTable(tmp_path).exists()


def test_a_folder_without_delta_log_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(NablaError, match=str(folder)) as error:
            StoredTable(folder).snapshot()
        assert code(error) == "NABLA_NOT_DELTA"


def test_a_version_that_never_was_is_refused(tmp_path: Path) -> None:
    for version in (-1, 1):
        with pytest.raises(NablaError) as error:
            made_once(tmp_path).snapshot(version)
        assert code(error) == "NABLA_NO_VERSION"


def made_once(folder: Path) -> StoredTable:
    table = StoredTable(folder)
    return table if table.exists() else made(folder)


def test_a_cleaned_log_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    table = made(tmp_path)
    for version in range(12):
        table.commit([], [], {}, version)
    commit_file(tmp_path, 0).unlink()
    commit_file(tmp_path, 1).unlink()
    fresh = StoredTable(tmp_path)
    assert fresh.snapshot().rows == 3
    with pytest.raises(NablaError) as error:
        fresh.snapshot(1)
    assert code(error) == "NABLA_VERSION_GONE"
    commit_file(tmp_path, 11).unlink()
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_CORRUPT"


def test_a_vacuumed_version_is_gone_but_a_missing_current_file_is_damage(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.commit(files.write(tmp_path, ROWS), table.snapshot().files, {}, 0)
    os.remove(table.snapshot(0).paths[0])
    fresh = StoredTable(tmp_path)
    with pytest.raises(NablaError) as error:
        fresh.snapshot(0)
    assert code(error) == "NABLA_VERSION_GONE"
    assert fresh.snapshot(1).rows == 3
    os.remove(fresh.snapshot(1).paths[0])
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_CORRUPT"


def test_garbage_in_the_log_is_damage(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.commit([], [], {}, 0)
    commit_file(tmp_path, 1).write_text("garbage")
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_CORRUPT"


def test_an_unknown_reader_feature_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    allow(tmp_path, ["timeTravelBackwards"], {})
    with pytest.raises(NablaError, match="timeTravelBackwards") as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_DELTA_FEATURE"


def test_partition_values_come_from_the_log(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3, 4], "part": ["a b", "c/d", None, "a b"], "n": pa.array([1, 2, 3, 1], pa.int32())})
    write_deltalake(tmp_path, table, partition_by=["part", "n"])
    snapshot = StoredTable(tmp_path).snapshot()
    assert snapshot.partitioned_by == ("part", "n")
    assert not snapshot.plain
    assert {(f.partition["part"], f.partition["n"]) for f in snapshot.files} == {("a b", 1), ("c/d", 2), (None, 3)}
    assert bag(reading.read(snapshot)) == bag(table)
    assert bag(reading.read(snapshot, ["part", "id"])) == bag(table.select(["part", "id"]))


def test_rows_hidden_by_a_deletion_vector_are_not_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": pa.arange(0, 10)}))
    allow(tmp_path, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    path = StoredTable(tmp_path).snapshot().files[0].path
    delete_by_vector(tmp_path, 1, path, [1, 3], before=[])
    table = StoredTable(tmp_path)
    assert table.snapshot(0).plain
    assert not table.snapshot().plain
    assert table.snapshot().rows == 8
    assert reading.read(table.snapshot())["id"].to_pylist() == [0, 2, 4, 5, 6, 7, 8, 9]


def test_column_mapping_by_name_is_followed(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    rename(tmp_path, "name")
    snapshot = StoredTable(tmp_path).snapshot()
    assert snapshot.stored == {"my id": "id", "my text": "text"}
    assert not snapshot.plain
    assert snapshot.files[0].maximum == {"my id": 3, "my text": "b"}
    assert bag(reading.read(snapshot)) == bag(ROWS)


def test_column_mapping_by_number_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    rename(tmp_path, "id")
    with pytest.raises(NablaError, match=str(tmp_path)) as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_COLUMN_MAPPING"


def test_column_mapping_inside_of_a_struct_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": pa.array([{"x": 1}])}))
    rename(tmp_path, "name")
    lines = actions(tmp_path, 0)
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            inner = schema["fields"][0]["type"]["fields"][0]
            inner["metadata"] = {"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "col-9"}
            line["metaData"]["schemaString"] = json.dumps(schema)
    write_actions(tmp_path, 0, lines)
    with pytest.raises(NablaError, match='"my id"') as error:
        StoredTable(tmp_path).snapshot()
    assert code(error) == "NABLA_COLUMN_MAPPING"


def test_a_column_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    write_deltalake(tmp_path, pa.table({"id": [4], "text": ["d"], "new": [1.5]}), mode="append", schema_mode="merge")
    rows = reading.read(StoredTable(tmp_path).snapshot())
    assert bag(rows.select(["id", "new"])) == {(1, None): 1, (2, None): 1, (3, None): 1, (4, 1.5): 1}


def test_other_readers_see_what_nabla_writes(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.commit(files.write(tmp_path, ROWS), [], {}, 0)
    assert bag(DeltaTable(tmp_path).to_pyarrow_table()) == bag(pa.concat_tables([ROWS, ROWS]))
