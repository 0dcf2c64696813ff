"""Statements of SQL that change rows are transactions: they mean what they mean in Spark, and the exact change is recorded."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest
from comparing import bag

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def rows(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.read(table).collect()), key=repr)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.create_table("stock", schema="id BIGINT, name STRING, n INT", key="id", data=[(1, "cup", 5), (2, "pot", 7)])
    lake.create_table("deliveries", schema="item INT, n INT, op STRING", data=[(2, 3, "u"), (3, 9, "i"), (1, 0, "d")])
    return lake


def test_rows_are_inserted_in_all_forms(shop: Lake) -> None:
    assert bag(shop.sql("INSERT INTO stock VALUES (3, 'pan', 1), (4, upper('lid'), DEFAULT)")) == {("stock", 2, 0): 1}
    shop.sql("INSERT INTO stock (n, id) VALUES (8, 5)")
    shop.sql("INSERT INTO stock BY NAME SELECT 'jug' AS name, 6 AS id, 1 AS n")
    shop.sql("WITH c AS (SELECT max(id) AS id FROM stock) INSERT INTO stock SELECT id + 1, 'new', DEFAULT FROM c")
    assert rows(shop, "stock")[2:] == [(3, "pan", 1), (4, "LID", None), (5, None, 8), (6, "jug", 1), (7, "new", None)]
    shop.sql("INSERT INTO stock REPLACE WHERE id > 2 SELECT item, 'pan', 1 FROM deliveries WHERE item = 3")
    assert rows(shop, "stock") == [(1, "cup", 5), (2, "pot", 7), (3, "pan", 1)]
    shop.sql("INSERT OVERWRITE stock SELECT id, name, n + 1 FROM stock WHERE id < 3")
    assert rows(shop, "stock") == [(1, "cup", 6), (2, "pot", 8)]
    last = shop.status()["stock"].version
    change = bag(shop.changes("stock", since=last - 1).select("id", "n", "_change_type"))
    assert change == dict.fromkeys([(1, 5, "delete"), (1, 6, "insert"), (2, 7, "delete"), (2, 8, "insert"), (3, 1, "delete")], 1)  # fmt: skip  # noqa: E501


def test_rows_are_updated_and_deleted_with_aliases_and_subqueries(shop: Lake) -> None:
    shop.sql("UPDATE stock AS s SET s.n = s.n + (SELECT max(n) FROM deliveries), name = DEFAULT WHERE s.id = 1")
    assert rows(shop, "stock") == [(1, None, 14), (2, "pot", 7)]
    shop.sql("DELETE FROM stock x WHERE EXISTS (SELECT 1 FROM deliveries d WHERE d.item = x.id AND d.op = 'd')")
    assert rows(shop, "stock") == [(2, "pot", 7)]
    with shop.transaction() as tx:
        tx.sql("INSERT INTO deliveries VALUES (2, 100, 'u')")
        tx.sql("UPDATE stock SET n = (SELECT max(n) FROM deliveries) WHERE stock.id = 2")  # it sees the row above
    assert rows(shop, "stock") == [(2, "pot", 100)]
    assert bag(shop.sql("TRUNCATE TABLE stock")) == {("stock", 0, 1): 1}
    assert rows(shop, "stock") == []


MERGE = """
    MERGE INTO stock AS t USING (SELECT * FROM deliveries) AS s ON t.id = s.item
    WHEN MATCHED AND s.op = 'd' THEN DELETE
    WHEN MATCHED THEN UPDATE SET n = t.n + s.n
    WHEN NOT MATCHED AND s.op = 'i' THEN INSERT (id, n) VALUES (s.item, 1 / (s.item - 1))
    """


def test_a_merge_does_what_its_clauses_say(shop: Lake) -> None:
    with pytest.raises(NablaError):  # 1 / 2 is no INT
        shop.sql(MERGE.replace("1 / (s.item - 1)", "'x'"))
    assert bag(shop.sql(MERGE.replace("1 / (", "10 div ("))) == {("stock", 2, 2): 1}
    assert rows(shop, "stock") == [(2, "pot", 10), (3, None, 5)]
    shop.sql(
        "MERGE INTO stock USING (SELECT * FROM VALUES (3, 'pan', 4), (9, 'lid', 2) AS v (id, name, n)) new "
        "ON stock.id = new.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = DEFAULT"
    )
    assert rows(shop, "stock") == [(2, "pot", None), (3, "pan", 4), (9, "lid", 2)]
    with shop.transaction() as tx:  # over rows that only this transaction knows
        tx.insert("stock", [(10, "urn", 1)])
        tx.delete("stock", where="id = 9")
        tx.sql(
            "MERGE INTO stock t USING (SELECT * FROM VALUES (9, 5), (10, 5) AS v (id, n)) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, -s.n)"
        )
    assert rows(shop, "stock") == [(10, "urn", 5), (2, "pot", None), (3, "pan", 4), (9, None, -5)]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NABLA_CARDINALITY", "MERGE INTO stock t USING (SELECT 1L AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1"),  # noqa: E501
        ("NABLA_UNKNOWN_COLUMN", "UPDATE stock SET nn = 1"),
        ("NABLA_UNKNOWN_COLUMN", "DELETE FROM stock WHERE nn = 1"),
        ("NABLA_UNKNOWN_TABLE", "DELETE FROM stocks"),
        ("NABLA_WIDTH", "INSERT INTO stock VALUES (1)"),
        ("NABLA_TYPE_MISMATCH", "INSERT INTO stock VALUES ('x', 'y', 1)"),
        ("NABLA_NOT_WRITABLE", "INSERT INTO names VALUES ('x')"),
        ("NABLA_STATEMENT", "INSERT INTO stock PARTITION (n = 1) VALUES (1, 'y')"),
    ],
)  # fmt: skip
def test_a_bad_statement_is_refused_and_changes_nothing(shop: Lake, code: str, text: str) -> None:
    if "names" in text:
        shop.create_view("names", "SELECT DISTINCT name FROM stock")
    version = shop.version
    with pytest.raises(NablaError) as refused:
        shop.sql(text)
    assert (refused.value.code, shop.version) == (code, version)


def test_random_statements_do_what_another_database_does(lake: Lake) -> None:
    """Bags with duplicates and NULLs. The change that is recorded is the difference of both states, and a view follows it."""
    lake.create_table("t", schema="a INT, b INT")
    lake.create_table("s", schema="a INT, b INT")
    lake.create_view("v", "SELECT a, COUNT(*) AS n, SUM(b) AS b FROM t GROUP BY a", maintain="immediate")
    judge = duckdb.connect()
    judge.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE s (a INT, b INT)")
    chance = random.Random(11)
    for _ in range(14):
        before = Counter(judge.sql("FROM t").fetchall())
        with lake.transaction() as tx:
            for _ in range(chance.randint(1, 3)):
                text = _statement(chance)
                judge.execute(text)
                tx.sql(text)
        after = Counter(judge.sql("FROM t").fetchall())
        assert bag(lake.read("t")) == after, text
        if before != after:
            last = lake.status()["t"].version
            change = bag(lake.changes("t", since=last - 1).select("a", "b", "_change_type"))
            assert change == {(*row, "delete"): n for row, n in (before - after).items()} | {
                (*row, "insert"): n for row, n in (after - before).items()
            }
    query = "SELECT a, COUNT(*) AS n, SUM(b) AS b FROM t GROUP BY a"
    assert bag(lake.read("v")) == Counter(judge.sql(query).fetchall())


def _statement(chance: random.Random) -> str:
    def value() -> str:
        return chance.choice(["NULL", "0", "1", "2", "3"])

    def condition(table: str) -> str:
        return chance.choice([f"{table}.a = {value()}", f"{table}.b > {value()}", f"{table}.b IS NULL", "1 = 1"])

    table = chance.choice("tts")
    source = "(SELECT a, max(b) AS b FROM s GROUP BY a)"
    matched = [
        f"WHEN MATCHED AND {condition('q')} THEN DELETE",
        f"WHEN MATCHED AND {condition('t')} THEN UPDATE SET b = q.b + 1",
    ]
    clauses = [
        *chance.sample(matched, chance.randint(0, 2)),
        f"WHEN NOT MATCHED AND {condition('q')} THEN INSERT (b, a) VALUES (q.b, q.a)",
    ]
    if chance.random() < 0.4:
        clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {condition('t')} THEN UPDATE SET b = {value()}")
    on = chance.choice(["t.a = q.a", "t.a = q.a AND t.b < 3", "t.a < q.a AND q.a = 2"])
    return chance.choice(
        [
            f"INSERT INTO {table} VALUES ({value()}, {value()}), ({value()}, {value()})",
            f"INSERT INTO {table} SELECT b, a FROM s WHERE {condition('s')}",
            f"UPDATE {table} SET b = {value()}, a = b WHERE {condition(table)}",
            f"UPDATE t SET b = (SELECT max(b) FROM s WHERE s.a = t.a) WHERE {condition('t')}",
            f"DELETE FROM {table} WHERE {condition(table)} AND a IS NOT NULL",
            f"MERGE INTO t USING {source} AS q ON {on} {' '.join(clauses)}",
            f"MERGE INTO t USING {source} AS q ON {on} {' '.join(clauses)}",
        ]
    )
