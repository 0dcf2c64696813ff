"""Signs of life: a vacuum keeps what living writers have written, and a writer that waits gets through."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lake_story import ROWS, create, rows

from nabla.errors import NablaError
from nabla.storage import files, locations
from nabla.storage.boundary import LEASES
from nabla.storage.lakelog import LakeLog
from nabla.storage.uncommitted import EXPIRES, TURN
from nabla.storage.vacuum import vacuum


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    return LakeLog.create(tmp_path / "lake")


def staged(lake: LakeLog) -> str:
    folder = lake.new_staging()
    files.write(folder, rows(1, 2))
    return folder


def backdate(path: str) -> None:
    old = os.stat(path).st_mtime - EXPIRES - 1
    os.utime(path, (old, old))


def test_what_a_living_writer_has_written_survives_a_vacuum(lake: LakeLog) -> None:
    lease = lake.leases.take()
    folder, table = staged(lake), create(lake, "unborn", ROWS, rows(3))
    vacuum(LakeLog.open(lake.path), {}, grace=0)
    assert locations.parquet_files(folder)
    assert lake.snapshot(table).rows == 1
    lease.close()
    vacuum(lake, {}, grace=0)
    assert not os.path.exists(folder)
    assert not os.path.exists(lake.folder(table))
    assert os.listdir(os.path.join(lake.path, LEASES)) == []


def test_a_writer_that_died_protects_nothing(lake: LakeLog) -> None:
    lease = lake.leases.take()
    folder = staged(lake)
    (name,) = os.listdir(os.path.join(lake.path, LEASES))
    backdate(os.path.join(lake.path, LEASES, name))
    vacuum(lake, {}, grace=0)
    assert not os.path.exists(folder)
    assert os.listdir(os.path.join(lake.path, LEASES)) == []
    lease.close()


def test_a_lease_that_nobody_holds_any_more_ends(lake: LakeLog) -> None:
    lake.leases.take()
    assert os.listdir(os.path.join(lake.path, LEASES)) == []


def test_rows_that_were_staged_and_are_gone_are_an_error(lake: LakeLog) -> None:
    folder = staged(lake)
    vacuum(lake, {}, grace=0)
    with pytest.raises(NablaError, match="NABLA_VACUUMED"):
        files.adopt(folder, lake.path)
    with pytest.raises(NablaError, match="NABLA_VACUUMED"):
        files.read_folder(folder)


def test_a_negative_grace_is_refused(lake: LakeLog) -> None:
    with pytest.raises(NablaError, match="NABLA_GRACE"):
        vacuum(lake, {}, grace=-1)


def test_a_vacuum_prints_a_summary(lake: LakeLog) -> None:
    for _ in range(3):
        staged(lake)
    done = vacuum(lake, {}, grace=0)
    assert len(done.paths) == 3
    assert str(done) == f"3 files and folders, {done.bytes} bytes"


def test_writers_wait_for_the_one_whose_turn_it_is(lake: LakeLog) -> None:
    order: list[str] = []

    def write(name: str, wanted: bool) -> None:
        with lake.leases.turn(wanted):
            order.append(name)

    with ThreadPoolExecutor(3) as pool:
        with lake.leases.turn(wanted=True):
            waiting = [pool.submit(write, "other", False), pool.submit(write, "impatient", True)]
            assert not any(future.done() for future in waiting)
            order.append("first")
        for future in waiting:
            future.result(timeout=20)
    assert order[0] == "first"
    assert sorted(order) == ["first", "impatient", "other"]


def test_nobody_waits_for_a_writer_that_died(lake: LakeLog) -> None:
    turn = os.path.join(lake.path, TURN)
    Path(turn).touch()
    backdate(turn)
    with lake.leases.turn(wanted=False):
        assert not os.path.exists(turn)
