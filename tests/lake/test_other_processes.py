"""Refreshes in processes of their own. One killed at any point and repeated gives the exact view, and the feed holds every
change once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from comparing import bag, feed
from dying import refresh_until
from pyspark.sql import SparkSession

import nabla

pytestmark = pytest.mark.spark

# Where the process dies: before anything is written, between the files, around the commit point, and while the Delta
# commits that the lake's log has promised are being made (a view's data, its feed and its state).
POINTS = [
    "refresh.computed",
    "files.write:2",
    "refresh.written",
    "lake.commit",
    "lake.committed",
    "roll.part:2",
    "roll.part:3",
]

# A server that has imported everything and used nothing: its forks start in milliseconds and inherit no JVM.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["nabla.dev.testing.kills", "nabla.lake", "pyarrow.dataset", "pyarrow.acero"])

WITH_SPARK = """
import sys, nabla
from nabla.dev.testing.session import quick_session
from nabla.engine.driver import driver_query
from nabla.storage import machine
driver_query.MOST_BYTES = -1
lake = nabla.open(sys.argv[1], spark=quick_session("killed", {"spark.master": "local[1]"}))
machine.arm("refresh.computed")
lake.refresh(mode="incremental")
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A lake with a stale view that has data, state and feed."""
    folder = tmp_path_factory.mktemp("prepared") / "lake"
    lake = nabla.open(folder, spark=spark)
    lake.create_table("t", schema="g INT, x INT", data=[(i % 3, i) for i in range(30)])
    lake.create_view("v", "SELECT g, SUM(x) AS s, MAX(x) AS m FROM t GROUP BY g")
    with lake.transaction() as tx:
        tx.insert("t", [(0, 100), (5, 1)])
    lake.refresh(mode="incremental")
    with lake.transaction() as tx:
        tx.insert("t", [(1, 200), (6, 2)])
        tx.delete("t", where="g = 2")
    return folder


def ended(folder: Path, point: str) -> int | None:
    """The exit code of a process that refreshed the lake."""
    if point == "with Spark":
        return subprocess.run([sys.executable, "-c", WITH_SPARK, str(folder)], env={**os.environ}).returncode
    process = context.Process(target=refresh_until, args=(str(folder), point))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("point", [*POINTS, "with Spark"])
def test_a_killed_refresh_loses_and_doubles_nothing(
    prepared: Path, tmp_path: Path, spark: SparkSession, point: str
) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(prepared, folder)
    assert ended(folder, point) == -signal.SIGKILL
    lake = nabla.open(folder, spark=spark)
    lake.verify()  # whatever version it is at, it is exact
    lake.refresh(mode="incremental")
    lake.verify()
    assert bag(lake.read("v")) == {(0, 235, 100): 1, (1, 345, 200): 1, (5, 1, 1): 1, (6, 2, 2): 1}
    assert lake.status()["v"].version == 2
    inserted, deleted = feed(lake, "v", 1)
    assert inserted == {(1, 345, 200): 1, (6, 2, 2): 1}
    assert deleted == {(1, 145, 28): 1, (2, 155, 29): 1}
    assert lake.refresh()["v"].mode == "skip"


def test_a_small_refresh_does_not_start_spark(prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(prepared, folder)
    child = f"""
import nabla
from pyspark import SparkContext
report = nabla.open({str(folder)!r}).refresh(mode="incremental")["v"]
assert (report.inserted, report.deleted, report.jobs) == (2, 2, 0), report
assert SparkContext._active_spark_context is None
"""
    subprocess.run([sys.executable, "-c", child], check=True)
