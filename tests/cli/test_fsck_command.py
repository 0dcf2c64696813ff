"""`nabla fsck` on a lake that cannot be opened any more, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from nabla.cli.main import app
from nabla.storage.lakelog import LakeLog


def run(code: int, lake: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["fsck", *arguments, "--lake", str(lake)])
    assert result.exit_code == code, result.output
    return result.stdout or result.stderr


def test_a_lake_whose_last_commit_is_empty_is_repaired(tmp_path: Path) -> None:
    lake = LakeLog.create(tmp_path / "lake")
    lake.commit({}, lake.state(), "nothing")
    path = Path(lake.path)
    assert json.loads(run(0, path, "--json")) == {"tables": 0, "files": 0, "damages": []}
    (path / "_nabla" / "log" / "_delta_log" / f"{1:020d}.json").write_text("")
    assert "With --repair" in run(1, path)
    assert "Repaired" in run(0, path, "--repair")
    assert "no damage" in run(0, path, "--quick")
    assert LakeLog.open(path).state().version == 0
    assert "NABLA_NOT_A_LAKE" in run(1, tmp_path)
