"""Views that call Python functions: stored with the view, and called by whoever maintains it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.lake.objects.view import load_view

pytestmark = pytest.mark.spark

REFRESH = "import sys, nabla; print(nabla.open(sys.argv[1]).refresh(mode='strict')['doubled'].mode)"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("t", schema="id INT, v INT", key="id", data=[(1, 5), (2, None), (3, 7)])
    lake.context.spark.show_names()
    double = F.udf(lambda v: None if v is None else 2 * v, "int")
    lake.create_view("doubled", spark.table("t").select("id", double("v").alias("w")))
    return lake


def rows(lake: Lake, name: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, lake.read(name).collect()), key=str)


def test_a_function_of_a_frame(lake: Lake) -> None:
    assert rows(lake, "doubled") == [(1, 10), (2, None), (3, 14)]
    with lake.transaction() as tx:
        tx.insert("t", [(4, 1)])
        tx.delete("t", where="id = 1")
    assert lake.refresh(mode="strict")["doubled"].mode == "incremental"
    lake.verify()
    assert rows(lake, "doubled") == [(2, None), (3, 14), (4, 2)]


def test_a_function_that_a_text_calls(spark: SparkSession, lake: Lake) -> None:
    spark.udf.register("parity", lambda v: None if v is None else ("odd" if v % 2 else "even"), "string")
    lake.create_view("parities", "SELECT parity(v) AS p, count(*) AS n, max(parity(id)) AS m FROM t GROUP BY parity(v)")
    with lake.transaction() as tx:
        tx.insert("t", [(4, 8), (6, 9)])
    assert lake.refresh("parities", mode="strict")["parities"].mode == "incremental"
    lake.verify("parities")
    assert rows(lake, "parities") == [("even", 1, "even"), ("odd", 3, "odd"), (None, 1, "even")]


def test_another_process_has_it_from_the_lake(lake: Lake, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        tx.insert("t", [(9, 100)])
    done = subprocess.run(
        [sys.executable, "-c", REFRESH, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.stdout.strip() == "incremental", done.stderr
    assert (9, 200) in rows(lake, "doubled")


def test_a_function_of_another_python_is_refused(spark: SparkSession, lake: Lake) -> None:
    (function,) = load_view("doubled", lake.context.log.state().entries["doubled"].definition).functions
    with pytest.raises(NablaError, match=r"made by Python 2\.7") as refused:
        replace(function, python="2.7").register(spark)
    assert refused.value.code == "NABLA_PYTHON_VERSION"


def test_a_function_that_is_not_deterministic_is_not_relied_on(spark: SparkSession, lake: Lake) -> None:
    some = F.udf(lambda v: v, "int").asNondeterministic()
    lake.create_view("some", spark.table("t").select("id", some("v").alias("w")))
    assert "NABLA_NONDETERMINISTIC" in str(lake.explain("some").reasons)
