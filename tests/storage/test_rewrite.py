"""Applying a change to a table's files against bags of Python rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import Schema
from hypothesis import given
from hypothesis import strategies as st
from storage_oracle import bag, few, tables

from nabla.storage import bags, files, reading
from nabla.storage.find_rows import may_hold
from nabla.storage.rewrite import Rewrite, absent, rewrite
from nabla.storage.table import Snapshot, StoredTable


def stored(folder: str | Path, *pieces: pa.Table) -> StoredTable:
    """A table with one file a piece."""
    schema = Schema.from_arrow(pieces[0].schema).to_json()
    return StoredTable.create(folder, schema, [file for piece in pieces for file in files.write(folder, piece)])


def applied(table: StoredTable, done: Rewrite) -> Snapshot:
    table.commit(done.adds, done.removes, {}, table.latest())
    return StoredTable(table.folder).snapshot()


@few
@given(tables(number=5), st.sampled_from([4, 1000]))
def test_a_rewrite_deletes_and_inserts_exact_copies(drawn: tuple[pa.Table, ...], rows: int) -> None:
    *pieces, delete, insert = drawn
    with tempfile.TemporaryDirectory() as folder:
        table = stored(folder, *pieces)
        snapshot = table.snapshot()
        done = rewrite(snapshot, delete, insert, rows=rows)
        have, want = bag(pa.concat_tables(pieces)), bag(delete)
        assert bag(done.missing) == want - have
        after = applied(table, done)
        assert bag(reading.read(after)) == (have - want) + bag(insert)
        assert after.rows == reading.read(after).num_rows, "the log knows the number of rows"
        assert bag(reading.read(snapshot)) == have, "the old version is untouched"
        assert all(file.rows <= 2 * rows for file in done.adds)


@few
@given(tables(number=2))
def test_statistics_never_exclude_a_row_that_is_there(drawn: tuple[pa.Table, ...]) -> None:
    here, wanted = drawn
    with tempfile.TemporaryDirectory() as folder:
        table = stored(folder, here)
        for snapshot in (table.snapshot(), StoredTable(folder).snapshot()):
            for file in snapshot.files:
                assert bag(wanted).keys() & bag(here).keys() <= bag(may_hold(file, wanted)).keys()


def numbers(start: int, end: int) -> pa.Table:
    return pa.table({"id": pa.arange(start, end), "text": [f"row {i}" for i in range(start, end)]})


def test_only_files_that_hold_deleted_rows_are_rewritten(tmp_path: Path) -> None:
    table = stored(tmp_path, numbers(0, 100), numbers(100, 200), numbers(150, 250))
    first, second, third = table.snapshot().files
    done = rewrite(table.snapshot(), numbers(120, 121))
    assert done.removes == (second,)
    assert applied(table, done).rows == 299
    # Within the bounds of a file, but not in it.
    absent = pa.table({"id": [120], "text": ["another row"]})
    done = rewrite(table.snapshot(), absent)
    assert (done.adds, done.removes) == ((), ())
    assert done.missing.to_pylist() == [{"id": 120, "text": "another row", "_n": 1}]
    assert first in table.snapshot().files
    assert third in table.snapshot().files


def test_copies_are_taken_from_as_many_files_as_needed(tmp_path: Path) -> None:
    table = stored(tmp_path, *[numbers(0, 2)] * 4)
    delete = numbers(0, 1).append_column(bags.N, pa.array([3]))
    assert bag(reading.read(applied(table, rewrite(table.snapshot(), delete)))) == {(0, "row 0"): 1, (1, "row 1"): 4}


def test_absent_rows_are_found_without_writing(tmp_path: Path) -> None:
    table = stored(tmp_path, numbers(0, 2), numbers(1, 3))
    wanted = numbers(1, 4).append_column(bags.N, pa.array([3, 1, 1]))
    before = sorted(tmp_path.rglob("*"))
    assert bag(absent(table.snapshot(), wanted)) == {(1, "row 1"): 1, (3, "row 3"): 1}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_without_rows_left_disappears(tmp_path: Path) -> None:
    table = stored(tmp_path, numbers(0, 10))
    done = rewrite(table.snapshot(), numbers(0, 10))
    assert done.adds == ()
    assert applied(table, done).files == ()


def test_many_small_changes_leave_few_files(tmp_path: Path) -> None:
    table = stored(tmp_path, numbers(0, 1000))
    for i in range(50):
        done = rewrite(table.snapshot(), numbers(i, i + 1), numbers(1000 + i, 1001 + i), key=["id"], rows=400)
        table.commit(done.adds, done.removes, {}, table.latest())
        assert len(table.snapshot().files) < 24
    assert bag(reading.read(table.snapshot())) == bag(numbers(50, 1050))


def test_folded_files_are_sorted_by_the_key_and_of_the_right_size(tmp_path: Path) -> None:
    table = stored(tmp_path, *[numbers(i, i + 1) for i in reversed(range(40))])
    done = rewrite(table.snapshot(), insert=numbers(40, 41), key=["id"], rows=20)
    after = applied(table, done)
    assert sorted((file.minimum["id"], file.maximum["id"]) for file in after.files) == [(0, 19), (20, 39), (40, 40)]


def test_files_are_small_where_that_saves_rewriting_and_never_many() -> None:
    assert [files.target_rows(total) for total in (0, 10**6, 10**7, 10**10)] == [16_384, 31_250, 312_500, 1_048_576]


def test_a_fold_is_bounded(tmp_path: Path) -> None:
    table = stored(tmp_path, *[numbers(i, i + 1) for i in range(40)])
    assert len(rewrite(table.snapshot(), insert=numbers(50, 51), rows=5).removes) == 10
