"""The runner of SQLite's logic tests, on a small test of our own: theirs are fetched by the command."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nabla.dev.logic_tests.answers import agrees
from nabla.dev.logic_tests.command import choose
from nabla.dev.logic_tests.findings import Findings
from nabla.dev.logic_tests.records import Query, read
from nabla.dev.logic_tests.reference import Reference, Refusal
from nabla.dev.logic_tests.run import moments, run_test
from nabla.dev.testing.fuzz.bags import stored
from nabla.lake.facade import Lake

TEXT = """\
hash-threshold 8

# tables first
statement ok
CREATE TABLE t1(a INTEGER PRIMARY KEY, b FLOAT, c VARCHAR(30))

statement ok
CREATE UNIQUE INDEX i1 ON t1(a)

statement ok
INSERT INTO t1(c,a,b) VALUES('x', 1, 0.5), ('', -2, NULL)

statement ok
INSERT INTO t1 VALUES(3, 2.25, 'z')

onlyif mysql # for one database
query I rowsort
SELECT a DIV 2 FROM t1
----
0

skipif postgresql # for all but one
query IT rowsort label-1
SELECT a, c FROM t1 WHERE a <> 3
----
-2
(empty)
1
x

query R nosort
SELECT sum(b) FROM t1
----
2.750

query I rowsort
SELECT a / 2 FROM t1
----
-1
0
1

query IR rowsort
SELECT a, b FROM t1
----
6 values hashing to {digest}

statement ok
DELETE FROM t1

query I rowsort
SELECT a FROM t1
----
"""
DIGEST = hashlib.md5(b"-2\nNULL\n1\n0.500\n3\n2.250\n").hexdigest()


def lines() -> list[str]:
    return TEXT.format(digest=DIGEST).splitlines()


def test_a_test_is_read_up_to_the_first_change_after_a_query() -> None:
    test = read("small", lines())
    assert test.tables["t1"].ddl == "a bigint, b double, c string"
    assert test.rows["t1"] == [(1, 0.5, "x"), (-2, None, ""), (3, 2.25, "z")]
    assert [query.types for query in test.queries] == ["IT", "R", "I", "IR"]
    assert [query.number for query in read("small", lines(), every=2, most=1).queries] == [2]


def test_answers_are_written_as_the_tests_write_them() -> None:
    texts, total, halves, hashed = read("small", lines()).queries
    assert agrees(texts, [(1, "x"), (-2, "")])
    assert not agrees(texts, [(1, "x"), (-2, None)])
    assert agrees(total, [(2.75,)])
    assert agrees(halves, [(0,), (-1,), (1,)])
    assert agrees(hashed, [(3, 2.25), (1, 0.5), (-2, None)])
    assert not agrees(hashed, [(3, 2.25), (1, 0.5), (-2, 0.0)])
    assert agrees(Query(1, "", "II", "valuesort", ("1", "2", "3", "4")), [(4, 1), (3, 2)])


def test_kinds_of_tests_take_turns_and_seeds_go_on_where_others_end() -> None:
    names = ["index/in/10/slt_good_0", "index/in/100/slt_good_0", "random/expr/slt_good_0", "select1"]
    first = list(choose(names, 0, 4))
    assert first == [("index/in/10/slt_good_0", 0), ("random/expr/slt_good_0", 0), ("select1", 0), (names[1], 1)]
    assert [*first, *choose(names, 4, 3)] == list(choose(names, 0, 7))


def test_changes_lead_to_the_rows_of_the_test() -> None:
    test = read("small", lines())
    states, changes = moments(test, 2)
    assert len(states) == len(changes) + 1 == 3
    assert sorted(states[-1]["t1"]) == sorted(test.rows["t1"])
    assert states[0] != states[1] != states[2]


def test_findings_add_up_over_runs(tmp_path: Path) -> None:
    one = Findings(queries=3, views=2, changed=2, modes=Counter(full=1, incremental=1), full={"a 1": "NABLA_X: why"})
    one.save(tmp_path / "found.json")
    two = Findings(queries=2, views=2, changed=2, modes=Counter(incremental=2))
    two.add(Findings.load(tmp_path / "found.json"))
    assert (two.queries, two.incremental, two.modes["incremental"]) == (5, 0.75, 3)
    assert two.reasons == {"NABLA_X": 1}
    assert "5 queries, 4 views, 4 of them exact" in "\n".join(two.lines())


@pytest.mark.spark
def test_spark_answers_many_queries_at_once_each_as_it_would_alone(spark: SparkSession) -> None:
    test = read("small", lines())
    texts = {
        1: "SELECT a, b, c FROM t1",
        2: "SELECT a / 0, b, c FROM t1",
        3: "SELECT CAST(a AS DECIMAL(5,2)), b / 3, c = 'x' FROM t1",
        4: "SELECT nope, b, c FROM t1",
        5: "SELECT NULL, sum(b), 'it''s; so' FROM t1",
        6: "SELECT x.a, y.b, z.c FROM t1 x, t1 y, t1 z, (SELECT explode(sequence(1, 100))) AS many",
    }
    queries = [Query(number, sql, "III", "nosort", ()) for number, sql in texts.items()]
    found = Reference(spark, test.tables.values(), test.rows).answers(queries)
    alone = spark.newSession()
    alone.createDataFrame(test.rows["t1"], test.tables["t1"].ddl).createOrReplaceTempView("t1")
    for number in (1, 3, 5):
        answer = found[number]
        assert not isinstance(answer, Refusal)
        assert sorted(map(repr, answer)) == sorted(repr(tuple(row)) for row in alone.sql(texts[number]).collect())
    assert (found[2], found[6]) == (Refusal("DIVIDE_BY_ZERO"), Refusal("too many rows"))
    assert str(found[4]).startswith("UNRESOLVED_COLUMN")


@pytest.mark.spark
def test_queries_are_views_that_follow_the_rows_of_the_test(spark: SparkSession) -> None:
    findings = Findings()
    run_test(spark, read("small", lines()), 2, findings, lambda _: None)
    assert findings.wrong == {}
    assert findings.full == {}
    assert (findings.views, findings.changed, findings.answered, findings.differing) == (4, 4, 4, 0)


@pytest.mark.spark
@pytest.mark.parametrize("version", [0, 1])
def test_a_view_that_lacks_a_row_is_found(version: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(lake: Lake, view: str) -> tuple[list[tuple[Any, ...]], int]:
        rows, found = stored(lake, view)
        return rows[:-1] if found == version else rows, found

    monkeypatch.setattr("nabla.dev.logic_tests.lake.stored", lose)
    findings = Findings()
    run_test(spark, read("small", lines()), 1, findings, lambda _: None)
    assert {what.split(":")[0] for what in findings.wrong.values()} == {
        "as built, the view is not its query" if version == 0 else "the view is not its query"
    }
    assert len(findings.wrong) == findings.views == 4


@pytest.mark.spark
def test_a_view_that_is_not_refreshed_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lake, "refresh", lambda lake, *names, mode, progress: None)
    findings = Findings()
    run_test(spark, read("small", lines()), 1, findings, lambda _: None)
    assert len(findings.wrong) == 4
