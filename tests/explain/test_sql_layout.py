"""The layout of SQL changes white space, and parentheses that nothing needs, and nothing else."""

from __future__ import annotations

import re

import pytest

from nabla.explain.sql_layout import WIDTH, lay_out


def words(sql: str) -> str:
    return re.sub(r"[\s()]+", "", sql)


def test_short_subqueries_stay_on_a_line_and_long_ones_are_indented() -> None:
    columns = ", ".join(f"column_{i}" for i in range(12))
    sql = f"SELECT {columns} FROM (SELECT {columns} FROM (SELECT a FROM t) AS s WHERE ((a = 1)) AND (b > 2)) AS s"
    text = lay_out(sql)
    assert words(text) == words(sql)
    assert "  FROM (SELECT a FROM t) AS s\n  WHERE a = 1 AND b > 2\n) AS s" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_words_of_clauses_inside_literals_names_and_calls_are_no_clauses() -> None:
    body = "extract(YEAR FROM day), 'FROM here WHERE there', `ON UNION ALL`, sum(a) FILTER (WHERE a > 1)"
    sql = f"SELECT {body}, {', '.join(f'column_{i}' for i in range(9))} FROM t WHERE (x = ' AND ') AND (y)"
    lines = lay_out(sql).splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["SELECT", "FROM", "WHERE"]
    assert lines[-1] == "WHERE x = ' AND ' AND y"


def test_a_long_call_is_cut_after_its_arguments() -> None:
    arguments = ", ".join(f"CAST(coalesce(column_{i}, 0) AS bigint)" for i in range(9))
    sql = f"SELECT a FROM t LATERAL VIEW stack(3, {arguments}) g AS a, b"
    text = lay_out(sql)
    assert words(text) == words(sql)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_set_operators_stand_between_their_sides() -> None:
    side = "SELECT " + ", ".join(f"column_{i}" for i in range(12)) + " FROM (SELECT 1) AS s"
    text = lay_out(f"({side}) EXCEPT ALL ({side})")
    assert words(text) == words(f"({side}) EXCEPT ALL ({side})")
    assert "EXCEPT ALL" in text.splitlines()


def test_parentheses_stay_where_an_or_needs_them() -> None:
    text = lay_out("SELECT a FROM t WHERE ((a = 1) OR (b = 2)) AND ((c = 3) AND (d = 4)) AND (NOT (e AND f))")
    assert text.splitlines()[-1] == "WHERE (a = 1 OR b = 2) AND c = 3 AND d = 4 AND NOT (e AND f)"
    assert lay_out("SELECT a FROM t WHERE ((a = 1) OR (b = 2))").endswith("\nWHERE a = 1 OR b = 2")


@pytest.mark.parametrize(
    "expression",
    [
        "1L",
        "1.5BD",
        "DATE '2020-01-01'",
        "INTERVAL '1 02:03:04' DAY TO SECOND",
        "r'a\\d'",
        "'a\n  b'",
        "x IS NOT NULL",
        "x IS NOT TRUE",
        "a <=> b",
        "a NOT IN (1,2)",
        "date_add(a,3)",
        "sum(a) FILTER (WHERE (b > 1))",
        "array_sort(a, (x, y) -> x - y)",
        "rank() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST)",
        "CAST(a AS array<struct<b:int,c:string>>)",
        "a[0].b",
    ],
)
def test_expressions_stay_as_they_were_written(expression: str) -> None:
    assert lay_out(f"SELECT {expression} AS x FROM t").splitlines() == [
        *f"SELECT {expression} AS x".splitlines(),
        "FROM t",
    ]


def test_a_text_that_is_no_query_stays_as_it_is() -> None:
    assert lay_out(" SELECT a FROM WHERE ") == "SELECT a FROM WHERE"
