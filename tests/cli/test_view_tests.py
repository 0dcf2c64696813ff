"""`nabla test` finds wrong queries and wrong increments, and says what is wrong so that people can read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from nabla.cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

PROJECT = """
name: shop
storage: x
libraries: [{glob: {include: transformations/**}}]
configuration:
  nabla.table.customers: data/customers.csv
  nabla.table.customers.schema: id BIGINT, name STRING, region STRING
  nabla.table.orders: data/orders.csv
  nabla.table.orders.schema: id BIGINT, customer BIGINT, amount DECIMAL(12,2), day DATE, at TIMESTAMP, tags ARRAY<STRING>
  nabla.table.orders.key: id
"""
VIEWS = """
CREATE MATERIALIZED VIEW revenue AS
SELECT c.region, SUM(o.amount) AS total, COUNT(*) AS orders, MAX(o.day) AS last, MAX(o.at) AS at, AVG(o.amount) AS mean
FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region;
CREATE MATERIALIZED VIEW strong AS SELECT region, total FROM middle WHERE total > 20;
CREATE TEMPORARY VIEW middle AS SELECT * FROM revenue;
CREATE MATERIALIZED VIEW tagged AS SELECT id, tag FROM orders LATERAL VIEW explode(tags) t AS tag;
"""
PYTHON = """
from pyspark import pipelines as dp

@dp.materialized_view
def days():
    return spark.table("orders").groupBy("day").count()
"""
TESTS = """
- name: sums by region
  given:
    customers:
      - {id: 1, name: Ann, region: north}
      - {id: 2, name: null, region: ''}
      - {id: 3, region: null}
    orders:
      - {id: 1, customer: 1, amount: 10.50, day: 2026-01-31, at: 2026-01-31 10:00:00}
      - {id: 2, customer: 1, amount: 10.5, day: 2026-02-01}
      - {id: 3, customer: 2, amount: 0.10}
      - {id: 4, customer: 3, amount: .2}
  expect:
    revenue:
      - {region: north, total: 21, orders: 2, last: 2026-02-01, at: 2026-01-31T10:00:00, mean: 10.5}
      - {region: null, total: 0.20, orders: 1}
      - {region: '', total: 0.1, orders: 1}
    strong:
      - {region: north}
- name: a view may be given
  given:
    revenue: regions.csv
  expect:
    strong: {csv: "region,total\\nwest,30\\n"}
- name: lists, copies and Python
  given:
    orders:
      rows:
        - {id: 1, tags: [a, b], day: 2026-01-01}
        - {id: 1, tags: [a], day: 2026-01-01}
        - {id: 2, tags: []}
  expect:
    tagged:
      - {tag: a, id: 1}
      - {tag: a, id: 1}
      - {tag: b, id: 1}
    days:
      - {day: null, count: 1}
      - {day: 2026-01-01, count: 2}
- name: nothing gives nothing
  expect:
    revenue: []
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "spark-pipeline.yml": PROJECT,
        "transformations/views.sql": VIEWS,
        "transformations/days.py": PYTHON,
        "tests/good.yml": TESTS,
        "tests/regions.csv": "region,total,mean\nwest,30.00,\neast,1,\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["test", *arguments, "--json"])
    return result.exit_code, json.loads(result.stdout or result.stderr)


def test_right_views_pass_without_data_and_wrong_ones_are_shown(shop: Path) -> None:
    code, found = run("--junit", "out/report.xml")
    assert {one["name"]: (one["verdict"], one["message"]) for one in found["tests"]} == {
        "sums by region": ("passed", ""),
        "a view may be given": ("passed", ""),
        "lists, copies and Python": ("passed", ""),
        "nothing gives nothing": ("passed", ""),
    }
    assert code == 0
    assert not (shop / "lake").exists()
    suites = ElementTree.parse(shop / "out/report.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites[0].get("name")) == ("4", "0", "tests/good.yml")

    file = shop / "transformations/views.sql"
    file.write_text(
        VIEWS.replace("SUM(o.amount)", "SUM(DISTINCT o.amount)").replace(
            "explode(tags)", "explode(filter(tags, t -> assert_true(t <> 'b') IS NULL))"
        )
    )
    result = CliRunner().invoke(app, ["test", "--junit", "report.xml", "--seed", "7"])
    assert result.exit_code == 1
    said = result.stdout
    assert 'view "revenue": 1 row missing, 1 row unexpected' in said
    assert "total decimal(22,2)" in said
    assert [line.split() for line in said.splitlines() if "north" in line][:2] == [
        ["-", "north", "21.00", "2", "2026-02-01", "2026-01-31", "10:00:00", "10.500000"],
        ["+", "north", "10.50", "2", "2026-02-01", "2026-01-31", "10:00:00", "10.500000"],
    ]
    assert 'view "strong": 1 row missing' in said
    assert "1 error" in said
    assert "seed 7" in said
    suites = ElementTree.parse(shop / "report.xml").getroot()
    assert (suites.get("failures"), suites.get("errors")) == ("1", "1")
    assert suites.find(".//failure").text.count("north") == 3  # type: ignore[union-attr]
    assert run("-k", "STRONG")[1]["tests"][0]["name"] == "sums by region"
    assert len(run("-k", "a view may")[1]["tests"]) == 1


def test_a_wrong_increment_is_found_though_the_query_is_right(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nabla.cli.view_tests import run as runs

    def forget_deletions(lake: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
        """What a rule that loses deletions would do to a view."""
        with lake.transaction() as tx:
            for name, rows in before.items():
                tx.insert(name, runs._without(after[name], rows))

    monkeypatch.setattr(runs, "_change", forget_deletions)
    code, found = run("-k", "sums", "--seed", "1")
    assert code == 1
    assert "the query is right, but maintained over" in found["tests"][0]["message"]
    assert "seed 1" in found["tests"][0]["message"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- name: x\n  expect: {revenue: [{total: 1.001}]}", ["line 2", "1.001", "decimal(22,2)"]),
        ("- name: x\n  expect:\n    revenue:\n    - {sum: 1}", ["line 4", 'no column "sum"', "total"]),
        ("- name: x\n  expect: {revenues: []}", ["line 2", '"revenues"', "revenue"]),
        ("- name: x\n  given: {orders: [{day: soon}]}\n  expect: {days: []}", ["line 2", '"soon" is no date']),
        ("- name: x\n  given: {customers: []}\n  expect: {days: []}", ["line 2", 'reads "customers"']),
        ("- name: x\n  given: {orders: nowhere.csv}\n  expect: {days: []}", ["line 2", "nowhere.csv"]),
        ("- name: x\n\n  expected: {}", ["line 3", '"expected"', "expect"]),
        ("- name: x\n  given: {}", ["line 1", '"expect"']),
        ("- name: x\n  expect: {orders: []}", ["line 2", "is a table"]),
        ("- name: x\n  expect: {days: []\n- name: y", ["line 3", "no YAML"]),
        ("- name: x\n  expect: {days: []}\n- name: x\n  expect: {days: []}", ["line 1", "line 3", "Rename"]),
        ('- name: x\n  expect:\n    days: {csv: "day,count\\n2026-01-01\\n"}', ["bad.yml", "1 fields and not 2"]),
    ],
)
def test_a_malformed_test_is_said_with_its_line(shop: Path, text: str, expected: list[str]) -> None:
    (shop / "tests/bad.yml").write_text(text)
    result = CliRunner().invoke(app, ["test", "-k", "bad"], env={"COLUMNS": "400"})
    said = (result.stderr + result.stdout).replace("\n", " ")
    assert result.exit_code == 1
    assert "NABLA_TEST" in said
    assert "Traceback" not in said
    assert all(part in said for part in expected), said
