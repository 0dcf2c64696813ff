"""The layout of SQL changes white space, and parentheses around whole conditions, and nothing else."""

from __future__ import annotations

import re

from nabla.explain.sql_layout import WIDTH, laid_out


def words(sql: str) -> str:
    return re.sub(r"[\s()]+", "", sql)


def test_short_subqueries_stay_on_a_line_and_long_ones_are_indented() -> None:
    columns = ", ".join(f"column_{i}" for i in range(12))
    sql = f"SELECT {columns} FROM (SELECT {columns} FROM (SELECT a FROM t) AS s WHERE ((a = 1)) AND (b > 2)) AS s"
    text = laid_out(sql)
    assert words(text) == words(sql)
    assert "  FROM (SELECT a FROM t) AS s\n  WHERE a = 1 AND b > 2\n) AS s" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_words_of_clauses_inside_literals_names_and_calls_are_no_clauses() -> None:
    body = "extract(YEAR FROM day), 'FROM here WHERE there', `ON UNION ALL`, sum(a) FILTER (WHERE a > 1)"
    sql = f"SELECT {body}, {', '.join(f'column_{i}' for i in range(9))} FROM t WHERE (x = ' AND ') AND (y)"
    lines = laid_out(sql).splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["SELECT", "FROM", "WHERE"]
    assert lines[-1] == "WHERE x = ' AND ' AND y"


def test_a_long_call_is_cut_after_its_arguments() -> None:
    arguments = ", ".join(f"CAST(coalesce(column_{i}, 0) AS bigint)" for i in range(9))
    sql = f"SELECT a FROM t LATERAL VIEW stack(3, {arguments}) g AS a, b"
    text = laid_out(sql)
    assert words(text) == words(sql)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_set_operators_stand_between_their_sides() -> None:
    side = "SELECT " + ", ".join(f"column_{i}" for i in range(12)) + " FROM (SELECT 1) AS s"
    text = laid_out(f"({side}) EXCEPT ALL ({side})")
    assert words(text) == words(f"({side}) EXCEPT ALL ({side})")
    assert "EXCEPT ALL (" in text.splitlines()
