"""Columns in memory: found again, and never more of them than fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import Schema

from nabla.storage import files, reading
from nabla.storage.column_cache import KeptColumns
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.table import StoredTable


def column(rows: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(range(rows), pa.int64())])


def test_a_column_is_found_again() -> None:
    kept = KeptColumns()
    assert kept.get("a") is None
    kept.put("a", column(3))
    assert kept.get("a") == column(3)


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    kept = KeptColumns(most_bytes=10 * 8)
    for name in "abc":
        kept.put(name, column(3))
    kept.get("a")
    kept.put("d", column(3))
    assert [name for name in "abcd" if kept.get(name) is not None] == ["a", "c", "d"]
    assert kept.bytes == 9 * 8


def test_what_does_not_fit_is_not_kept() -> None:
    kept = KeptColumns(most_bytes=80)
    kept.put("a", column(3))
    kept.put("b", column(11))
    assert kept.get("b") is None
    assert kept.bytes == 24


def test_the_same_column_counts_once() -> None:
    kept = KeptColumns()
    kept.put("a", column(3))
    kept.put("a", column(3))
    assert kept.bytes == 24


def test_a_file_is_read_once_and_rows_that_are_hidden_later_are_left_out(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})
    table = StoredTable.create(tmp_path, Schema.from_arrow(rows.schema).to_json(), files.write(tmp_path, rows))
    snapshot = table.snapshot()
    (file,) = snapshot.files
    assert reading.looked_up(snapshot, file, ["id"]).to_pydict() == {"id": [1, 2, 3]}
    assert reading.looked_up(snapshot, file, ["text", "id"]) == rows.select(["text", "id"])
    (tmp_path / file.path).unlink()
    hidden = file.hiding(Hidden.masked(pa.array([True, False, True])))
    assert reading.looked_up(snapshot, hidden, ["id", "text"]).to_pydict() == {"id": [1, 3], "text": ["a", None]}
