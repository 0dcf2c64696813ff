"""The commands on a real lake: the project that `nabla init` makes, run, changed and run again."""

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
    """Run a command that has to succeed; its JSON."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    """Run a command that has to fail with a message; the message."""
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_new_project_runs_and_is_then_maintained(shop: Path) -> None:
    first = ok("run")
    assert first["tables"] == ["customers", "orders"]
    assert {view["name"]: view["mode"] for view in first["built"]} == {
        "big_orders": "build",
        "revenue": "build",
        "strong_regions": "build",
    }
    assert {view["mode"] for view in ok("run")["refreshed"].values()} == {"skip"}

    runpy.run_path("change.py")
    assert ok("status", "revenue")["revenue"]["stale"]
    report = ok("run", "--mode", "incremental")["refreshed"]
    assert report["revenue"]["mode"] == "incremental"
    assert report["revenue"]["inserted"] == report["revenue"]["deleted"] > 0

    paired = {row["_change_type"] for row in ok("changes", "revenue", "--pairs")}
    assert paired >= {"update_before", "update_after"}
    kinds = {row["_change_type"] for row in ok("changes", "revenue")}
    assert kinds == {"insert", "delete"}
    verified = ok("verify")
    assert sorted(verified["verified"]) == ["big_orders", "revenue", "strong_regions"]
    assert verified["not_comparable"] == {}


def test_people_see_tables(shop: Path) -> None:
    assert "strong_regions" in printed("run")
    assert "skip" in printed("refresh")
    assert "no views" in printed("propagate")
    assert "customers" in printed("status")
    assert "SUM" in printed("explain", "revenue")
    assert "exact" in printed("verify")
    assert "north" in printed("sql", "SELECT DISTINCT region FROM customers")
    assert "the first 1 rows" in printed("sql", "SELECT * FROM customers", "--limit", "1")
    assert "deleted" in printed("vacuum", "--dry-run")


def test_json_of_a_query_is_exact(shop: Path) -> None:
    ok("run")
    rows = ok("sql", "SELECT id, amount, day FROM orders ORDER BY id LIMIT 1")
    assert rows[0]["id"] == 1
    assert isinstance(rows[0]["amount"], str)
    assert rows[0]["day"].startswith("2026-")


def test_a_changed_definition_is_built_again(shop: Path) -> None:
    ok("run")
    file = shop / "transformations/revenue.sql"
    file.write_text(file.read_text().replace("total > 20000", "total > 10"))
    result = ok("run")
    assert [(view["name"], view["mode"]) for view in result["built"]] == [("strong_regions", "rebuild")]
    assert len(ok("sql", "SELECT * FROM strong_regions")) == 4


def test_a_view_that_left_the_project_stays_and_is_pointed_out(shop: Path) -> None:
    ok("run")
    (shop / "transformations/big_orders.py").unlink()
    assert ok("run")["strangers"] == ["big_orders"]
    assert "big_orders" in printed("run")


def test_temporary_views_and_any_order_work(shop: Path) -> None:
    (shop / "transformations/a.sql").write_text(
        "CREATE MATERIALIZED VIEW a_first AS SELECT region, n FROM middle WHERE n > 1;\n"
        "CREATE TEMPORARY VIEW middle AS SELECT region, COUNT(*) AS n FROM late GROUP BY region;\n"
    )
    (shop / "transformations/z.py").write_text(
        "from pyspark import pipelines as dp\n\n"
        "@dp.temporary_view\n"
        "def late():\n"
        "    return spark.read.table('customers').where('id <= 10')\n"
    )
    ok("run")
    assert sum(row["n"] for row in ok("sql", "SELECT n FROM a_first")) == 10
    assert "late" not in ok("status")


def test_sparks_own_starter_project_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    from pyspark.pipelines.init_cli import init

    init("starter")
    monkeypatch.chdir(tmp_path / "starter")
    ok("run")
    rows = ok("sql", "SELECT id FROM example_sql_materialized_view ORDER BY id")
    assert [row["id"] for row in rows] == [0, 2, 4, 6, 8]


def test_queries_over_files_are_tables_that_every_run_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: files\nstorage: x\nlibraries: [{glob: {include: transformations/**}}]\n"
    )
    data = tmp_path / "sales.csv"
    data.write_text("region,amount\nnorth,1\nsouth,2\n")
    (tmp_path / "transformations/all.py").write_text(
        "from pyspark import pipelines as dp\n\n"
        "@dp.materialized_view\n"
        "def total():\n"
        "    return spark.table('sales').groupBy('region').sum('amount')\n\n"
        "@dp.materialized_view\n"
        "def sales():\n"
        f"    return spark.read.csv('{data}', header=True, inferSchema=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert [(done["name"], done["mode"]) for done in ok("run")["built"]] == [("sales", "load"), ("total", "build")]
    assert [done["mode"] for done in ok("run")["built"]] == ["skip"]

    data.write_text("region,amount\nnorth,1\nsouth,5\nwest,1\n")
    again = ok("run", "--mode", "incremental")
    assert [(done["mode"], done["inserted"], done["deleted"]) for done in again["built"]] == [("reload", 2, 1)]
    assert again["refreshed"]["total"]["mode"] == "incremental"
    rows = ok("sql", "SELECT * FROM total ORDER BY region")
    assert [list(row.values()) for row in rows] == [["north", 1], ["south", 5], ["west", 1]]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("x.sql", "\nCREATE MATERIALIZED VIEW x AS SELECT * FROM nowhere", ["x.sql, line 2", "nowhere"]),
        ("x.sql", "CREATE MATERIALIZED VIEW x AS SELECT wrong FROM orders", ["x.sql, line 1", "wrong"]),
        ("x.sql", "CREATE MATERIALIZED VIEW x (id INT) AS SELECT id FROM orders", ["NABLA_SCHEMA", "x.sql, line 1"]),
        ("x.sql", "CREATE TEMPORARY VIEW orders AS SELECT 1", ["NABLA_DUPLICATE_NAME", "x.sql, line 1"]),
        (
            "x.sql",
            "SET spark.sql.ansi.enabled = false;\nCREATE MATERIALIZED VIEW x AS SELECT 1 AS n",
            ["line 2", "ansi"],
        ),
        (
            "x.sql",
            "CREATE MATERIALIZED VIEW x AS SELECT 1 FROM y;\nCREATE MATERIALIZED VIEW y AS SELECT 1 FROM x",
            ["NABLA_CYCLE", "line 1", "line 2"],
        ),
        (
            "x.py",
            "from pyspark import pipelines as dp\n@dp.materialized_view\ndef x():\n    return spark.table('nowhere')\n",
            ["x.py, line 4", "nowhere"],
        ),
        (
            "x.py",
            "from pyspark import pipelines as dp\n@dp.materialized_view\ndef x():\n    return 5\n",
            ["x.py, line 2", "DataFrame"],
        ),
    ],
)
def test_a_wrong_definition_is_said_with_its_place(shop: Path, file: str, text: str, expected: list[str]) -> None:
    for other in (shop / "transformations").iterdir():
        other.unlink()
    (shop / "transformations" / file).write_text(text)
    message = fails("run").replace("\n", " ")
    assert all(part in message for part in expected), message


def test_rules_in_a_project_are_kept_and_rebuilt(shop: Path) -> None:
    rules = shop / "transformations/graph.rules"
    rules.write_text("""
        buys(C, O) :- orders(id: O, customer: C), strong(C).
        strong(C) :- customers(id: C, region: R), strong_regions(region: R).
    """)
    (shop / "transformations/more.sql").write_text(
        "CREATE MATERIALIZED VIEW buyers AS SELECT c, COUNT(*) AS n FROM buys GROUP BY c"
    )
    first = ok("run")
    assert {view["name"] for view in first["built"]} >= {"strong", "buys", "buyers"}
    again = ok("run")
    assert again["built"] == []
    assert again["strangers"] == []

    rules.write_text(rules.read_text() + "% a comment")
    assert ok("run")["built"] == []
    text = rules.read_text().replace("orders(id: O", "orders(amount: A, id: O")
    rules.write_text(text.replace("strong(C).\n", "strong(C), A > 900.\n", 1))
    result = ok("run")
    assert {(view["name"], view["mode"]) for view in result["built"]} == {("strong", "rebuild"), ("buys", "rebuild")}
    assert result["refreshed"]["buyers"]["mode"] == "full"
    ok("verify")

    rules.write_text("buys(C, O) :- nothing(C, O).")
    message = fails("run")
    assert "NABLA_RULES_UNKNOWN" in message
    assert "graph.rules, line 1, column 15" in message
