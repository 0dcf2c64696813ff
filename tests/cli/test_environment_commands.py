"""`nabla run --env` builds what differs beside the lake, and `nabla promote` makes it current in one commit."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app
from nabla.errors import NablaError

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MORE = """
CREATE MATERIALIZED VIEW by_name AS SELECT name, COUNT(*) AS n FROM customers GROUP BY name;
CREATE MATERIALIZED VIEW strongest AS SELECT MAX(total) AS most FROM strong_regions;
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "shop"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "shop")
    (tmp_path / "shop/transformations/more.sql").write_text(MORE)
    ok("run")
    return tmp_path / "shop"


def ok(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 1, result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr.replace("\n", " ")


def change(old: str, new: str) -> None:
    file = Path("transformations/revenue.sql")
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def is_exact(lake: nabla.Lake) -> None:
    for report in lake.verify().values():
        assert report.verdict == "exact"


def content(lake: nabla.Lake) -> dict[str, list[Any]]:
    return {name: sorted(map(repr, lake.read(name).collect())) for name in sorted(lake.status())}


def test_an_environment_has_what_differs_and_becomes_current_in_one_commit(shop: Path) -> None:
    main = nabla.open(shop / "lake")
    before, files = content(main), sorted((shop / "lake/tables").iterdir())
    change("total > 20000", "total > 10")
    first = ok("run", "--env", "dev")
    assert [(one["name"], one["mode"]) for one in first["built"]] == [
        ("strong_regions", "build"),
        ("strongest", "build"),
    ]
    assert first["refreshed"].keys() == {"strong_regions", "strongest"}
    assert content(main) == before
    assert len(sorted((shop / "lake/tables").iterdir())) - len(files) <= 6  # data, feed and state of two views, no copy
    dev = nabla.open(shop / "lake", environment="dev")
    assert dev.read("strong_regions").count() == 4
    assert dev.sql("SELECT * FROM revenue").count() == main.read("revenue").count()
    assert [(one["name"], one["objects"]) for one in ok("env", "list")] == [("dev", ["strong_regions", "strongest"])]

    runpy.run_path("change.py")  # new orders: the lake's views are refreshed there, those of the environment here
    ok("refresh")
    again = ok("run", "--env", "dev", "--mode", "incremental")
    assert again["built"] == []
    assert {name: one["mode"] for name, one in again["refreshed"].items()} == {
        "strong_regions": "incremental",
        "strongest": "incremental",
    }
    is_exact(dev)
    with pytest.raises(NablaError, match="NABLA_ENVIRONMENT"), dev.transaction() as tx:
        tx.delete("orders", "id < 10")
    for refused in (dev.vacuum, dev.optimize, lambda: dev.revert(1)):
        with pytest.raises(NablaError, match="NABLA_ENVIRONMENT"):
            refused()  # type: ignore[operator]
    main.vacuum()

    wanted, version = content(dev), main.version
    done = ok("promote", "dev")
    assert (done["replaced"], done["new"], done["version"]) == (["strong_regions", "strongest"], [], version + 1)
    assert {name: content(main)[name] for name in wanted} == wanted
    assert {one["cost"] for one in ok("plan")["objects"]} == {"kept"}
    runpy.run_path("change.py")
    report = ok("run", "--mode", "incremental")["refreshed"]
    assert report["strong_regions"]["mode"] == "incremental"
    is_exact(main)
    assert ok("env", "list") == []
    assert "NABLA_NO_ENVIRONMENT" in fails("promote", "dev")
    assert "promote dev" in CliRunner().invoke(app, ["log"]).stdout
