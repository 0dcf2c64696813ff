"""`nabla run --env` builds what differs beside the lake, and `nabla promote` makes it current in one commit."""

from __future__ import annotations

import datetime
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


def test_an_environment_follows_the_project_and_the_lake(shop: Path) -> None:
    original = Path("transformations/revenue.sql").read_text()
    change("SUM(o.amount) AS total", "SUM(o.amount) + 0 AS total")
    assert [one["name"] for one in ok("run", "--env", "dev")["built"]] == ["revenue", "strong_regions", "strongest"]
    Path("transformations/revenue.sql").write_text(original)
    Path("transformations/more.sql").write_text(MORE.replace("MAX(total)", "MIN(total)"))
    assert [one["name"] for one in ok("run", "--env", "dev")["built"]] == ["strongest"]
    assert ok("env", "list")[0]["objects"] == ["strongest"]  # what is as in the lake again is read from there

    ok("run", "--yes")  # meanwhile the lake gets the same definition: the environment is stale
    message = fails("promote", "dev")
    assert "NABLA_ENVIRONMENT_STALE" in message
    assert "strongest" in message
    assert "nabla run --env dev" in message
    assert ok("env", "list")[0]["stale"] == ["strongest"]

    # A view of the lake is built again: what the environment computed from it is computed again, too.
    Path("transformations/more.sql").write_text(MORE.replace("MAX(total)", "SUM(total)"))
    ok("run", "--env", "dev")
    main = nabla.open(shop / "lake")
    main.create_view("strong_regions", "SELECT region, total FROM revenue WHERE total > 20000", rebuild=True)
    dev = nabla.open(shop / "lake", environment="dev")
    assert dev.status()["strongest"].stale
    main.create_constraint("few", "SELECT * FROM strongest WHERE most < 0")
    assert "NABLA_ENVIRONMENT_STALE" in fails("promote", "dev")
    ok("run", "--env", "dev")
    is_exact(dev)
    ok("promote", "dev")
    is_exact(main)
    assert not main.check().violated

    # A promotion that would violate a constraint changes nothing.
    Path("transformations/more.sql").write_text(MORE.replace("MAX(total)", "-SUM(total)"))
    ok("run", "--env", "dev")
    before = main.version
    main.read("strongest").collect()
    assert "few" in fails("promote", "dev")
    assert content(main)["strongest"] != content(nabla.open(shop / "lake", environment="dev"))["strongest"]
    assert [one.operation for one in main.history(limit=main.version - before)] in ([], ["refresh"])
    ok("env", "drop", "dev")
    assert "NABLA_NO_ENVIRONMENT" in fails("env", "drop", "dev")
    assert "NABLA_NAME" in fails("run", "--env", "a/b")
    main.vacuum(older_than=datetime.timedelta(0))
    is_exact(main)
