"""Short ways to write plans and databases in tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, quote
from nabla.algebra.nodes import At, Node, Project, Scan
from nabla.algebra.parse import read
from nabla.algebra.reference.interpreter import Bag, Database
from nabla.dev.testing.expressions import read_text

Row = tuple[Any, ...]


def bag(*rows: Row) -> Bag:
    return Counter(rows)


def columns(names: str, type_: str = "int") -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name in names.split())


def scan(table: str, names: str, at: At = At.NEW, type_: str = "int") -> Scan:
    """A table whose fields are the names without their numbers."""
    output = columns(names, type_)
    return Scan(table, at, output, tuple(column.label for column in output))


def expr(sql: str, type_: str = "int") -> Expr:
    return read_text(sql, type_)


def condition(sql: str) -> Expr:
    return read_text(sql, "boolean")


def project(node: Node, **outputs: str) -> Project:
    columns = {c.name: (c.type, c.nullable) for c in node.columns}
    read_outputs = {name: read(sql, columns) for name, sql in outputs.items()}
    return Project(node, tuple(Named(Column(name, e.type, e.nullable), e) for name, e in read_outputs.items()))


def renamed(node: Node, mark: str) -> Project:
    return Project(node, tuple(Named(c.rename(c.name + mark), c.ref) for c in node.columns))


def call(name: str, function: str, *arguments: str, **options: Any) -> Call:
    return Call(Column(name, "bigint"), function, tuple(read_text(quote(a), "int") for a in arguments), **options)


def database(fields: str, before: Iterable[Row], after: Iterable[Row] | None = None, table: str = "r") -> Database:
    """One table, before and after; a database that does not change if nothing is said."""
    old = Counter(before)
    return Database({table: tuple(fields.split())}, {table: old}, {table: old if after is None else Counter(after)})
