"""Transactions of several threads and of another process are strictly serializable; what they see is checked for cycles."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.dev.testing.isolation.anomalies import find_anomalies
from nabla.dev.testing.isolation.command import run
from nabla.dev.testing.isolation.workload import make_lake
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["nabla.dev.testing.isolation.workload", "pyarrow.dataset", "pyarrow.acero"])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    folder: Path = tmp_path_factory.mktemp("isolation")
    return make_lake(folder / "lake", spark)


def test_concurrent_transactions_are_strictly_serializable(lake: Lake) -> None:
    history = run(lake, seed=1, seconds=3.0, threads=3, processes=0, context=context)
    assert [transaction for transaction in history if transaction.outcome == "unknown"] == []
    assert find_anomalies(history) == ()


def test_write_skew_is_refused(lake: Lake) -> None:
    first, second = lake.transaction(), lake.transaction()
    assert first.read("s").count() == lake.read("s").count()
    assert second.read("t").count() == lake.read("t").count()
    first.insert("t", [(0, 1)])
    second.insert("s", [(0, 2)])
    first.commit()
    with pytest.raises(nabla.Conflict, match="NABLA_CONFLICT"):
        second.commit()
