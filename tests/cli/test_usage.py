"""The command line without Spark: help, usage, errors, a new project."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app
from nabla.frontends.pipelines.project import load_project

COMMANDS = [
    "init",
    "run",
    "refresh",
    "status",
    "explain",
    "changes",
    "propagate",
    "verify",
    "sql",
    "demo",
    "papers",
    "vacuum",
    "watch",
]
COMMANDS += ["check", "log", "revert", "lineage", "optimize", "housekeeping", "advise", "publish", "unpublish"]
runner = CliRunner()


def test_help_lists_every_command() -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_help_does_not_load_spark() -> None:
    code = "import sys, nabla.cli.main; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("arguments", [["nonsense"], ["changes"], ["explain"], ["refresh", "--mode", "quick"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert runner.invoke(app, arguments).exit_code == 2


def test_an_error_is_printed_with_code_place_and_remedy(tmp_path: Path) -> None:
    result = runner.invoke(app, ["status", "--lake", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "NABLA_NO_LAKE" in result.stderr
    assert str(tmp_path / "none") in result.stderr.replace("\n", "")
    assert "nabla init" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_error_is_json_when_json_is_asked_for(tmp_path: Path) -> None:
    result = runner.invoke(app, ["status", "--json", "--lake", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert json.loads(result.stderr)["error"]["code"] == "NABLA_NO_LAKE"


def test_status_says_which_table_is_away(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "events", pa.table({"id": [1]}))
    nabla.open(tmp_path / "lake").register("events", tmp_path / "events")
    assert "NABLA_AWAY" not in runner.invoke(app, ["status", "--lake", str(tmp_path / "lake")]).stdout
    shutil.move(tmp_path / "events", tmp_path / "moved")
    result = runner.invoke(app, ["status", "--lake", str(tmp_path / "lake")])
    assert result.exit_code == 0
    assert "NABLA_AWAY" in result.stdout


def test_an_empty_folder_is_no_lake_and_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["status"]).exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_run_outside_a_project_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["run"])
    assert result.exit_code == 1
    assert "NABLA_PROJECT" in result.stderr


def test_init_makes_a_project_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["init", "shop"])
    assert result.exit_code == 0
    assert "cd shop && nabla run" in result.stdout
    (tmp_path / "shop/transformations/big_orders.py").unlink()  # asks for the active Spark session
    project = load_project(tmp_path / "shop")
    assert [element.name for element in project.definitions] == ["revenue", "strong_regions"]
    assert [source.name for source in project.spec.tables] == ["customers", "orders"]
    assert all(source.path.is_file() for source in project.spec.tables)


def test_init_leaves_an_existing_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = runner.invoke(app, ["init", str(tmp_path)])
    assert result.exit_code == 1
    assert "NABLA_FOLDER_EXISTS" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_rules_lists_the_laws_of_the_calculus() -> None:
    result = runner.invoke(app, ["explain", "--rules", "--json"])
    assert "d(S ⋈ T) = dS ⋈ T₀ + S₁ ⋈ dT" in [law["law"] for law in json.loads(result.stdout)]
