"""A replayed log gives the table that deltalake reads, version by version, or is left to deltalake."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_foreign import actions, allow, commit_file, delete_by_vector, rename, write_actions
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st
from storage_oracle import few, some, tables
from two_readers import expected, ordered

from nabla.errors import NablaError
from nabla.storage import files
from nabla.storage.delta_reader import DeltaReader
from nabla.storage.files import Snapshot
from nabla.storage.log_replay import Uncertain, replay
from nabla.storage.table import StoredTable

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})


def check(folder: str | Path, first: int = 0) -> None:
    """Every version, read anew and from every earlier one."""
    place, latest = str(folder), StoredTable(folder).latest()
    read: list[Snapshot] = []
    for version in range(first, latest + 1):
        wanted = expected(place, version)
        read.append(replay(place, version))
        for known in (None, *read):
            assert ordered(replay(place, version, known)) == wanted
    assert ordered(StoredTable(folder).snapshot()) == wanted


def check_left_to_deltalake(folder: Path) -> None:
    latest = StoredTable(folder).latest()
    with pytest.raises(Uncertain):
        replay(str(folder), latest)
    assert ordered(StoredTable(folder).snapshot()) == expected(str(folder), latest)


operations = st.lists(
    st.sampled_from(["own", "append", "overwrite", "delete", "optimize", "checkpoint", "properties", "restore"]),
    max_size=6,
)


def perform(folder: str, operation: str, table: pa.Table) -> None:
    theirs = DeltaTable(folder)
    if operation == "own":
        ours = StoredTable(folder)
        before = ours.snapshot()
        ours.commit(files.write(folder, table), before.files[::2], {}, before.version)
    elif operation in ("append", "overwrite"):
        write_deltalake(theirs, table, mode=operation)  # type: ignore[call-overload]
    elif operation == "delete":
        theirs.delete("c0 IS NULL")
    elif operation == "optimize":
        theirs.optimize.compact()
    elif operation == "checkpoint":
        theirs.create_checkpoint()
    elif operation == "properties":
        if "timestamp[us]" in str(table.schema):
            return  # deltalake announces variants whenever it writes a protocol with features, and those are left to it
        theirs.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    else:
        theirs.restore(theirs.version() // 2)


@few
@given(tables(number=2), st.booleans(), operations)
def test_random_histories_of_all_types_are_the_same_to_both_readers(
    drawn: tuple[pa.Table, ...], ours: bool, story: list[str]
) -> None:
    table, other = drawn
    with tempfile.TemporaryDirectory() as folder:
        if ours:
            StoredTable.create(folder, Schema.from_arrow(table.schema).to_json(), files.write(folder, table))
        else:
            write_deltalake(folder, table)
        for operation in story:
            with suppress(DeltaError):  # deltalake cannot delete by every column
                perform(folder, operation, other)
        check(folder)


def test_a_version_that_this_process_made_is_not_read_again(tmp_path: Path) -> None:
    table = StoredTable.create(tmp_path, Schema.from_arrow(ROWS.schema).to_json(), files.write(tmp_path, ROWS))
    first = table.snapshot()
    table.commit(files.write(tmp_path, ROWS), first.files, {}, 0)
    commit_file(tmp_path, 0).unlink()
    commit_file(tmp_path, 1).write_text("nobody reads this")
    somebody_else = {"remove": {"path": table.snapshot().files[0].path, "dataChange": True}}
    write_actions(tmp_path, 2, [{"commitInfo": {}}, somebody_else])
    assert table.snapshot().files == ()


def test_checkpoints_and_cleaned_logs(tmp_path: Path) -> None:
    table = StoredTable.create(tmp_path, Schema.from_arrow(ROWS.schema).to_json(), files.write(tmp_path, ROWS))
    for version in range(13):
        table.commit(files.write(tmp_path, ROWS), table.snapshot().files[:1] if version % 3 else (), {}, version)
    check(tmp_path)
    for version in range(10):
        commit_file(tmp_path, version).unlink()
    check(tmp_path, first=9)
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot(8)
    assert error.value.code == "NABLA_VERSION_GONE"


@pytest.mark.parametrize("cut", [2, 10_000])
def test_a_damaged_checkpoint_is_damage(tmp_path: Path, cut: int) -> None:
    write_deltalake(tmp_path, ROWS)
    write_deltalake(tmp_path, ROWS, mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    checkpoint = tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // cut])
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot()
    assert error.value.code == "NABLA_CORRUPT"


@some
@given(st.data())
def test_a_commit_that_was_cut_anywhere_is_damage(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = StoredTable.create(folder, Schema.from_arrow(ROWS.schema).to_json(), files.write(folder, ROWS))
        table.commit(files.write(folder, ROWS), table.snapshot().files, {}, 0)
        path = commit_file(Path(folder), 1)
        text = path.read_text()
        cut = data.draw(st.integers(0, len(text) - 2))  # without its last line break it is whole
        path.write_text(text[:cut])
        for known in (None, replay(folder, 0)):
            with pytest.raises(NablaError) as error:
                replay(folder, 1, known)
            assert error.value.code == "NABLA_CORRUPT"


def test_columns_that_are_added_later(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    wider = ROWS.append_column("more", pa.array([1.5, None, 2.5]))
    write_deltalake(tmp_path, wider, mode="append", schema_mode="merge")
    write_deltalake(tmp_path, wider.select(["id"]), mode="overwrite", schema_mode="overwrite")
    check(tmp_path)


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "größe", "hash#", "q?", "x=1/y", "back\\slash", "quote'\""])
def test_special_characters_in_paths(tmp_path: Path, name: str) -> None:
    table = StoredTable.create(tmp_path, Schema.from_arrow(ROWS.schema).to_json(), files.write(tmp_path, ROWS))
    written = files.write(tmp_path, ROWS, below=name)
    table.commit(written, (), {}, 0)
    table.commit(files.write(tmp_path, ROWS), written, {}, 1)
    check(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    check(tmp_path)


def test_files_that_lie_elsewhere(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "original", ROWS)
    write_deltalake(tmp_path / "clone", ROWS)
    lines = actions(tmp_path / "clone", 0)
    for line in lines:
        if "add" in line:
            line["add"]["path"] = (
                tmp_path / "original" / actions(tmp_path / "original", 0)[-1]["add"]["path"]
            ).as_uri()
    write_actions(tmp_path / "clone", 0, lines)
    check(tmp_path / "clone")


def test_a_writer_without_statistics(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    lines = actions(tmp_path, 0)
    for line in lines:
        line.get("add", {}).pop("stats", None)
    write_actions(tmp_path, 0, lines)
    check(tmp_path)
    assert StoredTable(tmp_path).snapshot().rows == 3
    DeltaTable(tmp_path).create_checkpoint()
    check_left_to_deltalake(tmp_path)


def test_partitions_are_left_to_deltalake(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=["text"])
    check_left_to_deltalake(tmp_path)
    assert {file.partition["text"] for file in StoredTable(tmp_path).snapshot().files} == {"a", "b", None}


def test_deletion_vectors_are_those_that_deltalake_reads(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    allow(tmp_path, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    (file,) = (line["add"]["path"] for line in actions(tmp_path, 0) if "add" in line)
    delete_by_vector(tmp_path, 1, file, [1], [])
    delete_by_vector(tmp_path, 2, file, [1, 2], [1])
    check(tmp_path)
    snapshot = StoredTable(tmp_path).snapshot()
    (found,) = snapshot.files
    keep = snapshot.keep(found)
    assert keep is not None
    assert keep.to_pylist() == [True, False, False]


def test_a_removed_file_with_another_deletion_vector_is_left_to_deltalake(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    allow(tmp_path, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    (file,) = (line["add"]["path"] for line in actions(tmp_path, 0) if "add" in line)
    delete_by_vector(tmp_path, 1, file, [1], [])
    delete_by_vector(tmp_path, 2, file, [1, 2], [0])
    with pytest.raises(Uncertain):
        replay(str(tmp_path), 2)


def test_column_mapping_is_left_to_deltalake(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    rename(tmp_path, "name")
    check_left_to_deltalake(tmp_path)


def with_protocol(folder: Path, **protocol: Any) -> None:
    write_deltalake(folder, ROWS)
    lines = actions(folder, 0)
    for line in lines:
        if "protocol" in line:
            line["protocol"] = protocol
    write_actions(folder, 0, lines)


@pytest.mark.parametrize(
    ("reader", "writer", "features"),
    [
        (1, 1, None),
        (1, 4, None),
        (1, 7, {"writerFeatures": ["appendOnly", "invariants", "changeDataFeed"]}),
        (3, 7, {"readerFeatures": [], "writerFeatures": ["rowTracking", "domainMetadata"]}),
        (3, 7, {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}),
    ],
)
def test_protocols_of_plain_tables(tmp_path: Path, reader: int, writer: int, features: dict[str, Any] | None) -> None:
    with_protocol(tmp_path, minReaderVersion=reader, minWriterVersion=writer, **(features or {}))
    check(tmp_path)


@pytest.mark.parametrize(
    ("reader", "writer", "features"),
    [
        (2, 5, None),
        (4, 8, None),
        (1, 7, {"writerFeatures": ["somethingNew"]}),
        (3, 7, {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}),
        (3, 7, {"readerFeatures": ["somethingNew"], "writerFeatures": ["somethingNew"]}),
        (3, 7, {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}),
    ],
)
def test_protocols_that_deltalake_has_to_judge(
    tmp_path: Path, reader: int, writer: int, features: dict[str, Any] | None
) -> None:
    with_protocol(tmp_path, minReaderVersion=reader, minWriterVersion=writer, **(features or {}))
    with pytest.raises(Uncertain):
        replay(str(tmp_path), 0)


@pytest.mark.parametrize(
    "name", [f"{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet", f"{1:020d}.checkpoint.{'8' * 32}.json"]
)
def test_checkpoints_of_other_kinds_are_left_to_deltalake(tmp_path: Path, name: str) -> None:
    write_deltalake(tmp_path, ROWS)
    write_deltalake(tmp_path, ROWS, mode="append")
    write_deltalake(tmp_path, ROWS, mode="append")
    (tmp_path / "_delta_log" / name).touch()
    with pytest.raises(Uncertain):
        replay(str(tmp_path), 2)
    assert replay(str(tmp_path), 0).version == 0


def test_a_checkpoint_with_sidecars_is_left_to_deltalake(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    DeltaTable(tmp_path).create_checkpoint()
    path = tmp_path / "_delta_log" / f"{0:020d}.checkpoint.parquet"
    table = pq.read_table(path)
    kind = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
    sidecars = [{"path": "x.parquet", "sizeInBytes": 1, "modificationTime": 1}] + [None] * (table.num_rows - 1)
    for rows, certain in ((pa.nulls(table.num_rows, kind), True), (pa.array(sidecars, kind), False)):
        pq.write_table(table.set_column(table.column_names.index("sidecar"), "sidecar", rows), path)
        if certain:
            check(tmp_path)
        else:
            with pytest.raises(Uncertain):
                replay(str(tmp_path), 0)


@pytest.mark.parametrize(
    "extra",
    [
        {"somethingNew": {}},
        {"add": {"path": "x", "size": 1, "partitionValues": {}, "dataChange": True, "deletionVector": {"a": 1}}},
        {"add": {"path": "x", "size": "1", "partitionValues": {}, "dataChange": True}},
        {"add": {"path": "x", "size": 1, "partitionValues": {"id": "1"}, "dataChange": True}},
        {"add": {"size": 1}},
    ],
)
def test_actions_that_deltalake_has_to_judge(tmp_path: Path, extra: dict[str, Any]) -> None:
    write_deltalake(tmp_path, ROWS)
    write_actions(tmp_path, 1, [{"commitInfo": {}}, extra])
    for known in (None, replay(str(tmp_path), 0)):
        with pytest.raises(Uncertain):
            replay(str(tmp_path), 1, known)


def test_two_actions_of_one_file_are_left_to_deltalake(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    (add,) = (line for line in actions(tmp_path, 0) if "add" in line)
    write_actions(tmp_path, 1, [{"remove": {"path": add["add"]["path"], "dataChange": True}}, add])
    with pytest.raises(Uncertain):
        replay(str(tmp_path), 1)


def test_a_hole_in_the_log_is_left_to_deltalake(tmp_path: Path) -> None:
    for _ in range(3):
        write_deltalake(tmp_path, ROWS, mode="append")
    known = replay(str(tmp_path), 0)
    os.remove(commit_file(tmp_path, 1))
    for start in (None, known):
        with pytest.raises(Uncertain):
            replay(str(tmp_path), 2, start)
    with pytest.raises(NablaError) as error:
        StoredTable(tmp_path).snapshot()
    assert error.value.code == "NABLA_CORRUPT"


def test_both_readers_raise_the_same_for_a_file_that_is_gone(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    lines = actions(tmp_path, 0)
    for line in lines:
        line.get("add", {}).pop("stats", None)
    write_actions(tmp_path, 0, lines)
    (path,) = tmp_path.glob("*.parquet")
    path.unlink()
    for read in (lambda: replay(str(tmp_path), 0), lambda: DeltaReader(str(tmp_path)).snapshot(0, 0)):
        with pytest.raises(FileNotFoundError):
            read()
    with pytest.raises(NablaError, match=path.name) as error:
        StoredTable(tmp_path).snapshot()
    assert error.value.code == "NABLA_CORRUPT"
