"""Explain tells everything about a view and does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.lake.facade import Lake
from nabla.papers.forms import FormName

pytestmark = pytest.mark.spark

REVENUE = """SELECT r.name AS region, SUM(o.amount) AS total, MAX(o.amount) AS largest
FROM orders o JOIN customers c ON o.customer = c.id JOIN regions r ON c.region = r.id
GROUP BY r.name"""
RANKED = "SELECT region, total, RANK() OVER (ORDER BY total DESC) AS place FROM revenue"
SPREAD = "SELECT customer, STDDEV(amount) AS spread FROM orders GROUP BY customer"
KNOWN = "SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id WHERE c.id IS NOT NULL"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    """Five views, all of them stale: 3 orders and 1 customer changed."""
    lake = nabla.open(tmp_path_factory.mktemp("explain") / "lake", spark=spark)
    lake.create_table("regions", schema="id INT, name STRING", key="id", data=[(1, "north"), (2, "south")])
    lake.create_table("customers", schema="id INT, region INT", key="id", data=[(i, 1 + i % 2) for i in range(9)])
    orders = [(i, i % 9, i * 10) for i in range(50)]
    lake.create_table("orders", schema="id INT, customer INT, amount INT", key="id", data=orders)
    for name, sql in (("revenue", REVENUE), ("ranked", RANKED), ("spread", SPREAD), ("known", KNOWN)):
        lake.create_view(name, sql)
    lake.create_view("any_order", "SELECT id FROM orders LIMIT 3")
    with lake.transaction() as tx:
        tx.insert("orders", [(100, 1, 5), (101, 2, 6)])
        tx.delete("orders", where="id = 7")
        tx.insert("customers", [(10, 1)])
    return lake


def files(lake: Lake) -> dict[str, int]:
    return {
        os.path.join(folder, name): os.stat(os.path.join(folder, name)).st_mtime_ns
        for folder, _, names in os.walk(lake.path)
        for name in names
    }


@contextmanager
def nothing_happens(lake: Lake, spark: SparkSession) -> Iterator[None]:
    context = spark.sparkContext
    context.setJobGroup("explain", "explain")
    before = files(lake)
    yield
    assert context.statusTracker().getJobIdsForGroup("explain") == []
    assert files(lake) == before


@pytest.mark.parametrize("name", ["revenue", "ranked", "spread", "known", "any_order"])
@pytest.mark.parametrize("mode", ["auto", "incremental", "full"])
def test_explaining_runs_no_job_and_writes_nothing(shop: Lake, spark: SparkSession, name: str, mode: str) -> None:
    with nothing_happens(shop, spark):
        explanation = shop.explain(name, mode=mode)  # type: ignore[arg-type]
        assert str(explanation)
        assert explanation.algebra()
        assert explanation.sql()
        assert json.loads(json.dumps(explanation.to_dict(), default=str))["view"] == name
        ElementTree.fromstring(explanation.to_svg())
        page = explanation.to_html()
        assert page.startswith("<!doctype html>")
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
        assert explanation._repr_html_().count("<svg") == 1


def test_explaining_needs_no_spark_at_all(shop: Lake) -> None:
    script = (
        "import nabla, sys\n"
        "print(nabla.open(sys.argv[1]).explain('revenue').mode)\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._gateway is None\n"
    )
    done = subprocess.run([sys.executable, "-c", script, shop.path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_nodes_form_the_tree_of_the_view(shop: Lake) -> None:
    nodes = shop.explain("revenue", mode="incremental").to_dict()["nodes"]
    assert [n["id"] for n in nodes] == list(range(len(nodes)))
    children = [child for n in nodes for child in n["children"]]
    assert sorted(children) == list(range(len(nodes) - 1))
    aggregate = next(n for n in nodes if n["operator"] == "Aggregate")
    assert aggregate["stage"] == "A"
    assert aggregate["law"] == "□γ = γ±(dS); State₁ = State₀ ⊎ □γ"
    assert aggregate["source"].startswith("thesis")
    roles = {n["table"]: (n["role"], n["rows"], n["exact"]) for n in nodes if n["table"]}
    assert roles == {
        "orders": ("change", 51, True),
        "customers": ("change", 10, True),
        "regions": ("lookup", 2, True),
    }


def test_what_is_read_of_each_table(shop: Lake) -> None:
    reads = {r["name"]: r for r in shop.explain("revenue", mode="incremental").to_dict()["reads"]}
    assert [(r["reflects"], r["now"], r["changed_rows"]) for r in reads.values()] == [(0, 1, 3), (0, 1, 1), (0, 0, 0)]
    assert reads["orders"]["states"] == ["change", "after"]
    assert reads["customers"]["states"] == ["change", "before", "after if a min or max was deleted"]
    assert reads["regions"]["states"] == ["after"]
    assert reads["orders"]["columns"] == ["customer", "amount"]


def test_the_state_of_a_stage_has_a_size_a_key_and_columns(shop: Lake) -> None:
    explanation = shop.explain("revenue")
    (state,) = explanation.to_dict()["state"]
    assert (state["stage"], state["key"], state["rows"], state["files"]) == ("A", ["name"], 2, 1)
    assert state["bytes"] > 0
    names = [c["name"] for c in state["columns"]]
    assert names == ["name", "rows", "count of total", "sum of total", "max of largest"]
    assert set(explanation.to_dict()["estimates"]) == {"incremental", "full"}


def test_a_view_over_a_stale_view_says_what_comes_first(shop: Lake) -> None:
    explanation = shop.explain("ranked")
    assert explanation.upstream == ("revenue",)
    assert "revenue would be refreshed first" in explanation.reason


def test_the_maintenance_expressions_are_shown_whatever_the_next_refresh_is(shop: Lake) -> None:
    full = shop.explain("spread", mode="full")
    assert [step.what for step in full.steps][-1] == "compute the view and compare it with what is stored"
    assert "when orders changed" in full.algebra()
    assert "− A₀ ⋉[customer] groups(A)" in full.algebra()
    assert "cannot be maintained" in shop.explain("any_order").algebra()


def test_spark_takes_the_sql(shop: Lake, spark: SparkSession) -> None:
    """It is resolved, not run: the names it reads stand for tables of the right shape."""
    session = spark.newSession()
    for name in ("orders", "customers"):
        frame = session.createDataFrame(shop.read(name).limit(0).toArrow())
        frame.createOrReplaceTempView(name)
        frame.createOrReplaceTempView(f"`{name} before`")
        frame.selectExpr("*", "1L AS _n").createOrReplaceTempView(f"`change of {name}`")
    (step,) = shop.explain("known", mode="incremental").steps
    assert session.sql(step.sql).columns == ["id_1", "_n"]


def test_the_command_writes_a_page(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from nabla.cli.main import app

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["explain", *arguments, "--lake", shop.path])
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert "wrote revenue.html" in run("revenue", "--html")
    run("revenue", "--html", "here.html")
    assert (tmp_path / "here.html").read_text() == (tmp_path / "revenue.html").read_text()
    assert "□A = γ±[name; d rows" in run("revenue", "--algebra")
    assert "FROM `change of orders`" in run("revenue", "--sql")
    assert json.loads(run("revenue", "--json"))["nodes"]
    assert "reads" in run("revenue")
    assert "V = π[id]" in run("known", "--form", "count") or "no such form" in run("known", "--form", "count")
    assert json.loads(run("revenue", "--form", "pairs", "--json"))["form"]["name"] == "pairs"


@pytest.mark.parametrize("form", ["pairs", "count", "change table", "qian-wiederhold", "signed"])
def test_a_view_is_printed_in_the_forms_of_the_papers(shop: Lake, form: FormName) -> None:
    shop_view = shop.explain("revenue", form=form)
    assert shop_view.form is not None
    text = str(shop_view)
    assert text.startswith(f"view revenue, in the form {form!r}: ")
    if form in ("count", "qian-wiederhold"):
        assert "the view has no such form" in text
    else:
        assert "reads    orders (51 rows, 3 changed): " in text
        assert "operators for the" in text
    assert str(shop.explain("revenue")).startswith("view revenue, version")


def test_a_form_that_there_is_not_is_an_error(shop: Lake) -> None:
    with pytest.raises(nabla.NablaError, match="NABLA_FORM"):
        shop.explain("revenue", form="deltas")  # type: ignore[arg-type]
