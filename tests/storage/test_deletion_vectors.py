"""Deletion vectors: bitmaps as the Delta protocol stores them, and tables whose deleted rows are marked."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, Schema
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from storage_oracle import bag, few, tables

from nabla.errors import NablaError
from nabla.storage import deletion_vectors, files, reading, rewrite
from nabla.storage import find_rows as find_rows_module
from nabla.storage.boundary import LOG
from nabla.storage.catalog import MARKS_ROWS, Entry, Part
from nabla.storage.changes import between, signed
from nabla.storage.deletion_vectors import Hidden, Vector, store
from nabla.storage.find_rows import Located, fetch_rows
from nabla.storage.fsck import examine_lake
from nabla.storage.lakelog import LakeLog
from nabla.storage.log_replay import replay
from nabla.storage.rewrite import pays_to_rewrite
from nabla.storage.table import StoredTable
from nabla.storage.vacuum import vacuum

PLAIN = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows of small files be marked, too."""
    monkeypatch.setattr(rewrite, "MARKED_FROM", 0)
    monkeypatch.setattr(rewrite, "MOST_HIDDEN", 0.7)


def table_with(folder: str | Path, *pieces: pa.Table) -> StoredTable:
    schema = Schema.from_arrow(pieces[0].schema).to_json()
    adds = [file for piece in pieces for file in files.write(folder, piece)]
    return StoredTable.create(folder, schema, adds, marks_rows=True)


def change(table: StoredTable, delete: pa.Table, insert: pa.Table | None = None, known: Located | None = None) -> int:
    snapshot = table.snapshot()
    done = rewrite.rewrite(snapshot, delete, insert, known=known)
    assert done.missing.num_rows == 0
    return table.commit(done.adds, done.removes, {}, snapshot.version)


def numbers(start: int, end: int) -> pa.Table:
    return pa.table({"id": range(start, end), "text": [f"row {i % 3}" for i in range(start, end)]}, schema=PLAIN)


def vectors(table: StoredTable) -> list[Vector | None]:
    return [file.hidden.vector for file in StoredTable(table.folder).snapshot().files if file.hidden]


@given(
    st.lists(st.tuples(st.integers(0, 70_000), st.sets(st.integers(0, 70_000))), min_size=1, max_size=4), st.booleans()
)
def test_stored_vectors_hide_what_was_marked(drawn: list[tuple[int, set[int]]], inline: bool) -> None:
    marks = [(max(written, *rows, 0) + 1, BitMap64(rows)) for written, rows in drawn]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion_vectors, "INLINE_BYTES", 1 << 30 if inline else 0)
        for hidden, (written, rows) in zip(store(folder, marks), marks, strict=True):
            read = Hidden.from_json(hidden.to_json())
            assert read == hidden
            assert read.marked(folder) == rows
            keep = read.keep(folder)
            assert [i for i, here in enumerate(keep.to_pylist()) if not here] == sorted(rows)
            assert len(keep) == written
        assert len(os.listdir(folder)) == (0 if inline else 1)


def test_the_file_of_a_vector_is_found_as_in_the_example_of_the_protocol() -> None:
    vector = Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert vector.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_a_damaged_vector_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)
    (hidden,) = store(str(tmp_path), [(100, BitMap64([3, 5]))])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5] + b"\7" + file.read_bytes()[-4:])
    with pytest.raises(NablaError, match="checksum"):
        Hidden.from_json(hidden.to_json()).marked(str(tmp_path))


def test_a_file_with_many_hidden_rows_or_few_rows_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    file = files.DataFile("x", 30_000, 1)
    assert not pays_to_rewrite(file, 10_000)
    assert pays_to_rewrite(file, 10_001)
    assert pays_to_rewrite(files.DataFile("x", 100, 1), 1)


def test_rows_are_marked_and_their_file_stays(tmp_path: Path) -> None:
    table = table_with(tmp_path, numbers(0, 100))
    (before,) = table.snapshot().files
    change(table, numbers(3, 5))
    change(table, numbers(50, 51))
    (after,) = StoredTable(tmp_path).snapshot().files
    assert (after.path, after.rows, after.written) == (before.path, 97, 100)
    assert not list(tmp_path.glob("*.bin")), "few rows are marked in the log"


def test_a_row_that_stands_in_several_files_goes_as_often_as_it_is_deleted(tmp_path: Path) -> None:
    table = table_with(tmp_path, *[pa.concat_tables([numbers(0, 10)] * 2)] * 3)
    change(table, pa.concat_tables([numbers(4, 5)] * 5))
    left = Counter(reading.read(StoredTable(tmp_path).snapshot())["id"].to_pylist())
    assert left == Counter({i: 1 if i == 4 else 6 for i in range(10)})


def test_places_that_are_known_are_used_and_others_are_looked_for(tmp_path: Path) -> None:
    table = table_with(tmp_path, pa.concat_tables([numbers(0, 10)] * 2))
    (file,) = table.snapshot().files
    known = Located(numbers(4, 6), pa.array([file.path] * 2), pa.array([14, 15]))
    change(table, pa.concat_tables([numbers(4, 5)] * 2), known=known)
    snapshot = StoredTable(tmp_path).snapshot()
    (hidden,) = (file.hidden for file in snapshot.files)
    assert hidden is not None
    assert set(hidden.marked(str(tmp_path))) == {4, 14}


