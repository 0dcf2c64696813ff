"""Test files as sqllogictest has them: statements that fill tables, then queries, each with its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import sqlglot
from sqlglot import exp

from nabla.algebra.expressions import Column
from nabla.dev.testing.random_data import Row, Table

_TYPES = {"INT": "bigint", "BIGINT": "bigint", "FLOAT": "double", "DOUBLE": "double"}
"""Numbers of SQLite are 64 bits wide. Whatever is no number is text."""
_IGNORED = re.compile(r"(CREATE|DROP)\s+(UNIQUE\s+)?INDEX\b|REINDEX\b", re.IGNORECASE)
_HASH = re.compile(r"(?P<count>\d+) values hashing to (?P<hash>[0-9a-f]{32})")


@dataclass(frozen=True)
class Query:
    """`types` has a letter a column: I, R or T. `answer` are the lines below the query, values or a hash of them."""

    number: int
    sql: str
    types: str
    order: str
    answer: tuple[str, ...]

    @property
    def view(self) -> str:
        """The query with a name for each column, whatever it calls them."""
        columns = ", ".join(f"c{i}" for i in range(len(self.types)))
        return f"SELECT * FROM (\n{self.sql}\n) AS q({columns})"

    @property
    def hashed(self) -> tuple[int, str] | None:
        """How many values there are, and their hash, where these are given instead of the values."""
        match = _HASH.fullmatch(self.answer[0]) if len(self.answer) == 1 else None
        return (int(match["count"]), match["hash"]) if match else None


@dataclass
class LogicTest:
    """The tables of a test with their rows, and the queries up to the first change of a table after one."""

    name: str
    tables: dict[str, Table] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)

    def do(self, statement: str) -> bool:
        """Carry out a statement; False if it is one that cannot be."""
        if _IGNORED.match(statement):
            return True
        tree = sqlglot.parse_one(statement, dialect="sqlite")
        if isinstance(tree, exp.Create) and tree.kind == "TABLE":
            self._create(tree)
        elif isinstance(tree, exp.Insert):
            return self._insert(tree)
        else:
            return False
        return True

    def _create(self, tree: exp.Create) -> None:
        schema = tree.this
        columns = [(c.name, c.kind.this.name if c.kind else "TEXT") for c in schema.find_all(exp.ColumnDef)]
        name = schema.this.name
        self.tables[name] = Table(name, tuple(Column(c, _TYPES.get(kind, "string")) for c, kind in columns))
        self.rows[name] = []

    def _insert(self, tree: exp.Insert) -> bool:
        target, source = tree.this, tree.expression
        name = target.this.name if isinstance(target, exp.Schema) else target.name
        table = self.tables[name]
        given = [column.name for column in target.expressions] if isinstance(target, exp.Schema) else table.fields
        if isinstance(source, exp.Values):
            rows = [tuple(map(_value, row.expressions)) for row in source.expressions]
        elif isinstance(source, exp.Select) and (copied := _copied_table(source)) is not None:
            rows = list(self.rows[copied])
        else:
            return False
        places = [list(given).index(column) if column in given else None for column in table.fields]
        for row in rows:
            values = (None if place is None else row[place] for place in places)
            self.rows[name].append(tuple(_typed(v, c.type) for v, c in zip(values, table.columns, strict=True)))
        return True


def read(name: str, lines: Iterable[str], every: int = 1, first: int = 0, most: int | None = None) -> LogicTest:
    """A test with every so manieth of its queries, from the first that is taken on, and no more than `most`."""
    test = LogicTest(name)
    number = 0
    for head, body in _records(lines):
        words = head.split()
        if words[0] == "statement":
            late = test.queries and not _IGNORED.match(body[0])
            if words[1] == "ok" and (late or not test.do("\n".join(body))):
                break
        elif words[0] == "query" and "----" in body:
            number += 1
            if number % every == first % every:
                end = body.index("----")
                order = words[2] if len(words) > 2 else "nosort"
                test.queries.append(Query(number, "\n".join(body[:end]), words[1], order, tuple(body[end + 1 :])))
            if most is not None and len(test.queries) >= most:
                break
    return test


def _records(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The first line of each record and the others. Records for one database alone are left out, `skipif` is not about us."""
    record: list[str] = []
    for line in chain(lines, [""]):
        if line.strip():
            record.append(line)
            continue
        conditions = [text for text in record if text.startswith(("onlyif", "skipif"))]
        rest = [text for text in record if text not in conditions and not text.startswith("#")]
        if rest and not any(text.startswith("onlyif") for text in conditions):
            if rest[0] == "halt":
                return
            yield rest[0], rest[1:]
        record = []


def _copied_table(select: exp.Select) -> str | None:
    """The table that a query has all rows of, if it is no more than that."""
    table = select.find(exp.Table)
    return table.name if table is not None and select.is_star and not select.args.get("where") else None


def _value(tree: exp.Expression) -> Any:
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Neg):
        return -_value(tree.this)
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else float(tree.this) if "." in tree.this else int(tree.this)
    raise ValueError(f"{tree.sql()} is no constant")


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return {"bigint": int, "double": float, "string": str}[kind](value)
