"""All 22 TPC-H queries as views, maintained in strict mode through rounds of changes to every kind of table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from comparing import refreshed
from pyspark.sql import SparkSession

import nabla
from nabla.dev.bench import tpch
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

VIEWS = tuple(tpch.view_name(n) for n in tpch.QUERIES)


def _orders(lake: Lake) -> None:
    tpch.change_orders(lake, 0.01, 1)


def _both(lake: Lake) -> None:
    tpch.change_orders(lake, 0.02, 3)
    tpch.update_parties(lake, 0.02, 4)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    folder: Path = tmp_path_factory.mktemp("tpch")
    lake = nabla.open(folder / "lake", spark=spark)
    tpch.load(lake, tpch.generate(folder, 0.01))
    lake.create_views({name: tpch.query(number) for number, name in zip(tpch.QUERIES, VIEWS, strict=True)})
    return lake


@pytest.mark.parametrize("change", [_orders, _both], ids=["orders and lines", "parties too"])
def test_all_queries_are_maintained_exactly(lake: Lake, change: Callable[[Lake], None]) -> None:
    change(lake)
    report = refreshed(lake, mode="strict")
    assert {name: report[name].mode for name in VIEWS if report[name].mode not in ("incremental", "skip")} == {}
    touched = [name for name in VIEWS if report[name].inserted or report[name].deleted]
    assert len(touched) > len(VIEWS) / 3, "the change is too small to show anything"
