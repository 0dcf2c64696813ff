"""Full disks, vacuums and many writers: what a transaction reports is what has happened."""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage import machine
from nabla.storage.machine import Machine

pytestmark = pytest.mark.spark

NOW = datetime.timedelta(0)


class NoCommits(Machine):
    """A disk on which no commit of a table can be written."""

    def link(self, source: str, target: str) -> None:
        if f"{os.sep}tables{os.sep}" in target:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        super().link(source, target)


def ids(lake: Lake) -> list[int]:
    return sorted(row[0] for row in lake.read("t").select("id").collect())


def test_a_transaction_that_is_committed_does_not_raise(lake: Lake, spark: SparkSession) -> None:
    lake.create_table("t", "id BIGINT", [(1,)])
    lake.create_view("v", "SELECT COUNT(*) AS n FROM t", maintain="immediate")
    with machine.use(NoCommits()):
        with lake.transaction() as tx:
            tx.insert("t", [(2,)])
        assert ids(lake) == [1, 2]
        other = nabla.open(lake.path, spark=spark)
        assert ids(other) == [1, 2]
        assert other.read("v").collect()[0].n == 2
        assert other.status()["t"].rows == 2
        other.verify()
    with lake.transaction() as tx:
        tx.insert("t", [(3,)])
    assert ids(nabla.open(lake.path, spark=spark)) == [1, 2, 3]
    lake.verify()


def test_a_vacuum_keeps_rows_of_a_transaction_that_goes_on(lake: Lake, spark: SparkSession) -> None:
    lake.create_table("t", "id BIGINT", [(1,)])
    with lake.transaction() as tx:
        tx.insert("t", spark.range(10, 13))
        nabla.open(lake.path, spark=spark).vacuum(older_than=NOW)
    assert ids(lake) == [1, 10, 11, 12]
    with pytest.raises(NablaError, match="NABLA_VACUUMED"), lake.transaction() as tx:
        tx.insert("t", spark.range(20, 23))
        shutil.rmtree(Path(lake.path) / "_nabla" / "staging")
    assert ids(lake) == [1, 10, 11, 12]
    with pytest.raises(NablaError, match="NABLA_GRACE"):
        lake.vacuum(older_than=datetime.timedelta(seconds=-1))


def test_every_writer_of_a_busy_table_gets_through(lake: Lake) -> None:
    lake.create_table("t", "id BIGINT", [])

    def write(worker: int) -> None:
        for i in range(4):
            with lake.transaction() as tx:
                tx.insert("t", [(worker * 100 + i,)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert ids(lake) == sorted(worker * 100 + i for worker in range(8) for i in range(4))


@pytest.mark.parametrize("content", [b"this was a Parquet file before somebody wrote into it", b""])
def test_a_damaged_file_that_spark_reads_is_named(lake: Lake, content: bytes) -> None:
    lake.create_table("t", "id BIGINT", [(1,), (2,)])
    lake.create_view("v", "SELECT id, COUNT(*) AS n FROM t GROUP BY id")
    (path,) = lake.context.log.snapshot(lake.context.log.state().entries["t"].parts["data"]).paths
    Path(path).write_bytes(content)
    for work in (lake.verify, lambda: lake.refresh(mode="full"), lambda: lake.create_view("w", "SELECT id FROM t")):
        with pytest.raises(NablaError, match=os.path.basename(path)) as error:
            work()
        assert error.value.code == "NABLA_READ_FAILED"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path, spark: SparkSession) -> None:
    lake = nabla.open(small_disk / "lake", spark=spark)
    lake.create_table("t", "id BIGINT, text STRING", [(1, "x")])
    lake.create_view("v", "SELECT COUNT(*) AS n FROM t")
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(os.urandom(4 << 20))
    large = spark.range(100, 2_000).selectExpr("id", "repeat(uuid(), 20) AS text")
    for rows in ([(2, "y" * 10)], large):
        with pytest.raises(NablaError) as error, lake.transaction() as tx:
            tx.insert("t", rows)
        assert error.value.code == "NABLA_WRITE_FAILED"
        assert "Make room" in error.value.remedy
        assert ids(lake) == [1]
    ballast.unlink()
    with lake.transaction() as tx:
        tx.insert("t", [(2, "y")])
    lake.refresh()
    lake.verify()
    assert ids(lake) == [1, 2]
