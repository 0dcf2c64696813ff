"""A disk that is full, forbidden or broken: every error has a code, nothing is lost, and repeating succeeds later."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from lake_story import ROWS, STEPS, check, content, create, rows, step

from nabla.dev.testing.faulty_machine import FaultyMachine
from nabla.errors import NablaError
from nabla.storage import files, machine, reading
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.lakelog import LakeLog
from nabla.storage.table import StoredTable


def tell(path: Path) -> None:
    """The story from where it is, each step made once whatever was made of it before."""
    lake = LakeLog.open(path) if LakeLog.exists(path) else LakeLog.create(path)
    for number in range(lake.state().version, STEPS):
        step(lake, number)


def error_of(work: Callable[[], object]) -> NablaError | None:
    try:
        work()
    except NablaError as error:
        return error
    return None


@pytest.mark.parametrize(("number", "after"), [(errno.ENOSPC, False), (errno.EACCES, False), (errno.EIO, True)])
def test_a_fault_at_any_write_has_a_code_and_repeating_succeeds(tmp_path: Path, number: int, after: bool) -> None:
    whole = FaultyMachine(number)
    with machine.use(whole):
        tell(tmp_path / "whole")
    for fails in range(number % 5, whole.done, 11):
        path = tmp_path / str(fails)
        with machine.use(FaultyMachine(number, fails, after=after)):
            error = error_of(lambda path=path: tell(path))
        if error is not None:
            assert error.code == "NABLA_WRITE_FAILED"
            assert str(path) in error.place
            assert error.remedy
        if LakeLog.exists(path):
            check(LakeLog.open(path))  # nothing of the step that failed, and all of those before
        tell(path)
        check(LakeLog.open(path))


def entry(name: str, part: Part) -> Entry:
    return Entry(name, "table", {"key": "id"}, {"data": part})


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    log = LakeLog.create(tmp_path / "lake")
    made: dict[str, Entry | None] = {name: entry(name, create(log, name, ROWS, rows(0))) for name in ("a", "b")}
    log.commit(made, log.state(), "create tables")
    return log


def insert(lake: LakeLog, name: str, *ids: int) -> LakeState:
    state = lake.state()
    part = state.entries[name].parts["data"]
    moved = part.advanced(files.write(lake.folder(part), rows(*ids)))
    return lake.commit({name: entry(name, moved)}, state, "insert")


def no_commits_to(lake: LakeLog, name: str) -> FaultyMachine:
    folder = lake.folder(lake.state().entries[name].parts["data"])
    return FaultyMachine(errno.ENOSPC, on=os.path.join(folder, "_delta_log"))


def ids(lake: LakeLog, name: str) -> list[int]:
    return sorted(row[0] for row in content(lake, lake.state().entries[name].parts["data"]))


def test_a_commit_stands_although_a_table_cannot_be_written(lake: LakeLog, caplog: pytest.LogCaptureFixture) -> None:
    with machine.use(no_commits_to(lake, "a")), caplog.at_level(logging.WARNING):
        insert(lake, "a", 1)
        assert "The commit stands" in caplog.text
        assert "No space left" in caplog.text
        assert ids(lake, "a") == [0, 1]
        other = LakeLog.open(lake.path)
        assert ids(other, "a") == [0, 1]
        insert(other, "b", 2)
        assert (ids(other, "a"), ids(lake, "b")) == ([0, 1], [0, 2])
        with pytest.raises(NablaError, match="NABLA_WRITE_FAILED"):
            insert(lake, "a", 3)
        assert ids(LakeLog.open(lake.path), "a") == [0, 1]
        earlier = lake.state(lake.state().version - 1)
        assert sorted(content(lake, earlier.entries["a"].parts["data"])) == [(0,), (1,)]
    insert(lake, "a", 3)
    assert ids(LakeLog.open(lake.path), "a") == [0, 1, 3]
    table = StoredTable(lake.folder(lake.state().entries["a"].parts["data"]))
    assert (table.latest(), table.snapshot().rows) == (2, 3)


def test_whoever_may_only_read_opens_a_lake_with_a_promise_pending(lake: LakeLog) -> None:
    with machine.use(no_commits_to(lake, "a")):
        insert(lake, "a", 1)
    with machine.use(FaultyMachine(errno.EACCES, on=lake.path)):
        reader = LakeLog.open(lake.path)
        assert ids(reader, "a") == [0, 1]
        assert reader.table(reader.state().entries["a"].parts["data"]).timestamp(1) > 0
    assert ids(LakeLog.open(lake.path), "a") == [0, 1]


def test_an_error_that_comes_after_the_commit_was_made_does_not_deny_it(lake: LakeLog) -> None:
    """As a network file system may report, or a folder that cannot be synced: who repeats the commit would make it twice."""
    log = os.path.join(lake.path, "_nabla", "log", "_delta_log")
    with machine.use(FaultyMachine(errno.EIO, on=f"{log}/00000000000000000002.json", after=True)):
        assert insert(lake, "a", 1).version == 2
    assert ids(LakeLog.open(lake.path), "a") == [0, 1]


def log_of(lake: LakeLog, name: str) -> Path:
    return Path(lake.folder(lake.state().entries[name].parts["data"])) / "_delta_log"


@pytest.mark.parametrize("left", [0.0, 0.5, 0.8])
def test_a_commit_that_lost_its_content_is_noticed(lake: LakeLog, left: float) -> None:
    insert(lake, "a", 1)
    path = log_of(lake, "a") / f"{1:020d}.json"
    os.truncate(path, int(path.stat().st_size * left))
    reader = LakeLog.open(lake.path)
    assert ids(reader, "a") == [0, 1]  # the lake's newest commit still says what it was
    with pytest.raises(NablaError, match=r"NABLA_WRITE_FAILED.*fsck"):
        insert(reader, "a", 2)
    insert(lake, "b", 2)
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        ids(LakeLog.open(lake.path), "a")
    assert ids(LakeLog.open(lake.path), "b") == [0, 2]


def test_a_commit_that_lost_a_whole_line_is_noticed(lake: LakeLog) -> None:
    insert(lake, "a", 1)
    insert(lake, "b", 2)
    path = log_of(lake, "a") / f"{1:020d}.json"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(NablaError, match="has 1 of 2 actions"):
        ids(LakeLog.open(lake.path), "a")


def test_rows_that_the_catalog_knows_and_the_table_lacks_are_noticed(lake: LakeLog) -> None:
    state = lake.state()
    known = entry("a", state.entries["a"].parts["data"])
    lake.commit({"a": Entry("a", "table", known.definition, known.parts, {"rows": 2})}, state, "count")
    with pytest.raises(NablaError, match="has 1 rows instead of 2"):
        ids(LakeLog.open(lake.path), "a")


def test_an_empty_commit_of_the_lake_is_noticed(lake: LakeLog) -> None:
    insert(lake, "a", 1)
    os.truncate(os.path.join(lake.path, "_nabla", "log", "_delta_log", f"{2:020d}.json"), 0)
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        LakeLog.open(lake.path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a Parquet file at all, but long enough to be one"])
def test_a_damaged_data_file_is_named(lake: LakeLog, content: bytes) -> None:
    part = lake.state().entries["a"].parts["data"]
    snapshot = lake.snapshot(part)
    Path(snapshot.paths[0]).write_bytes(content)
    with pytest.raises(NablaError, match=snapshot.files[0].path) as error:
        reading.read(snapshot)
    assert error.value.code == "NABLA_READ_FAILED"


def test_a_data_file_with_damaged_pages_is_named(lake: LakeLog) -> None:
    snapshot = lake.snapshot(lake.state().entries["a"].parts["data"])
    path = Path(snapshot.paths[0])
    whole = path.read_bytes()
    for start in range(4, 40, 3):
        path.write_bytes(whole[:start] + b"\xff\xff\xff\xff" + whole[start + 4 :])
        error = error_of(lambda: reading.read(snapshot))
        assert error is None or error.code == "NABLA_READ_FAILED"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_must_not_be_read_is_named(lake: LakeLog) -> None:
    snapshot = lake.snapshot(lake.state().entries["a"].parts["data"])
    os.chmod(snapshot.paths[0], 0)
    with pytest.raises(NablaError, match="NABLA_READ_FAILED"):
        reading.read(snapshot)
    os.chmod(snapshot.paths[0], stat.S_IRUSR)
