"""A bank whose processes are killed anywhere in a transaction or a refresh, while others write, refresh and read it."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import threading
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.dev.testing import faults, kills, load
from nabla.dev.testing.bank import audit, embezzle, found_bank, transfer

pytestmark = pytest.mark.spark

# A server that has imported everything and used nothing: its forks start in milliseconds and inherit no JVM.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["nabla.dev.testing.kills", "nabla.lake", "pyarrow.dataset", "pyarrow.acero"])


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    path = tmp_path_factory.mktemp("bank") / "bank"
    found_bank(path, spark)
    audit(path)
    return path


def killed(path: Path, point: str) -> bool:
    process = context.Process(target=load.die, args=(str(path), point, 0))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_a_killed_process_leaves_the_books_balanced(bank: Path, tmp_path: Path, spark: SparkSession) -> None:
    assert len(load.POINTS) >= 20
    for point in load.POINTS:
        path = tmp_path / point.replace(":", "-")
        shutil.copytree(bank, path)
        with _others(path) as acknowledged:
            assert killed(path, point), point
        audit(path, acknowledged)
        lake = nabla.open(path)
        lake.refresh(mode="incremental")
        transfer(lake, "after", Random(0))
        embezzle(lake, "never", Random(0))
        lake.refresh(mode="incremental")
        audit(path, [*acknowledged, "after"])


class _others:
    """Somebody else writes and somebody looks, all the while."""

    def __init__(self, path: Path) -> None:
        self.path, self.done, self.acknowledged = path, threading.Event(), list[str]()
        self.wrong: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._write, self._look)]

    def __enter__(self) -> list[str]:
        for thread in self.threads:
            thread.start()
        return self.acknowledged

    def __exit__(self, *_: object) -> None:
        self.done.set()
        for thread in self.threads:
            thread.join()
        assert self.wrong == []

    def _run(self, work: object) -> None:
        try:
            while not self.done.is_set():
                work()  # type: ignore[operator]
        except BaseException as error:
            self.wrong.append(error)

    def _write(self) -> None:
        number = f"other-{len(self.acknowledged)}"
        try:
            transfer(nabla.open(self.path), number, Random(number))
        except nabla.Conflict:
            return
        self.acknowledged.append(number)

    def _look(self) -> None:
        audit(self.path)


def test_a_bank_under_load_stays_balanced(bank: Path, tmp_path: Path) -> None:
    path = tmp_path / "bank"
    shutil.copytree(bank, path)
    assert "all invariants held" in load.run(path, 6.0, context)  # type: ignore[arg-type]


def test_processes_killed_at_any_moment_leave_the_books_balanced(bank: Path, tmp_path: Path) -> None:
    path = tmp_path / "bank"
    shutil.copytree(bank, path)
    killed = kills.run(path, tmp_path / "acknowledged", 6, Random(1), context)
    assert killed.total() >= 6


def test_a_disk_that_fails_at_any_write_of_a_call_loses_nothing(
    bank: Path, tmp_path: Path, spark: SparkSession
) -> None:
    path = tmp_path / "bank"
    shutil.copytree(bank, path)
    faults.add_cards(path, spark)
    ended = dict(faults.run(path, tmp_path, faults.CALLS, every=211))
    assert ended.keys() == faults.CALLS.keys()
    assert sum(outcomes["NABLA_WRITE_FAILED"] for outcomes in ended.values()) > 3
