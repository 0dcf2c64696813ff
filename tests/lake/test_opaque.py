"""Views without algebra: their text is run again at every refresh, as the user's session would run it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.engine.relations import FEW_WRITTEN

pytestmark = pytest.mark.spark

HALF_PAST = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)


def test_settings_of_the_session_count_and_results_may_be_large(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    lake = nabla.open(tmp_path / "lake", spark=session)
    lake.create_table("t", schema="id INT, at TIMESTAMP", data=[(i, HALF_PAST) for i in range(FEW_WRITTEN)])
    lake.create_view("told", "SELECT id, hour(at) AS h, date_format(at, 'mm') AS m FROM t TABLESAMPLE (100 PERCENT)")
    for size in (FEW_WRITTEN, FEW_WRITTEN + 1):
        rows = {tuple(row) for row in lake.read("told").collect()}
        assert rows == {(i, 18, "00") for i in range(size)}
        with lake.transaction() as tx:
            tx.insert("t", [(size, HALF_PAST)])
        report = lake.refresh()["told"]
        assert (report.mode, report.inserted, report.deleted) == ("full", 1, 0)
        assert report.reason.startswith("NABLA_UNSUPPORTED_OPERATOR")
        lake.verify()
