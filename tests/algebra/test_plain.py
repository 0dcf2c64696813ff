"""What plain Python may answer in Spark's place, and what it may not."""

from __future__ import annotations

import pytest

from nabla.algebra.expressions import Column, Expr, Named
from nabla.algebra.nodes import Aggregate, At, Filter, Node, Project, Scan, UnionAll
from nabla.algebra.plain import is_plain, plain_expression

COLUMNS = (
    Column("a", "bigint"),
    Column("i", "int"),
    Column("s", "string"),
    Column("b", "boolean"),
    Column("day", "date"),
    Column("x", "double"),
    Column("m", "decimal(10,2)"),
    Column("t", "timestamp"),
    Column("l", "array<int>"),
    Column("u", "string collate UNICODE"),
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("`a`", "bigint"),
        ("(`a` + 1)", "bigint"),
        ("((`i` * 2) % 7)", "int"),
        ("(`a` - -1)", "bigint"),
        ("CAST(`i` AS bigint)", "bigint"),
        ("CAST(NULL AS string)", "string"),
        ("'text'", "string"),
        ("(`a` <=> `i`)", "boolean"),
        ("(`s` <> 'x')", "boolean"),
        ("(`day` < `day`)", "boolean"),
        ("((`a` > 1) AND (NOT `b`)) OR (`s` IS NOT NULL)", "boolean"),
    ],
)
def test_plain_expressions(text: str, kind: str) -> None:
    assert plain_expression(Expr(text, kind), COLUMNS, kind)


@pytest.mark.parametrize(
    "text",
    [
        "(`x` = 1)",
        "(`m` = 1)",
        "(`t` = `t`)",
        "(`s` = 1)",
        "(`day` = '2026-01-01')",
        "(`u` = 'a')",
        "(`l` = `l`)",
        "(upper(`s`) = 'A')",
        "(`a` / 2 = 1)",
        "(-`a` = 1)",
        "(CAST(`a` AS int) = 1)",
        "(CAST(`s` AS int) = 1)",
        "(`s` = 'it\\'s')",
        "(`s` LIKE 'a%')",
        "(`a` = 99999999999999999999)",
        "(`missing` = 1)",
    ],
)
def test_expressions_for_spark(text: str) -> None:
    assert not plain_expression(Expr(text, "boolean"), COLUMNS)


def test_random_numbers_are_for_spark() -> None:
    assert not plain_expression(Expr("(`a` = 1)", "boolean", deterministic=False), COLUMNS)


def _scan(*columns: Column) -> Scan:
    return Scan("r", At.NEW, columns, tuple(c.name for c in columns))


def test_a_query_is_plain_if_all_of_it_is() -> None:
    plain = _scan(Column("a", "bigint"), Column("s", "string"))
    test = Filter(plain, (Expr("(`a` > 1)", "boolean"),))
    assert is_plain(test)
    others: list[Node] = [
        _scan(Column("x", "double")),
        Filter(test, (Expr("(length(`s`) = 1)", "boolean"),)),
        Project(test, (Named(Column("n", "bigint"), Expr("`s`", "string")),)),
        UnionAll((plain, plain), (Column("u", "string"), Column("v", "string"))),
        Aggregate(plain, ("s",)),
    ]
    for node in others:
        assert not is_plain(node)
