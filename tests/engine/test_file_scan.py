"""Tables that DuckDB reads from their files: the rows of a version, whatever hides, renames or adds some."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import Schema

from nabla.engine.driver import driver_query
from nabla.engine.driver.file_scan import FileScan, scan_change, scan_feed, scan_version
from nabla.storage import changes, files, reading
from nabla.storage.bags import counted
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.files import Snapshot
from nabla.storage.table import StoredTable

FIELDS = ",".join(
    f'{{"name":"{name}","type":"{kind}","nullable":true,"metadata":{{}}}}'
    for name, kind in (("id", "long"), ('it\'s \\"named\\"', "string"), ("price", "decimal(12,2)"))
)
SCHEMA = f'{{"type":"struct","fields":[{FIELDS}]}}'


def _rows(first: int, number: int) -> pa.Table:
    ids = range(first, first + number)
    texts = [None if i % 5 == 0 else f"x{i}" for i in ids]
    prices = pa.array([Decimal(i) for i in ids], pa.decimal128(12, 2))
    return pa.table({"id": pa.array(ids, pa.int64()), 'it\'s "named"': pa.array(texts, pa.string()), "price": prices})


def _table(folder: Path, *numbers: int) -> Snapshot:
    folder.mkdir()
    first, adds = 0, []
    for number in numbers:
        adds += files.write(str(folder), _rows(first, number))
        first += number
    return StoredTable.create(str(folder), SCHEMA, adds).snapshot()


def _hide(snapshot: Snapshot, rng: Random) -> Snapshot:
    """The version with deletion vectors on some of its files."""
    hidden = []
    for file in snapshot.files:
        keep = pa.array([rng.random() < 0.7 for _ in range(file.rows)], pa.bool_())
        hidden.append(file.hiding(Hidden.masked(keep)) if rng.random() < 0.6 else file)
    return replace(snapshot, files=tuple(hidden))


def _read(scanned: FileScan | None) -> list[dict[str, object]]:
    assert scanned is not None
    found = driver_query.run("SELECT * FROM t0", {}, {"t0": scanned})
    assert found is not None
    return found.sort_by([(found.column_names[0], "ascending")]).to_pylist()


@pytest.mark.parametrize("name", ["plain", "it's", 'a "quoted" one', "x=1", "🌊 lake"])
def test_a_version_is_read_with_hidden_rows_left_out_and_others_added(tmp_path: Path, name: str) -> None:
    snapshot = _table(tmp_path / name, 7, 1, 20, 3)
    fields = {"a": "id", "b": 'it\'s "named"'}
    for seed in range(10):
        version = _hide(snapshot, Random(seed))
        more = _rows(1000, 2) if seed % 2 else None
        expected = reading.read(version, list(fields.values()))
        if more is not None:
            expected = pa.concat_tables([expected, more.select(list(fields.values()))])
        scanned = scan_version(version, fields, "t", more)
        assert _read(scanned) == expected.rename_columns(["a", "b"]).sort_by([("a", "ascending")]).to_pylist()
        assert scanned is not None
        assert scanned.rows == expected.num_rows


def test_a_table_without_files_has_no_rows(tmp_path: Path) -> None:
    assert _read(scan_version(_table(tmp_path / "t"), {"a": "price"}, "t")) == []


@pytest.mark.parametrize("name", ["all*", "what?", "a[1]"])
def test_a_folder_that_duckdb_would_take_for_a_pattern_is_left_to_spark(tmp_path: Path, name: str) -> None:
    assert scan_version(_table(tmp_path / name, 3), {"a": "id"}, "t") is None


def test_nothing_outside_of_the_lake_is_read(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    inside, outside = _table(tmp_path / "lake" / "t", 3), _table(tmp_path / "other", 3)
    scanned = scan_version(inside, {"a": "id"}, "t")
    stolen = scan_version(outside, {"a": "id"}, "t")
    assert scanned is not None
    assert stolen is not None
    assert driver_query.run("SELECT * FROM t0", {}, {"t0": replace(scanned, text=stolen.text)}) is None


def test_a_damaged_or_missing_file_is_left_to_spark_which_reports_it(tmp_path: Path) -> None:
    snapshot = _table(tmp_path / "t", 5)
    scanned = scan_version(snapshot, {"a": "id"}, "t")
    assert scanned is not None
    path = Path(snapshot.paths[0])
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b""):
        path.write_bytes(damaged)
        assert driver_query.run("SELECT * FROM t0", {}, {"t0": scanned}) is None
    path.unlink()
    assert driver_query.run("SELECT * FROM t0", {}, {"t0": scanned}) is None


def test_a_recorded_change_is_read_with_its_weights(tmp_path: Path) -> None:
    snapshot = _table(tmp_path / "t", 5)
    signed = counted(_rows(0, 4))
    weights = pc.if_else(pc.greater(signed["id"], 1), pa.scalar(2, pa.int64()), pa.scalar(-1, pa.int64()))
    recorded = changes.record(snapshot.folder, signed.set_column(3, "_n", weights))
    change = changes.Change(snapshot, snapshot, recorded)
    found = [{"k": i, "_n": 2 if i > 1 else -1} for i in range(4)]
    assert _read(scan_change(change, {"k": "id"}, "t")) == found
    gone = replace(change, removed=snapshot.files[:1])
    assert _read(scan_change(gone, {"k": "id"}, "t")).count({"k": 4, "_n": -1}) == 1
    assert len(_read(scan_change(gone, {"k": "id"}, "t"))) == 9
    assert scan_change(replace(gone, added=snapshot.files), {"k": "id"}, "t") is None


def test_a_feed_is_read_between_two_versions(tmp_path: Path) -> None:
    kinds = [("insert", 1), ("delete", 2), ("insert", 2), ("insert", 3)]
    rows = pa.table({"id": [1, 2, 3, 4], "_change_type": [k for k, _ in kinds], "_version": [v for _, v in kinds]})
    folder = tmp_path / "feed"
    folder.mkdir()
    schema = Schema.from_arrow(rows.schema).to_json()
    feed = StoredTable.create(str(folder), schema, files.write(str(folder), rows)).snapshot()
    assert _read(scan_feed(feed, {"k": "id"}, 1, 2, "f")) == [{"k": 2, "_n": -1}, {"k": 3, "_n": 1}]


def test_a_result_that_is_too_large_for_the_driver_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned = scan_version(_table(tmp_path / "t", 500), {"a": "id"}, "t")
    assert scanned is not None
    monkeypatch.setattr(driver_query, "MOST_RETURNED", 1000)
    assert driver_query.run("SELECT * FROM t0", {}, {"t0": scanned}) is None