def read_by_others(folder: str) -> list[Counter[Any]]:
    """The rows as other readers of Delta see them."""
    found = [pa.table(batch) for batch in QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t")]
    seen = [bag(pa.concat_tables([PLAIN.empty_table(), *(rows.cast(PLAIN) for rows in found)]))]
    try:
        import polars
    except ImportError:
        return seen
    return [*seen, bag(polars.read_delta(folder).to_arrow().cast(PLAIN))]


@few
@given(st.randoms(use_true_random=False), st.integers(1, 14), st.booleans())
def test_random_histories_are_what_a_model_and_other_readers_see(rng: random.Random, steps: int, inline: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion_vectors, "INLINE_BYTES", 1 << 30 if inline else 0)
        pieces = [numbers(rng.randrange(9), rng.randrange(9, 30)) for _ in range(rng.randrange(1, 4))]
        table, model = table_with(folder, *pieces), [bag(pa.concat_tables(pieces))]
        for _ in range(steps):
            rows = reading.read(table.snapshot())
            share = rng.choice([0, 0.1, 0.5, 1])
            gone = rows.take(pa.array([i for i in range(rows.num_rows) if rng.random() < share], pa.int64()))
            new = numbers(0, rng.choice([0, 0, 5, 20]))
            change(table, gone, new)
            model.append(model[-1] - bag(gone) + bag(new))
        for version, expected in enumerate(model):
            assert bag(reading.read(replay(folder, version))) == expected
            if version:
                net = Counter(expected)
                net.subtract(model[version - 1])
                moved = signed(between(StoredTable(folder), version - 1, version))
                assert bag(moved) == Counter({row: n for row, n in net.items() if n})
        for seen in read_by_others(folder):
            assert seen == model[-1]


@few
@given(tables(number=4))
def test_rows_of_all_types_are_found_and_marked(drawn: tuple[pa.Table, ...]) -> None:
    *pieces, delete, insert = drawn
    with tempfile.TemporaryDirectory() as folder:
        table = table_with(folder, *pieces)
        have, want = bag(pa.concat_tables(pieces)), bag(delete)
        snapshot = table.snapshot()
        done = rewrite.rewrite(snapshot, delete, insert)
        assert bag(done.missing) == want - have
        table.commit(done.adds, done.removes, {}, 0)
        after = StoredTable(folder).snapshot()
        assert bag(reading.read(after)) == (have - want) + bag(insert)
        assert after.rows == reading.read(after).num_rows


def test_a_vacuum_keeps_the_vectors_of_versions_that_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)
    lake = LakeLog.create(tmp_path / "lake")
    path = lake.new_path("t")
    folder = Path(lake.folder(path))
    table_with(folder, numbers(0, 100))
    lake.commit({"t": Entry("t", "table", {MARKS_ROWS: True}, {"data": Part(path, 0)})}, lake.state(), "create")
    for number in range(3):
        entry = lake.state().entries["t"]
        done = rewrite.rewrite(lake.snapshot(entry.parts["data"]), numbers(number, number + 1))
        moved = replace(entry, parts={"data": entry.parts["data"].advanced(done.adds, done.removes)})
        lake.commit({"t": moved}, lake.state(), "transaction")
    assert len(list(folder.glob("*.bin"))) == 3
    vacuum(lake, {path: 2}, grace=0)
    assert len(list(folder.glob("*.bin"))) == 2
    table = StoredTable(folder)
    assert [reading.read(table.snapshot(version)).num_rows for version in (2, 3)] == [98, 97]
    vacuum(lake, {}, grace=0)
    (left,) = folder.glob("*.bin")
    assert examine_lake(lake.path).sound
    left.write_bytes(left.read_bytes()[:-1] + b"?")
    (damage,) = examine_lake(lake.path).damages
    assert "deletion vector" in damage.what


def test_only_a_lake_with_marked_rows_has_the_new_format(tmp_path: Path) -> None:
    lake = LakeLog.create(tmp_path / "lake")
    for version, marking in enumerate(({}, {MARKS_ROWS: True}, {}), 1):
        path = lake.new_path("t")
        table_with(lake.folder(path), numbers(0, 3))
        lake.commit({"t": Entry("t", "table", marking, {"data": Part(path, 0)})}, lake.state(), "create")
        said = StoredTable(tmp_path / "lake" / LOG).metadata(version)
        assert said["format"] == (2 if marking else 1)


@few
@given(tables(number=2), st.randoms(use_true_random=False))
def test_rows_are_fetched_by_their_places(drawn: tuple[pa.Table, ...], rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        snapshot = table_with(folder, *drawn).snapshot()
        places = {
            file.path: pa.array([i for i in range(file.written) if rng.random() < 0.5], pa.int64())
            for file in snapshot.files
        }
        small = fetch_rows(snapshot, places)
        patch.setattr(find_rows_module, "_LARGE", 0)
        large = fetch_rows(snapshot, places)
        assert large.files == small.files
        assert large.places == small.places
        assert [bag(large.rows.slice(i, 1)) for i in range(large.rows.num_rows)] == [
            bag(reading.read_file(snapshot, file).slice(i.as_py(), 1))
            for file in snapshot.files
            for i in places[file.path]
        ]
        assert bag(small.rows) == bag(large.rows)
