"""DuckDB finds the places of rows for which a condition holds, and opens no file that statistics rule out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Constant, Filter, Node, Project
from nabla.algebra.parse import read
from nabla.engine.driver.place_search import find_in_rows, find_places
from nabla.engine.marked_rows import FILE, PLACE
from nabla.storage import files, rewrite
from nabla.storage.files import Snapshot
from nabla.storage.table import StoredTable

FIELDS = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "integer"), ("s", "string"))]
COLUMNS = (Column("id", "int"), Column("s", "string"), Column(FILE, "bigint"), Column(PLACE, "bigint"))
STORED = {"id": "id", "s": "s"}
SCHEMA = pa.schema([(FILE, pa.int64()), (PLACE, pa.int64()), ("id", pa.int32())])


def rows(first: int) -> pa.Table:
    ids = [None if i % 10 == 9 else i for i in range(first, first + 20)]
    return pa.table({"id": pa.array(ids, pa.int32()), "s": [f"s{i % 3}" for i in range(first, first + 20)]})


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    written = [file for first in (0, 20, 40) for file in files.write(str(tmp_path), rows(first))]
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    return StoredTable.create(str(tmp_path), schema, written, marks_rows=True).snapshot()


def query(condition: str) -> Node:
    """As Spark's plan of a condition over rows that are not there yet, with a value that is computed of each."""
    known = {column.name: (column.type, True) for column in COLUMNS}
    kept = Filter(Constant(COLUMNS, ()), (read(condition, known, "boolean"),))
    return Project(kept, tuple(Named(kept.column(name), kept.column(name).ref) for name in (FILE, PLACE, "id")))


def found(snapshot: Snapshot, condition: str, most: int = 100) -> list[int | None] | None:
    """The ids of the rows, which must stand where the search says."""
    table = find_places(query(condition), snapshot, STORED, SCHEMA, most)
    if table is None:
        return None
    content = {file.path: rows(20 * number)["id"].to_pylist() for number, file in enumerate(snapshot.files)}
    for path, place, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
        assert content[path][place] == value
    return sorted(table["id"].to_pylist(), key=lambda value: (value is None, value))


def test_rows_are_found_where_they_are(snapshot: Snapshot) -> None:
    assert found(snapshot, "`id` % 15 = 1") == [1, 16, 31, 46]
    assert found(snapshot, "`id` >= 18 AND `s` = 's0'") == [18, 21, 24, 27, 30, 33, 36, 42, 45, 48, 51, 54, 57]
    assert found(snapshot, "`id` IS NULL AND `s` = 's0'") == [None, None]
    assert found(snapshot, "`id` > 1000") == []
    assert len(found(snapshot, "`id` >= 0", most=10) or ()) == 11
    assert found(snapshot, "upper(`s`) = 'S1'") is None, "DuckDB may have another idea of upper case"


def test_files_that_statistics_rule_out_are_not_opened(snapshot: Snapshot) -> None:
    for file in (snapshot.files[0], snapshot.files[2]):
        Path(snapshot.path(file)).unlink()
    assert found(snapshot, "`id` = 25") == [25]
    assert found(snapshot, "`id` IN (25, 26, 1000)") == [25, 26]
    assert found(snapshot, "`id` > 20 AND 23 > `id`") == [21, 22]
    assert found(snapshot, "`id` = 22 OR `id` = 23") == [22, 23]


def test_hidden_rows_are_not_found(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MARKED_FROM", 1)
    marked = rewrite.mark(snapshot, {snapshot.files[1].path: BitMap64([1, 2])})
    assert not marked.rest
    after = replace(snapshot, files=(snapshot.files[0], *marked.adds, snapshot.files[2]))
    assert found(after, "`id` >= 18 AND `id` <= 24") == [18, 20, 23, 24]


def test_rows_at_hand_are_told_by_their_numbers() -> None:
    at_hand = pa.table({"id": pa.array([5, None, 7, 5], pa.int32()), "s": ["a", "b", "c", "d"]})
    chosen = find_in_rows(query("`id` = 5"), at_hand, SCHEMA)
    assert chosen is not None
    assert sorted(chosen[PLACE].to_pylist()) == [0, 3]
