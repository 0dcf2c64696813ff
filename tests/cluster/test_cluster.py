"""Views on a standalone cluster: a slice of TPC-H, and a worker that dies in the middle of a refresh.

`make test-cluster` runs these, and the tests of the lake on a cluster of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.dev.bench import tpch
from nabla.dev.testing.cluster import Cluster
from nabla.engine.driver import driver_query
from nabla.engine.spark.frames import PARTITIONS, engine_session
from nabla.engine.spark.meaning import meaning
from nabla.engine.spark.session import build_session
from nabla.lake.facade import Lake

QUERIES = (1, 3, 5, 6, 10, 13, 18)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkSession]:
    session = build_session("nabla-cluster", {"spark.master": cluster.address, "spark.executor.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("tpch")
    lake = nabla.open(folder / "lake", spark=spark)
    tpch.load(lake, tpch.generate(folder, 0.05))
    for number in QUERIES:
        lake.create_view(tpch.view_name(number), tpch.query(number))
    return lake


@pytest.fixture(autouse=True)
def everything_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_query, "MOST_BYTES", -1)


def executors(spark: SparkSession) -> int:
    """Those that do work, the driver not counted."""
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def test_large_exchanges_have_the_partitions_that_the_user_asks_for(spark: SparkSession) -> None:
    asking = spark.newSession()
    for asked, given in (("300", "300"), ("1", str(PARTITIONS))):
        asking.conf.set("spark.sql.shuffle.partitions", asked)
        assert engine_session(asking, "large", meaning(asking)).conf.get("spark.sql.shuffle.partitions") == given


def test_both_workers_take_part(lake: Lake, spark: SparkSession) -> None:
    assert spark.sparkContext.master.startswith("spark://")
    assert executors(spark) == 2


@pytest.mark.parametrize("share", [0.001, 0.3], ids=["a small change", "a large change"])
def test_views_are_maintained(lake: Lake, share: float) -> None:
    tpch.change_orders(lake, share, 1)
    reports = lake.refresh(mode="strict")
    assert {report.mode for report in reports.values()} == {"incremental"}
    assert sum(report.jobs for report in reports.values()) > 0
    lake.verify()


def test_a_worker_dies_in_the_middle_of_a_refresh(lake: Lake, cluster: Cluster, spark: SparkSession) -> None:
    tpch.change_orders(lake, 0.1, 2)
    before = {name: status.version for name, status in lake.status().items() if name.startswith("q")}
    jobs = spark.sparkContext.statusTracker()

    def kill_when_busy() -> None:
        while not jobs.getActiveJobsIds():
            time.sleep(0.005)
        cluster.kill_worker(0)

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    reports = lake.refresh(mode="strict")
    killer.join()
    lake.verify()
    for name, report in reports.items():
        feed = lake.changes(name, since=before[name])
        kinds = {row["_change_type"]: row["count"] for row in feed.groupBy("_change_type").count().collect()}
        assert kinds.get("insert", 0) == report.inserted
        assert kinds.get("delete", 0) == report.deleted
    cluster.start_worker(0)
    assert lake.refresh()["q01"].mode == "skip"
