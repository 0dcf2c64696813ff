"""`nabla watch`: lines for people and programs, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def graph(tmp_path: Path, spark: SparkSession) -> Lake:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("node", schema="id BIGINT", data=[(1,), (2,)])
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=[(1, 2)])
    lake.create_view("isolated", "SELECT id FROM node WHERE id NOT IN (SELECT a FROM edge)")
    with lake.transaction() as tx:
        tx.insert("node", [(3,)])
        tx.delete("node", rows=[(2,)])
    return lake


def test_a_line_for_the_refresh_and_one_for_each_row_of_an_alert(graph: Lake) -> None:
    arguments = ["watch", "--once", "--alert", "isolated", "--lake", graph.path]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    refresh, *alerts = result.stdout.splitlines()
    assert "isolated" in refresh
    assert "+1 -1" in refresh
    assert [line.split("  ", 1)[1] for line in alerts] == ["isolated - id=2", "isolated + id=3"]
    again = CliRunner().invoke(app, arguments)
    assert (again.exit_code, again.stdout) == (0, "")


def test_json_lines(graph: Lake) -> None:
    arguments = ["watch", "--for", "0", "--alert", "isolated", "--json", "--lake", graph.path]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    refreshed, alert = map(json.loads, result.stdout.splitlines())
    assert refreshed["refreshed"]["name"] == "isolated"
    assert (alert["alert"]["inserted"], alert["alert"]["deleted"]) == ([{"id": 3}], [{"id": 2}])


def test_an_unknown_view_is_an_error(graph: Lake) -> None:
    result = CliRunner().invoke(app, ["watch", "--once", "--alert", "lonely", "--lake", graph.path])
    assert result.exit_code == 1
    assert "lonely" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(graph: Lake, number: signal.Signals) -> None:
    code = "from nabla.cli.main import main; main()"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-c", code, "watch", "--interval", "0.1", "--json", "--lake", graph.path]
    command += ["--metrics-port", port]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        with graph.transaction() as tx:
            tx.insert("node", [(4,)])
        second = json.loads(process.stdout.readline())
        assert [e["refreshed"]["version"] for e in (first, second)] == [1, 2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            scraped = answer.read().decode()
        assert (
            f'nabla_refreshes_total{{lake="{graph.path}",mode="{second["refreshed"]["mode"]}",view="isolated"}}'
            in scraped
        )
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
