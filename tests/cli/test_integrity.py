"""Constraints, versions and self-maintenance on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app

pytestmark = pytest.mark.spark


def run(code: int, lake: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--lake", str(lake), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout or result.stderr)


def test_what_is_violated_is_shown_and_what_was_done_is_undone(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "lake"
    lake = nabla.open(path, spark=spark)
    lake.create_table("t", schema="k INT, x INT", data=[(1, 1)])
    lake.create_view("sums", "SELECT k, SUM(x) AS s FROM t GROUP BY k")
    lake.create_constraint("small", "SELECT k FROM t WHERE x > 9", on_violation="warn")
    lake.create_constraint("low", "SELECT * FROM sums WHERE s > 50")
    version = lake.version
    assert run(0, path, "check")["small"]["violations"] == 0
    with lake.transaction() as tx:
        tx.insert("t", [(2, 99)])
    assert run(1, path, "check")["small"]["rows"] == [{"k": 2}]
    held = run(1, path, "refresh")["sums"]
    assert held["mode"] == "held"
    assert held["violations"][0]["rows"] == [{"k": 2, "s": 99}]
    newest = run(0, path, "log")[0]
    assert (newest["version"], newest["operation"], newest["changed"]) == (version + 1, "transaction", "t, small")
    assert run(0, path, "revert", str(version))["t"]["deleted"] == 1
    assert run(0, path, "check")["small"]["violations"] == 0
    assert run(0, path, "status")["small"]["when"] == "warn"
    (found,) = run(0, path, "explain", "--self", "sums")
    assert found["self_maintainable"]
    assert not found["alone"]
    assert run(1, path, "check", "nothing")["error"]["code"] == "NABLA_UNKNOWN_CONSTRAINT"
    assert "small" in CliRunner().invoke(app, ["check", "--lake", str(path)]).stdout
