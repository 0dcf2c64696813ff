"""A benchmark run: rounds of changes, views that fail, DuckDB as a peer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.dev.bench import tpcds, tpcds_changes, tpcds_queries, tpch
from nabla.dev.bench.duckdb_peer import DuckDB, Tables
from nabla.dev.bench.measure import FAILED, Measurement
from nabla.dev.bench.run import Workload, chosen, run
from nabla.dev.bench.suite import Suite, scattered
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage.deletion_vectors import Hidden
from nabla.storage.files import DataFile, Snapshot

QUERIES = {
    "sums": "SELECT id % 3 AS part, SUM(amount) AS amount FROM sales GROUP BY id % 3",
    "absent": "SELECT * FROM nowhere",
    "strange": "SELECT id, 1 / (amount - 7) AS quotient FROM sales",
}


def _load(lake: Lake, data: Path) -> None:
    if "sales" not in lake.status():
        lake.create_table("sales", "id BIGINT, amount BIGINT", [(n, 100 + n) for n in range(30)], key="id")


def _change(lake: Lake, share: float, number: int, kind: str) -> str:
    with lake.transaction() as tx:
        tx.insert("sales", [(1000 + number, 7)])
    return "a row"


SMALL = Suite(
    "small", "Small", tuple(QUERIES), ("sales",), lambda data, scale: data, _load, lambda n, _: QUERIES[n], _change
)


def _run(suite: Suite, workload: Workload, tmp_path: Path) -> list[Measurement]:
    return list(run(suite, workload, tmp_path / "data", tmp_path / "lake", lambda text: None))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_view_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    workload = Workload(rounds=2, kinds=("sales",), verify=True, against=(DuckDB,), warm=False)
    found = _run(SMALL, workload, tmp_path)
    assert [(m.view, m.asked) for m in found if m.mode == FAILED and m.view == "absent"] == [("absent", "build")]
    assert {m.mode for m in found if m.view == "strange"} == {FAILED}
    sums = [m for m in found if m.view == "sums" and m.asked == "auto"]
    assert [m.verdict for m in sums] == ["exact", "exact"]
    peers = [m for m in found if m.asked == "duckdb"]
    assert [(m.view, m.problem) for m in peers] == [("sums", "")] * 2


@pytest.mark.spark
def test_duckdb_takes_every_tpch_query_and_gives_as_many_rows(tmp_path: Path, spark: SparkSession) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    tpch.load(lake, tpch.generate(tmp_path, 0.001))
    suite = tpch.suite()
    peer = DuckDB(lake, {name: suite.query(name, tmp_path) for name in suite.names}, tmp_path / "peer")
    peer.tables.show_all(lake)
    rows = {name: len(peer.tables.connection.execute(sql).fetchall()) for name, sql in peer.queries.items()}
    for name in ("q02", "q07", "q13", "q22"):
        assert rows[name] == lake.sql(suite.query(name, tmp_path)).count()


def test_hidden_rows_are_not_shown_to_duckdb(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [4, 5]}), tmp_path / "b.parquet")
    files = (
        DataFile("a.parquet", 2, 1, hidden=Hidden.masked(pa.array([True, False, True]))),
        DataFile("b.parquet", 2, 1),
    )
    tables = Tables(threads=1)
    tables.show("numbers", Snapshot(str(tmp_path), 0, "", {"id": "id"}, (), files))
    assert tables.connection.execute("SELECT id FROM numbers ORDER BY id").fetchall() == [(1,), (3,), (4,), (5,)]


def test_queries_are_chosen_by_number_or_name() -> None:
    assert chosen("all", tpcds_queries.NAMES) == tpcds_queries.NAMES
    assert chosen("1,q14,39b", tpcds_queries.NAMES) == ("q01", "q14a", "q14b", "q39b")
    assert chosen("7", tpch.suite(("year", "extract")).names) == ("q07", "q07_extract")
    with pytest.raises(NablaError, match="there is no query '100'"):
        chosen("100", tpcds_queries.NAMES)


def test_two_shares_of_a_table_are_disjoint() -> None:
    assert scattered(0.25, 3) == (
        "pmod(hash({key}, 3), 1000000) < 250000",
        "pmod(hash({key}, 3), 1000000) >= 250000 AND pmod(hash({key}, 3), 1000000) < 500000",
    )


@pytest.fixture(scope="module")
def generated(request: pytest.FixtureRequest) -> Path:
    """TPC-DS at scale 0.01, kept from run to run because the generator has to be downloaded."""
    try:
        return tpcds.generate(request.config.cache.mkdir("tpcds"), 0.01)
    except NablaError as error:
        pytest.skip(str(error))


def test_there_are_103_queries_of_tpcds_with_columns_that_a_table_can_have(generated: Path) -> None:
    texts = {name: tpcds_queries.query(name, generated) for name in tpcds_queries.NAMES}
    assert len(texts) == 103
    assert "`total_shipping_cost`" in texts["q16"]
    assert texts["q14a"] != texts["q14b"]
    assert "WITH cross_items AS" in texts["q14b"]


@pytest.mark.spark
def test_some_views_of_tpcds_follow_a_change_of_all_tables(
    generated: Path, tmp_path: Path, spark: SparkSession
) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    changed = {table for change in tpcds_changes.KINDS["all"] for table in change.tables}
    tpcds.load(lake, generated, {*changed, "date_dim", "reason"})
    for name in ("q03", "q37", "q93"):
        lake.create_view(name, tpcds_queries.query(name, generated))
    said = tpcds.SUITE.change(lake, 0.1, 1, "all")
    assert all(f"rows of {table}" in said for table in changed - {"promotion"})  # it has three rows
    assert {report.mode for report in lake.refresh(mode="strict").values()} == {"incremental"}
    assert not lake.verify().not_comparable
