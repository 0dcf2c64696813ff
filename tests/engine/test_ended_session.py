"""Spark that has ended, by a crash of its JVM or because somebody stopped it: lakes go on with a new one, or say why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os, signal, sys
import nabla
from nabla.errors import NablaError
from nabla.dev.testing.session import quick_session

def rows(lake):
    return lake.sql("SELECT * FROM t").count()

lake = nabla.open(sys.argv[1], spark=None)
quick_session("ended", {"spark.master": "local[1]"})
lake.create_table("t", schema="id INT", data=[(1,)])
lake.create_view("v", "SELECT id + 1 AS next FROM t")
given = nabla.open(sys.argv[1], spark=lake.spark)
assert rows(lake) == rows(given) == 1

process = lake.spark.sparkContext._gateway.proc
os.kill(process.pid, signal.SIGKILL)
process.wait()
try:
    rows(given)
    sys.exit("a session that is gone was used")
except NablaError as error:
    assert error.code == "NABLA_SPARK_ENDED", error
with lake.transaction() as tx:
    tx.insert("t", [(2,)])
assert rows(lake) == 2
lake.refresh(mode="full")
assert rows(nabla.open(sys.argv[1])) == 2

lake.spark.stop()
assert rows(lake) == 2
print("done")
"""


def test_a_lake_goes_on_after_spark_has_died_and_after_it_was_stopped(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")], capture_output=True, text=True, timeout=600
    )
    assert run.stdout.endswith("done\n"), run.stderr
