"""Looking keys up in a stored table: exactly the matching rows, and none where they are too many."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Schema

from nabla.engine import matching
from nabla.engine.matching import Matching
from nabla.storage import files
from nabla.storage.table import Snapshot, StoredTable

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    rows = pa.table({"k": [*range(1000), None, None], "v": [f"v{i % 7}" for i in range(1002)]}, schema=SCHEMA)
    adds = files.write(tmp_path / "t", rows, rows=100)
    return StoredTable.create(tmp_path / "t", Schema.from_arrow(SCHEMA).to_json(), adds).snapshot()


def test_only_matching_rows_are_read(snapshot: Snapshot) -> None:
    found = Matching().rows(snapshot, "k", pa.array([3, 950, 5000], pa.int64()), ["v", "k"])
    assert found is not None
    assert found.to_pylist() == [{"v": "v3", "k": 3}, {"v": "v5", "k": 950}]


def test_null_is_found_when_it_is_asked_for(snapshot: Snapshot) -> None:
    found = Matching().rows(snapshot, "k", pa.array([None], pa.int64()), ["k"])
    assert found is not None
    assert found.num_rows == 2


def test_nothing_matches_nothing(snapshot: Snapshot) -> None:
    found = Matching().rows(snapshot, "k", pa.array([], pa.int64()), ["k", "v"])
    assert found is not None
    assert found.num_rows == 0


def test_too_many_rows_are_left_to_spark(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_ROWS", 150)
    assert Matching().rows(snapshot, "k", pa.array(range(500), pa.int64()), ["k"]) is None
