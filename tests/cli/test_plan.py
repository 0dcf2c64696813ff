"""`nabla plan` says what a run would do, by what definitions mean; `nabla run` does that, and asks before it is expensive."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nabla.cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "shop"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def ok(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def planned() -> dict[str, Any]:
    return {one["name"]: one for one in ok("plan")["objects"]}


def test_a_plan_tells_what_is_new_changed_and_gone_and_the_run_does_that(shop: Path) -> None:
    first = planned()
    assert {name: (one["change"], one["cost"]) for name, one in first.items()} == {
        "customers": ("new", "loaded"),
        "orders": ("new", "loaded"),
        "big_orders": ("new", "built"),
        "revenue": ("new", "built"),
        "strong_regions": ("new", "built"),
    }
    assert not (shop / "lake").exists()
    ok("run")
    assert {(one["change"], one["cost"]) for one in planned().values()} == {("same", "kept")}

    views = shop / "transformations/revenue.sql"
    views.write_text(
        "-- only the text is another\n"
        "CREATE MATERIALIZED VIEW revenue AS\n"
        "SELECT cust.region, sum( ord.amount ) AS total, count(*) AS orders, max(ord.amount) largest\n"
        "FROM orders AS ord JOIN customers AS cust ON cust.id = ord.customer GROUP BY cust.region;\n"
        "CREATE MATERIALIZED VIEW strong_regions AS SELECT region, total, orders FROM revenue WHERE total > 20000;\n"
        "CREATE MATERIALIZED VIEW strongest AS SELECT MAX(total) AS most FROM strong_regions;\n"
    )
    (shop / "transformations/big_orders.py").unlink()
    runpy.run_path("change.py")
    version = ok("log")[0]["version"]
    second = planned()
    assert {name: (one["change"], one["cost"]) for name, one in second.items()} == {
        "customers": ("same", "kept"),
        "orders": ("same", "kept"),
        "revenue": ("same", "refreshed"),
        "strong_regions": ("changed", "rebuilt"),
        "strongest": ("new", "built"),
        "big_orders": ("gone", "refreshed"),
    }
    assert second["strong_regions"]["reason"] == "has the new columns orders"
    assert second["strong_regions"]["readers"] == ["strongest"]
    assert second["revenue"]["readers"] == ["strong_regions", "strongest"]
    assert second["strong_regions"]["rows"] == 4
    assert second["strong_regions"]["seconds"] > 0
    assert ok("log")[0]["version"] == version  # a plan writes nothing
    text = CliRunner().invoke(app, ["plan"], env={"COLUMNS": "200"}).stdout
    assert "has the new columns orders" in text

    result = ok("run", "--mode", "incremental")
    assert [(one["name"], one["mode"]) for one in result["built"]] == [
        ("strong_regions", "rebuild"),
        ("strongest", "build"),
    ]
    assert result["refreshed"]["revenue"]["mode"] == "incremental"
    assert {one["cost"] for one in planned().values()} == {"kept"}
    ok("verify")


def test_a_large_rebuild_waits_for_a_yes(shop: Path) -> None:
    ok("run")
    spec = shop / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("configuration:", "configuration:\n  nabla.ask_above: 100 rows"))
    file = shop / "transformations/revenue.sql"
    file.write_text(file.read_text().replace("COUNT(*) AS orders", "COUNT(amount) + 0 AS orders"))
    before = ok("log")[0]["version"]
    refused = CliRunner().invoke(app, ["run"])
    assert refused.exit_code == 1
    assert "NABLA_LARGE_REBUILD" in refused.stderr
    assert "revenue (540 rows to read" in refused.stderr.replace("\n", " ")
    assert "--yes" in refused.stderr
    assert ok("log")[0]["version"] == before
    plan = planned()
    assert [name for name, one in plan.items() if one["large"]] == ["revenue"]
    assert plan["strong_regions"]["cost"] == "recomputed"
    result = ok("run", "--yes")
    assert [one["name"] for one in result["built"]] == ["revenue"]

    spec.write_text(spec.read_text().replace("100 rows", "a lot"))
    wrong = CliRunner().invoke(app, ["plan"])
    assert "NABLA_PROJECT" in wrong.stderr
    assert "nabla.ask_above" in wrong.stderr
