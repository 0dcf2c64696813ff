"""The runner of SQLite's logic tests, on a small test of our own: theirs are fetched by the command."""

from __future__ import annotations

import hashlib

import pytest
from pyspark.sql import SparkSession

from nabla.dev.logic_tests.answers import agrees
from nabla.dev.logic_tests.records import Query, read
from nabla.dev.logic_tests.run import Findings, run_test

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


@pytest.mark.spark
def test_queries_are_views_that_follow_the_rows_of_the_test(spark: SparkSession) -> None:
    findings = Findings()
    run_test(spark, read("small", lines()), 2, findings, lambda _: None)
    assert findings.wrong == {}
    assert findings.full == {}
    assert (findings.views, findings.answered, findings.differing) == (4, 4, 0)
