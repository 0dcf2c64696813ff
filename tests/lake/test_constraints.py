"""Constraints: checked before anything is committed, on tables in transactions and on views in refreshes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pyarrow as pa
import pytest
from comparing import bag
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import nabla
from nabla import Conflict, NablaError, Violated
from nabla.constraints import foreign_key, key, same_size
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

ORPHANS = "SELECT * FROM lines l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = l.order_id)"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table("orders", schema="id INT, customer STRING", data=[(1, "a"), (2, "b")], key="id")
    lake.create_table("lines", schema="order_id INT, amount INT", data=[(1, 10), (2, 5)])
    return lake


def files(lake: Lake) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(f"{lake.path}/tables") for name in names}


def test_a_violating_transaction_is_refused_with_its_rows_and_leaves_nothing(shop: Lake) -> None:
    shop.create_constraint("no_orphans", ORPHANS)
    shop.create_constraint("small", lambda: shop.spark.table("lines").where("amount > 99"))
    before, version = files(shop), shop.version
    with pytest.raises(Violated) as caught, shop.transaction() as tx:
        tx.insert("orders", [(3, "c")])
        tx.insert("lines", [(3, 1), (7, 100), (8, 2)])
    found = {v.constraint: sorted(v.listed) for v in caught.value.violations}
    assert found == {"no_orphans": [(7, 100), (8, 2)], "small": [(7, 100)]}
    assert caught.value.code == "NABLA_VIOLATED"
    assert "(7, 100)" in str(caught.value)
    assert shop.version == version
    assert files(shop) == before
    with pytest.raises(Violated), shop.transaction() as tx:
        tx.delete("orders", where="id = 1")
    with shop.transaction() as tx:
        tx.delete("orders", where="id = 1")
        tx.delete("lines", where="order_id = 1")
        tx.insert("lines", [(2, 7)])
    shop.verify()
    assert not shop.check().violated


def test_what_violates_when_it_is_made_is_refused_unless_it_warns(shop: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with shop.transaction() as tx:
        tx.insert("lines", [(9, 1)])
    with pytest.raises(Violated, match=r"\(9, 1\)"):
        shop.create_constraint("no_orphans", ORPHANS)
    assert "no_orphans" not in shop.status()
    shop.create_constraint("no_orphans", ORPHANS, on_violation="warn")
    with caplog.at_level(logging.WARNING, "nabla"), shop.transaction() as tx:
        tx.insert("lines", [(8, 1), (8, 1)])
    assert "no_orphans" in caplog.text
    assert bag(shop.read("no_orphans")) == {(9, 1): 1, (8, 1): 2}
    status = shop.status()["no_orphans"]
    assert (status.kind, status.rows, status.when) == ("constraint", 3, "warn")
    (violated,) = shop.check().violated
    assert violated.violations == 3
    with shop.transaction() as tx:
        tx.insert("orders", [(8, "late")])
    assert bag(shop.read("no_orphans")) == {(9, 1): 1}
    assert shop.changes("no_orphans").count() == 4
    shop.drop_constraint("no_orphans")
    assert not shop.check()


def test_keys_foreign_keys_and_sizes(lake: Lake) -> None:
    lake.create_table("customers", schema="id INT, name STRING", data=[(1, "a")], key="id", enforce=True)
    declared = {"key": "id", "foreign_keys": {"customer": "customers.id"}}
    lake.create_table("orders", schema="id INT, customer INT", data=[(1, 1)], enforce=True, **declared)
    lake.create_constraint("balanced", same_size("customers", "orders"))
    assert [n for n, s in lake.status().items() if s.kind == "constraint"] == [
        "customers_key",
        "orders_key",
        "orders_customer_fk",
        "balanced",
    ]
    for rows, constraint in [
        ({"customers": [(1, "again")], "orders": [(2, 1)]}, "customers_key"),
        ({"customers": [(None, "no key")], "orders": [(2, 1)]}, "customers_key"),
        ({"customers": [(2, "b")], "orders": [(2, 3)]}, "orders_customer_fk"),
        ({"customers": [(2, "b")]}, "balanced"),
    ]:
        with pytest.raises(Violated) as caught, lake.transaction() as tx:
            for table, inserted in rows.items():
                tx.insert(table, inserted)
        assert [v.constraint for v in caught.value.violations] == [constraint]
    with lake.transaction() as tx:
        tx.insert("customers", [(2, "b")])
        tx.insert("orders", [(2, None)])
    with pytest.raises(Violated):
        lake.create_table("bad", schema="id INT", data=[(1,), (1,)], key="id", enforce=True)
    assert "bad" not in lake.status()
    assert lake.create_constraint("names", key("customers", "name", "id")).inserted == 0
    assert lake.create_constraint("again", foreign_key("orders", "customer", "customers.id")).inserted == 0


def test_a_view_whose_change_would_violate_stays_at_its_last_good_version(shop: Lake) -> None:
    shop.create_view("totals", "SELECT order_id, SUM(amount) AS total FROM lines GROUP BY order_id")
    shop.create_view("largest", "SELECT MAX(total) AS top FROM totals")
    shop.create_view("number", "SELECT COUNT(*) AS n FROM lines")
    shop.create_constraint("affordable", "SELECT * FROM totals WHERE total > 100")
    with shop.transaction() as tx:
        tx.insert("lines", [(1, 95), (2, 1)])
    report = shop.refresh()
    assert {name: r.mode for name, r in report.items()} | {"number": ""} == {
        "totals": "held",
        "largest": "held",
        "number": "",
    }
    (violation,) = report["totals"].violations
    assert violation.listed == [(1, 105)]
    assert [r.name for r in report.held] == ["totals", "largest"]
    assert bag(shop.read("totals")) == {(1, 10): 1, (2, 5): 1}
    assert bag(shop.read("number")) == {(4,): 1}
    assert shop.status()["totals"].stale
    with shop.transaction() as tx:
        tx.update("lines", set={"amount": "94"}, where="amount = 95")
        tx.delete("lines", rows=[(1, 10)])
    assert not shop.refresh().held
    assert bag(shop.read("totals")) == {(1, 94): 1, (2, 6): 1}
    shop.verify()


def test_views_that_a_constraint_relates_are_published_together_or_not_at_all(shop: Lake) -> None:
    shop.create_view("small", "SELECT order_id FROM lines WHERE amount < 8")
    shop.create_view("large", "SELECT order_id FROM lines WHERE amount >= 8")
    shop.create_constraint("as_many", same_size("small", "large"))
    with shop.transaction() as tx:
        tx.insert("lines", [(1, 1), (2, 99)])
    version = shop.version
    assert not shop.refresh().held
    assert shop.version == version + 1
    with shop.transaction() as tx:
        tx.insert("lines", [(1, 2)])
    assert [r.name for r in shop.refresh().held] == ["small", "large"]
    assert bag(shop.read("small")) == {(1,): 1, (2,): 1}


def test_two_queries_have_as_many_rows(shop: Lake) -> None:
    large = "SELECT * FROM lines WHERE amount >= 8"
    shop.create_constraint("as_many", same_size("SELECT DISTINCT order_id FROM lines WHERE amount < 8", large))
    with shop.transaction() as tx:
        tx.insert("lines", [(1, 2), (1, 3), (2, 30)])
    with pytest.raises(Violated) as caught, shop.transaction() as tx:
        tx.insert("lines", [(1, 2), (2, 99)])
    (violation,) = caught.value.violations
    assert violation.listed == [(2, 3)]
    shop.create_constraint("one_table", same_size(large, "orders"))


def test_quarantine_takes_the_violating_rows_and_commits_the_rest(shop: Lake, spark: SparkSession) -> None:
    shop.create_constraint("no_orphans", ORPHANS, on_violation="quarantine")
    with shop.transaction() as tx:
        tx.insert("lines", spark.createDataFrame([(2, 8), (7, 1), (7, 1)], "order_id INT, amount INT"))
        tx.update("orders", set={"id": "5"}, where="id = 1")
    marked = bag(shop.read("lines_quarantine").drop("_time"))
    assert marked == {(7, 1, "no_orphans", "insert"): 2}
    # What leaves a line without an order is that order 1 goes; that an order 5 comes harms nobody.
    assert bag(shop.read("orders_quarantine").drop("_time")) == {(1, "a", "no_orphans", "delete"): 1}
    assert bag(shop.read("orders")) == {(1, "a"): 1, (2, "b"): 1, (5, "a"): 1}
    assert bag(shop.read("lines")) == {(1, 10): 1, (2, 5): 1, (2, 8): 1}
    shop.create_constraint("few", "SELECT COUNT(*) AS n FROM lines HAVING COUNT(*) > 3", on_violation="quarantine")
    with pytest.raises(Violated, match="do not tell which"), shop.transaction() as tx:
        tx.insert("lines", [(1, 1)])
    assert not shop.check().violated


def test_a_constraint_made_while_a_transaction_runs_is_respected(shop: Lake) -> None:
    with pytest.raises(Violated), shop.transaction() as tx:
        tx.insert("lines", [(7, 1)])
        shop.create_constraint("no_orphans", ORPHANS)
    with pytest.raises(Violated), shop.transaction() as first:
        first.insert("lines", [(1, 1)])
        with shop.transaction() as second:  # each is fine alone
            second.delete("lines", where="order_id = 1")
            second.delete("orders", where="id = 1")
    assert bag(shop.read("lines")) == {(2, 5): 1}


def test_a_transaction_reads_what_it_wrote_and_is_refused_where_that_has_changed(shop: Lake) -> None:
    with shop.transaction() as tx:
        tx.insert("lines", [(1, 1)])
        tx.delete("lines", where="amount = 5")
        assert bag(tx.read("lines")) == {(1, 10): 1, (1, 1): 1}
        assert bag(shop.read("lines")) == {(1, 10): 1, (2, 5): 1}
    with pytest.raises(Conflict), shop.transaction() as tx:
        total = sum(row.amount for row in tx.read("lines").collect())
        tx.insert("orders", [(total, "sum")])
        with shop.transaction() as other:
            other.insert("lines", [(2, 2)])
    assert bag(shop.read("orders")) == {(1, "a"): 1, (2, "b"): 1}


def test_what_others_write_is_looked_at_in_a_refresh(shop: Lake, tmp_path: Path) -> None:
    path = str(tmp_path / "prices")
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}))
    shop.register("known", path)
    shop.create_constraint("all_known", "SELECT id FROM known WHERE id NOT IN (SELECT id FROM orders)")
    write_deltalake(path, pa.table({"id": pa.array([7], pa.int32())}), mode="append")
    with shop.transaction() as tx:  # not to blame for it
        tx.insert("orders", [(3, "c")])
    assert [r.name for r in shop.refresh().held] == ["all_known"]
    assert [c.name for c in shop.check().violated] == ["all_known"]
    DeltaTable(path).delete("id = 7")
    assert not shop.refresh().held


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("NABLA_ON_VIOLATION", lambda lake: lake.create_constraint("c", ORPHANS, on_violation="ignore")),
        ("NABLA_ON_VIOLATION", lambda lake: lake.create_table("t", schema="a INT", key="a", enforce="no")),
        ("NABLA_EXISTS", lambda lake: lake.create_constraint("orders", ORPHANS)),
        ("NABLA_UNKNOWN_TABLE", lambda lake: lake.create_constraint("c", "SELECT * FROM nothing")),
        ("NABLA_CONSTRAINT", lambda lake: lake.create_constraint("c", "SELECT id FROM orders WHERE rand() > 2")),
        (
            "NABLA_CONSTRAINT",
            lambda lake: lake.create_constraint("c", "SELECT id FROM orders WHERE current_date() < DATE'2000-01-01'"),
        ),
        ("NABLA_UNKNOWN_CONSTRAINT", lambda lake: lake.drop_constraint("lines")),
        ("NABLA_UNKNOWN_CONSTRAINT", lambda lake: lake.check("lines")),
        ("NABLA_IN_USE", lambda lake: lake.drop_table("orders")),
        ("NABLA_MAINTAIN", lambda lake: lake.create_view("v", "SELECT id FROM orders", maintain="sometimes")),
    ],
)
def test_bad_constraints_are_refused_and_change_nothing(shop: Lake, code: str, make: object) -> None:
    shop.create_constraint("no_orphans", ORPHANS)
    version = shop.version
    with pytest.raises(NablaError) as caught:
        make(shop)  # type: ignore[operator]
    assert caught.value.code == code, caught.value
    assert caught.value.place
    assert caught.value.remedy
    assert shop.version == version


def test_another_process_knows_the_constraints(shop: Lake, spark: SparkSession) -> None:
    shop.create_constraint("no_orphans", ORPHANS)
    other = nabla.open(shop.path, spark=spark)
    with pytest.raises(Violated), other.transaction() as tx:
        tx.insert("lines", [(7, 1)])
