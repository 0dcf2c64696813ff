"""Projects with streaming tables, flows, sinks, change data capture and expectations, run and run again."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app
from nabla.errors import NablaError
from nabla.lake.streams.batches import Progress, add_batch

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SPEC = """
name: shop
storage: unused
libraries: [{glob: {include: transformations/**}}]
"""
PYTHON = """
    import dlt
    from amounts import twice
    from pyspark import pipelines as dp

    @dp.table(name="bronze.events")
    @dp.expect_or_drop("positive", "amount > 0")
    @dp.expect("small", "amount < 4")
    def ingested():
        return spark.readStream.schema("id INT, amount DOUBLE").csv("landing")

    @dp.temporary_view
    def customer_events():
        return spark.readStream.schema("id INT, name STRING, op STRING, seq INT").json("customers")

    @dp.materialized_view
    @dp.expect_or_drop("several", "n > 0")
    def total():
        return dlt.read("events").groupBy("id").count().withColumnRenamed("count", "n")

    dp.create_streaming_table("merged")

    @dp.append_flow(target="merged")
    def new_ones():
        return spark.readStream.table("bronze.events").selectExpr("id", "amount * 2 AS amount")

    @dp.append_flow(target="merged", once=True)
    def old_ones():
        return spark.createDataFrame([(100,)], "id INT")

    dp.create_sink("export", "parquet", {"path": "export"})

    @dp.append_flow(target="export")
    def exported():
        return spark.readStream.table("total")
"""
SQL = """
    CREATE STREAMING TABLE customers;
    CREATE FLOW changes AS AUTO CDC INTO customers FROM STREAM(customer_events) KEYS (id)
    APPLY AS DELETE WHEN op = 'D' SEQUENCE BY seq COLUMNS (id, name) STORED AS SCD TYPE 2;
    CREATE MATERIALIZED VIEW names AS SELECT name, COUNT(*) AS n FROM customers WHERE __END_AT IS NULL GROUP BY name;
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("transformations", "landing", "customers"):
        (tmp_path / folder).mkdir()
    (tmp_path / "shop.yml").write_text(SPEC)
    (tmp_path / "amounts.py").write_text("twice = 2\n")
    python = dedent(PYTHON).replace('"export"}', f'"{tmp_path}/export"}}').replace('"landing"', f'"{tmp_path}/landing"')
    python = python.replace('"customers"', f'"{tmp_path}/customers"')
    (tmp_path / "transformations/a.py").write_text(python)
    (tmp_path / "transformations/b.sql").write_text(dedent(SQL))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["run", "--spec", "shop.yml", *arguments, "--json"])
    assert result.exit_code == code, result.stdout + result.stderr
    found = json.loads(result.stderr.strip().splitlines()[-1] if code else result.stdout)
    return found if code else {one["name"]: one for one in found["built"]}


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in nabla.open(folder / "lake").sql(query).collect()), key=str)


def test_a_project_of_streams_loads_what_is_new_and_each_row_once(shop: Path) -> None:
    (shop / "landing/1.csv").write_text("1,1\n2,-3\n3,5\n")
    events = [{"id": 1, "name": "a", "op": "U", "seq": 1}, {"id": 1, "name": "c", "op": "U", "seq": 3}]
    (shop / "customers/1.json").write_text("\n".join(map(json.dumps, events)))
    built = run()
    assert [(one["name"], one["failed"]) for one in built["events"]["expectations"]] == [("positive", 1), ("small", 1)]
    assert rows(shop, "SELECT * FROM merged") == [(1, 2.0), (100, None), (3, 10.0)]
    assert rows(shop, "SELECT * FROM customers") == [(1, "a", 1, 3), (1, "c", 3, None)]

    (shop / "landing/2.csv").write_text("1,2\n9,9\n")
    events = [{"id": 1, "name": "b", "op": "U", "seq": 2}, {"id": 2, "name": "y", "op": "U", "seq": 1}, events[0]]
    (shop / "customers/2.json").write_text("\n".join(map(json.dumps, events)))
    again = run()
    assert (again["events"]["inserted"], again["merged"]["inserted"]) == (2, 2)
    assert rows(shop, "SELECT * FROM total") == [(1, 2), (3, 1), (9, 1)]
    late = [(1, "a", 1, 2), (1, "b", 2, 3), (1, "c", 3, None), (2, "y", 1, None)]
    assert rows(shop, "SELECT * FROM customers") == late
    assert rows(shop, "SELECT * FROM names") == [("c", 1), ("y", 1)]
    assert {one["mode"] for one in run().values()} <= {"skip", "check"}


def test_a_batch_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake")
    lake.create_table("t", "id INT")
    batch = lake.spark.createDataFrame([(1,)], "id INT")
    assert add_batch(lake.context, "t", "s", Progress(0, 4), batch)
    assert not add_batch(lake.context, "t", "s", Progress(0, 4), batch)
    assert not add_batch(lake.context, "t", "s", Progress(0, 3), batch)
    assert add_batch(lake.context, "t", "another", Progress(0, 4), batch)
    assert add_batch(lake.context, "t", "s", Progress(1, 0), batch)
    assert lake.read("t").count() == 3
    with pytest.raises(NablaError):
        add_batch(lake.context, "t", "s", Progress(1, 1), lake.spark.createDataFrame([("x",)], "other STRING"))
