"""Queries of common constraints, for `lake.create_constraint`: keys, foreign keys and equal sizes."""

from __future__ import annotations

import re

from nabla._arguments import check_arguments
from nabla.algebra.expressions import quote


@check_arguments
def key(table: str, *columns: str) -> str:
    """No two rows agree in all columns of a key, and none of these is NULL."""
    names = ", ".join(map(quote, columns))
    missing = " OR ".join(f"{quote(c)} IS NULL" for c in columns)
    return f"SELECT {names}, COUNT(*) AS copies FROM {quote(table)} GROUP BY {names} HAVING COUNT(*) > 1 OR {missing}"


@check_arguments
def foreign_key(table: str, column: str, target: str) -> str:
    """Every value of a column, NULL aside, occurs in the column `target`, written "table.column"."""
    other, _, its = target.partition(".")
    return (
        f"SELECT * FROM {quote(table)} AS child WHERE child.{quote(column)} IS NOT NULL AND NOT EXISTS "
        f"(SELECT 1 FROM {quote(other)} AS parent WHERE parent.{quote(its)} = child.{quote(column)})"
    )


@check_arguments
def same_size(one: str, other: str) -> str:
    """Two tables, views or queries have as many rows. Only the sizes of their changes count: |ΔS| − |∇S| = |ΔT| − |∇T|."""
    first, second = _label(one, "the first query"), _label(other, "the second query")
    return (
        f"SELECT a.n AS {quote(f'rows of {first}')}, b.n AS {quote(f'rows of {second}')} "
        f"FROM (SELECT COUNT(*) AS n FROM {_relation(one)}) a CROSS JOIN (SELECT COUNT(*) AS n FROM {_relation(other)}) b "
        "WHERE a.n <> b.n"
    )


def _is_name(text: str) -> bool:
    """Whether a text names a table or view: names of a lake are identifiers, and no query is one."""
    return re.fullmatch(r"\w+", text) is not None


def _label(text: str, query: str) -> str:
    return text if _is_name(text) else query


def _relation(text: str) -> str:
    return quote(text) if _is_name(text) else f"({text})"
