"""Refused queries: the error says what is wrong, where it is, and what to do."""

from __future__ import annotations

import pytest

from nabla.errors import NablaError
from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("sql", "code", "place", "says"),
    [
        ("SELECT a\nFRM t", "NABLA_SQL_SYNTAX", "line 2", "t"),
        ("SELEC a FROM t", "NABLA_SQL_SYNTAX", "line 1, column 1", "SELEC"),
        ("SELECT a\nFROM salse", "NABLA_UNKNOWN_TABLE", "line 2, column 6", "Did you mean sales?"),
        ("SELECT a\nFROM nowhere.nothing", "NABLA_UNKNOWN_TABLE", "line 2", "nothing"),
        ("SELECT a,\n  bb FROM t", "NABLA_UNKNOWN_COLUMN", "line 2, column 3", "no column bb"),
        ("SELECT a FROM t GROUP BY b", "NABLA_SQL_ANALYSIS", "", "GROUP BY"),
        ("SELECT nofunction(a) FROM t", "NABLA_SQL_ANALYSIS", "line 1, column 8", "nofunction"),
        ("INSERT INTO t VALUES (1, 'x', 1, true)", "NABLA_NOT_A_QUERY", "", "statement"),
        ("DROP VIEW t", "NABLA_NOT_A_QUERY", "", "statement"),
        ("SELECT a, c AS A FROM t", "NABLA_DUPLICATE_COLUMN", "", "AS"),
        ("SELECT * FROM t JOIN u ON t.a = u.a", "NABLA_DUPLICATE_COLUMN", "", "a"),
    ],
)
def test_a_refusal_says_what_where_and_what_to_do(spark, lake, sql, code, place, says):
    with pytest.raises(NablaError) as refused:
        define(spark, sql, lake, "v")
    assert refused.value.code == code
    assert refused.value.place.startswith(place)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_statement_is_not_carried_out(spark, lake):
    with pytest.raises(NablaError):
        define(spark, "DROP VIEW k", lake, "v")
    assert spark.table("k").count() == 3


def test_a_trailing_semicolon_is_no_mistake(spark, lake):
    assert define(spark, "SELECT a FROM t;\n", lake, "v").outputs == ("a",)


def test_spark_connect_is_refused():
    class Connected:
        pass

    Connected.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(NablaError) as refused:
        define(Connected(), "SELECT 1", [], "v")
    assert refused.value.code == "NABLA_SPARK_CONNECT"
