"""Changes of tables whose writers keep a change data feed, and of tables whose old files are gone."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from nabla.errors import NablaError
from nabla.storage.bags import N
from nabla.storage.changes import between, key_columns, signed
from nabla.storage.table import StoredTable

KEEP_FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [p[0] for p in pairs], "text": pa.array([p[1] for p in pairs], pa.string())})


def bag(table: pa.Table) -> dict[tuple[object, ...], int]:
    return {tuple(row[:-1]): row[-1] for row in zip(*(table[c].to_pylist() for c in table.column_names), strict=True)}


def vacuumed(folder: Path) -> None:
    DeltaTable(folder).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_the_change_is_what_the_writer_captured_and_no_more_is_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(*((i, "a") for i in range(1000))), configuration=KEEP_FEED)
    DeltaTable(tmp_path).update(updates={"text": "'b'"}, predicate="id = 7")
    DeltaTable(tmp_path).delete("id = 9")
    change = between(StoredTable(tmp_path), 0, 2)
    assert (len(change.captured), change.added, change.removed) == (2, (), ())
    assert change.rows == 3
    assert bag(signed(change)) == {(7, "a"): -1, (7, "b"): 1, (9, "a"): -1}
    assert sorted(key_columns(change, ["id"])["id"].to_pylist()) == [7, 7, 9]


def test_commits_with_and_without_a_feed_are_summed(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a"), (2, None)), configuration=KEEP_FEED)
    write_deltalake(tmp_path, rows((3, "c")), mode="append")
    DeltaTable(tmp_path).update(updates={"text": "'x'"}, predicate="id >= 2")
    change = between(StoredTable(tmp_path), 0, 2)
    assert (len(change.captured), len(change.added)) == (1, 1)
    assert bag(signed(change)) == {(2, None): -1, (2, "x"): 1, (3, "x"): 1}


@pytest.mark.parametrize(
    "values",
    [
        ["a b", "c", None],
        [1, 2, None],
        [datetime.date(2024, 1, 1), datetime.date(2025, 2, 3), None],
        [True, False, None],
        [
            datetime.datetime(2024, 1, 1, 5, tzinfo=datetime.UTC),
            datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC),
            None,
        ],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_partition_values_come_from_the_log(tmp_path: Path, values: list[object]) -> None:
    write_deltalake(
        tmp_path, pa.table({"id": [1, 2, 3], "part": values}), partition_by=["part"], configuration=KEEP_FEED
    )
    DeltaTable(tmp_path).update(updates={"id": "id + 10"}, predicate="id <> 2")
    change = between(StoredTable(tmp_path), 0, 1)
    assert bool(change.captured) != isinstance(values[0], datetime.datetime)  # of these the files are compared
    expected = {(1, values[0]): -1, (3, values[2]): -1, (11, values[0]): 1, (13, values[2]): 1}
    assert bag(signed(change)) == expected


def test_a_feed_that_is_gone_leaves_the_files_to_compare(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a"), (2, "b")), configuration=KEEP_FEED)
    DeltaTable(tmp_path).delete("id = 1")
    for name in os.listdir(tmp_path / "_change_data"):
        os.remove(tmp_path / "_change_data" / name)
    change = between(StoredTable(tmp_path), 0, 1)
    assert not change.captured
    assert bag(signed(change)) == {(1, "a"): -1}


def test_the_change_of_a_vacuumed_version_is_what_was_captured(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a"), (2, "b")), configuration=KEEP_FEED)
    DeltaTable(tmp_path).delete("id = 1")
    vacuumed(tmp_path)
    table = StoredTable(tmp_path)
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        table.snapshot(0)
    assert table.listed(0).rows == 2
    assert bag(signed(between(table, 0, 1))) == {(1, "a"): -1}


def test_what_was_appended_before_the_rest_was_rewritten_and_vacuumed_is_known(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a")))
    write_deltalake(tmp_path, rows((2, "b")), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, rows((3, "c")), mode="append")
    vacuumed(tmp_path)
    assert bag(signed(between(StoredTable(tmp_path), 1, 3))) == {(3, "c"): 1}
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        between(StoredTable(tmp_path), 0, 3)


def test_columns_of_a_captured_change_have_the_types_of_the_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows((1, "a")), configuration=KEEP_FEED)
    DeltaTable(tmp_path).delete("id = 1")
    found = signed(between(StoredTable(tmp_path), 0, 1))
    assert found.schema == StoredTable(tmp_path).snapshot().schema.append(pa.field(N, pa.int64()))
