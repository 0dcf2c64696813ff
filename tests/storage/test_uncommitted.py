"""Files that were written for a commit can be deleted, by whatever thread they were written."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from nabla.storage import files
from nabla.storage.lakelog import LakeLog
from nabla.storage.uncommitted import Uncommitted, in_thread

ROWS = pa.table({"a": list(range(1000))})


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_only_files_that_were_written_inside_are_deleted(tmp_path: Path) -> None:
    files.write(tmp_path, ROWS)
    before = names(tmp_path)
    with Uncommitted() as uncommitted:
        files.write(tmp_path, ROWS, rows=100)
        files.write(tmp_path, ROWS, below="deeper")
    files.write(tmp_path, ROWS)
    uncommitted.discard()
    assert len(names(tmp_path)) == len(before) + 2  # the last file, and the subfolder
    assert set(before) < set(names(tmp_path))
    assert names(tmp_path / "deeper") == []


def test_files_of_another_thread_are_noted_if_it_is_told_so(tmp_path: Path) -> None:
    with Uncommitted() as uncommitted, ThreadPoolExecutor(2) as pool:
        pool.submit(in_thread(files.write), tmp_path, ROWS).result()
        pool.submit(files.write, tmp_path, ROWS).result()
    uncommitted.discard()
    assert len(names(tmp_path)) == 1


def test_one_inside_of_another_notes_its_own_files(tmp_path: Path) -> None:
    with Uncommitted() as outer:
        files.write(tmp_path, ROWS)
        with Uncommitted() as inner:
            files.write(tmp_path, ROWS)
        inner.discard()
        assert len(names(tmp_path)) == 1
        files.write(tmp_path, ROWS)
    outer.discard()
    assert names(tmp_path) == []


def test_the_folder_of_a_new_table_goes_as_a_whole(tmp_path: Path) -> None:
    log = LakeLog.create(tmp_path / "lake")
    with Uncommitted() as uncommitted:
        folder = log.folder(log.new_path("t"))
        files.write(folder, ROWS)
    assert os.listdir(folder)
    uncommitted.discard()
    assert not os.path.exists(folder)


def test_the_log_knows_which_commits_were_made(tmp_path: Path) -> None:
    log = LakeLog.create(tmp_path / "lake")
    start = log.state()
    log.commit({}, start, "first", transaction="a")
    log.commit({}, log.state(), "second", transaction="b")
    assert [log.has(name, start.version) for name in ("a", "b", "c")] == [True, True, False]
    assert not log.has("a", start.version + 1)
