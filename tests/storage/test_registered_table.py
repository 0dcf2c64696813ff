"""Tables of others: what they add to them is left out, and what they take away is an error of that table alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from delta_foreign import allow, delete_by_vector, store_vector
from deltalake import write_deltalake

from nabla.errors import NablaError
from nabla.storage import reading
from nabla.storage.changes import between, signed
from nabla.storage.registered_table import RegisteredColumns, RegisteredTable
from nabla.storage.table import StoredTable


@pytest.fixture
def table(tmp_path: Path) -> RegisteredTable:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "text": ["a", "b"]}))
    return _registered(tmp_path / "t")


def _registered(folder: Path) -> RegisteredTable:
    stored = StoredTable(folder)
    return RegisteredTable(stored, "t", RegisteredColumns(stored.snapshot().schema_json))


def test_a_column_that_was_added_is_left_out(table: RegisteredTable) -> None:
    wider = pa.table({"more": [1.5], "id": [3], "text": ["c"]})
    write_deltalake(table.folder, wider, mode="append", schema_mode="merge")
    assert {"id": 3, "text": "c"} in reading.read(table.snapshot()).to_pylist()
    change = signed(between(table, 0, 1))
    assert change.to_pylist() == [{"id": 3, "text": "c", "_n": 1}]


def test_a_version_that_is_older_than_a_column_has_nulls_there(table: RegisteredTable, tmp_path: Path) -> None:
    write_deltalake(table.folder, pa.table({"id": [3], "more": [1.5]}), mode="append", schema_mode="merge")
    again = _registered(tmp_path / "t")
    assert reading.read(again.listed(0)).column_names == ["id", "text", "more"]
    assert signed(between(again, 0, 1)).to_pylist() == [{"id": 3, "text": None, "more": 1.5, "_n": 1}]


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([("id", pa.int32()), ("text", pa.string())]),
        pa.schema([("ID", pa.int64()), ("text", pa.string())]),
        pa.schema([("id", pa.list_(pa.int64())), ("text", pa.string())]),
    ],
)
def test_a_column_that_is_gone_or_has_another_type_is_an_error(table: RegisteredTable, other: pa.Schema) -> None:
    write_deltalake(table.folder, other.empty_table(), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(NablaError, match="NABLA_SCHEMA_CHANGED"):
        table.snapshot()


def test_columns_in_another_order_are_the_same_columns(table: RegisteredTable) -> None:
    other = pa.table({"text": ["z"], "id": [9]})
    write_deltalake(table.folder, other, mode="overwrite", schema_mode="overwrite")
    assert reading.read(table.snapshot()).to_pylist() == [{"id": 9, "text": "z"}]


def test_a_table_without_its_folder_is_away_and_comes_back(table: RegisteredTable, tmp_path: Path) -> None:
    shutil.move(table.folder, tmp_path / "elsewhere")
    for look in (table.latest, table.snapshot, table.listed):
        with pytest.raises(NablaError, match='NABLA_AWAY: the registered table "t" is away'):
            look()
    shutil.move(tmp_path / "elsewhere", table.folder)
    assert table.snapshot().rows == 2


def test_a_version_whose_deletion_vector_was_vacuumed_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1, 2, 3]}))
    allow(folder, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    path = StoredTable(folder).snapshot().files[0].path
    delete_by_vector(folder, 1, path, [0], before=[])
    delete_by_vector(folder, 2, path, [0, 1], before=[0])
    for version, action in ((1, "add"), (2, "remove")):
        store_vector(folder, version, action, "vector.bin")
    assert StoredTable(folder).listed(1).rows == 2
    (folder / "vector.bin").unlink()
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        StoredTable(folder).listed(1)
    assert StoredTable(folder).snapshot(2).rows == 1
