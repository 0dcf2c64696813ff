"""Looking keys up in a stored table: exactly the matching rows, and none where they are too many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import Schema

from nabla.engine.driver import row_search
from nabla.engine.driver.row_search import RowSearch
from nabla.storage import files, reading
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.table import Snapshot, StoredTable

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    rows = pa.table({"k": [*range(1000), None, None], "v": [f"v{i % 7}" for i in range(1002)]}, schema=SCHEMA)
    adds = files.write(tmp_path / "t", rows, rows=100)
    return StoredTable.create(tmp_path / "t", Schema.from_arrow(SCHEMA).to_json(), adds).snapshot()


def test_only_matching_rows_are_read(snapshot: Snapshot) -> None:
    found = RowSearch().rows(snapshot, "k", pa.array([3, 950, 5000], pa.int64()), ["v", "k"])
    assert found is not None
    assert found.to_pylist() == [{"v": "v3", "k": 3}, {"v": "v5", "k": 950}]


def test_null_is_found_when_it_is_asked_for(snapshot: Snapshot) -> None:
    found = RowSearch().rows(snapshot, "k", pa.array([None], pa.int64()), ["k"])
    assert found is not None
    assert found.num_rows == 2


def test_nothing_matches_nothing(snapshot: Snapshot) -> None:
    found = RowSearch().rows(snapshot, "k", pa.array([], pa.int64()), ["k", "v"])
    assert found is not None
    assert found.num_rows == 0


def test_too_many_rows_are_left_to_spark(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_search, "MOST_ROWS", 150)
    assert RowSearch().rows(snapshot, "k", pa.array(range(500), pa.int64()), ["k"]) is None


def test_files_between_the_values_are_not_looked_at(snapshot: Snapshot) -> None:
    both = sum(f.rows for f in snapshot.files if any(f.minimum["k"] <= k <= f.maximum["k"] for k in (3, 950)))
    assert both < snapshot.rows / 4
    looking = RowSearch()
    found = looking.rows(snapshot, "k", pa.array([950, 3], pa.int64()), ["k"], most_looked_at=both)
    assert found is not None
    assert sorted(found["k"].to_pylist()) == [3, 950]
    assert looking.looked_at == both
    assert RowSearch().rows(snapshot, "k", pa.array([950, 3], pa.int64()), ["k"], most_looked_at=both - 1) is None


def test_a_table_of_any_size_is_not_looked_at_for_nothing(snapshot: Snapshot) -> None:
    found = RowSearch().rows(snapshot, "k", pa.array([], pa.int64()), ["k"], most_looked_at=0)
    assert found is not None
    assert found.num_rows == 0


@pytest.mark.parametrize("nan", [float("nan"), 2.0])
def test_numbers_that_have_no_order_are_found(tmp_path: Path, nan: float) -> None:
    schema = pa.schema([("k", pa.float64())])
    adds = files.write(tmp_path / "f", pa.table({"k": [1.0, nan, 3.0, nan, 5.0]}, schema=schema), rows=2)
    numbers = StoredTable.create(tmp_path / "f", Schema.from_arrow(schema).to_json(), adds).snapshot()
    found = RowSearch().rows(numbers, "k", pa.array([nan, 5.0]), ["k"])
    assert found is not None
    assert found.num_rows == 3


@pytest.mark.parametrize("hidden", [False, True])
def test_files_that_nobody_has_looked_into_are_scanned_and_then_kept(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    monkeypatch.setattr(row_search, "FEW_ROWS", 50)
    if hidden:
        first, *rest = snapshot.files
        keep = pa.array([i % 2 == 0 for i in range(first.rows)], pa.bool_())
        snapshot = replace(snapshot, files=(first.hiding(Hidden.masked(keep)), *rest))
    values = pa.array([3, 4, 150, 950, 5000], pa.int64())
    expected = reading.read(snapshot).filter(pc.field("k").isin(values)).to_pylist()
    search = RowSearch()
    for columns in (["k"], ["v", "k"], ["k", "v"], ["v"]):
        for again in (search, RowSearch()):
            found = again.rows(snapshot, "k", values, columns, own=True)
            assert found is not None
            assert found.schema == pa.schema([SCHEMA.field(c) for c in columns])
            assert found.sort_by(columns[0]).to_pylist() == sorted(
                ({c: row[c] for c in columns} for row in expected), key=lambda row: row[columns[0]]
            )
    monkeypatch.setattr(row_search, "MOST_ROWS", 2)
    assert RowSearch().rows(snapshot, "k", values, ["k"], own=True) is None


def test_of_many_values_stretches_are_compared_with_files(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of stretches, no file is left out that has a value."""
    wanted = pa.array([*range(0, 90, 3), *range(700, 790, 7), 5000], pa.int64())
    expected = [k for k in wanted.to_pylist() if k < 1000]
    for most in (1, 2, 5, 10, 1000):
        monkeypatch.setattr(row_search, "MOST_COMPARED", most)
        looking = RowSearch()
        found = looking.rows(snapshot, "k", wanted, ["k"])
        assert found is not None
        assert sorted(found["k"].to_pylist()) == expected
        assert looking.looked_at < snapshot.rows or most < 1000
