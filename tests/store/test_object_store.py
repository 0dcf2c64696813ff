"""Lakes on an S3 server: as exact as on a file system, with two writers and kills, and few requests."""

from __future__ import annotations

import datetime
import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import nabla
from nabla.dev.bench.store import MOST, found_shop, measure
from nabla.dev.testing import kills, object_store
from nabla.dev.testing.bank import found_bank, transfer
from nabla.dev.testing.object_store import Server
from nabla.errors import NablaError

KILLS = 30
ACCESS, SECRET = "the-access-key", "a-secret-that-nobody-prints"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with object_store.running(tmp_path_factory.mktemp("s3"), ACCESS, SECRET) as server:
        server.make_bucket("bucket")
        yield server


@pytest.fixture(scope="module")
def spark(server: Server) -> Iterator[SparkSession]:
    from nabla.dev.testing.session import quick_session

    session = quick_session("nabla-store", {"spark.master": "local[2]", **server.spark_settings})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    path = tmp_path_factory.mktemp("bank") / "founded"
    found_bank(path, spark)
    return path


def moved(server: Server, founded: Path, name: str) -> str:
    """A bank copied into the bucket."""
    shutil.copytree(founded, server.folder / "bucket" / name)
    return f"s3a://bucket/{name}"


def test_a_lake_lives_in_a_bucket(server: Server, spark: SparkSession) -> None:
    lake = nabla.open("s3a://bucket/shop", spark=spark)
    lake.create_table("orders", "id INT, customer INT, amount INT", [(i, i % 50, i) for i in range(40_000)], key="id")
    lake.create_table("customers", "id INT, region STRING", [(i, f"r{i % 7}") for i in range(50)], key="id")
    joined = "orders o JOIN customers c ON o.customer = c.id"
    lake.create_view("revenue", f"SELECT region, SUM(amount) AS total FROM {joined} GROUP BY region", feed="delta")
    for round in range(12):  # past a checkpoint
        with lake.transaction() as tx:
            tx.insert("orders", [(9000 + round, round, 5)])
            tx.delete("orders", where=f"id = {round}")
        assert lake.refresh(mode="strict")["revenue"].mode == "incremental"
    lake.verify()
    parts = lake.context.log.state().entries["revenue"].parts
    feed = DeltaTable(f"s3://bucket/shop/{parts['data'].path}")
    assert pa.table(feed.load_cdf(starting_version=1)).num_rows >= 20
    stored = lake.context.log.snapshot(lake.context.log.state().entries["orders"].parts["data"])
    assert any(file.hidden for file in stored.files)
    with lake.transaction() as tx:
        tx.delete("orders", where="amount < 1000")  # most rows of its file, through Spark or not
    lake.refresh(mode="full")
    lake.verify()
    lake.optimize()
    lake.vacuum(older_than=datetime.timedelta(0))
    again = nabla.open("s3a://bucket/shop", spark=spark)
    again.verify()
    assert again.fsck().sound
    before = again.version
    with again.transaction() as tx:
        tx.delete("orders", where="true")
    again.refresh()
    again.revert(before)
    again.verify()


def test_two_writers_and_kills_lose_nothing(server: Server, founded: Path, tmp_path: Path) -> None:
    path = moved(server, founded, "bank")
    context = multiprocessing.get_context("forkserver")
    killed = kills.run(path, tmp_path / "acknowledged", KILLS, Random(7), context)
    assert killed.total() >= KILLS


def test_a_small_refresh_makes_few_requests(server: Server, tmp_path: Path) -> None:
    found_shop(tmp_path / "shop")
    rounds = measure(server, tmp_path / "shop", 12)
    assert max(one.refreshed.total() for one in rounds) <= MOST


def test_errors_tell_no_secrets(server: Server, founded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = nabla.open(moved(server, founded, "closed"))
    shutil.rmtree(server.folder / "bucket" / "closed" / "_nabla")
    with pytest.raises(NablaError) as gone:
        transfer(lake, "one", Random(1))
    with pytest.raises(NablaError) as nowhere:
        nabla.open("s3://there-is-no-such-bucket/lake")
    for error in (gone.value, nowhere.value):
        assert error.code.startswith("NABLA_")
        assert SECRET not in str(error)
        assert SECRET not in repr(error.__cause__)
