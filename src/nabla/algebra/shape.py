"""Queries that differ in nothing but the names of their columns: a common table expression that is used twice comes from
Spark as two copies, each with names of its own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass

from nabla.algebra.expressions import Column, Expr, quote
from nabla.algebra.nodes import Node, Scan
from nabla.algebra.parse import read_text


def shape(node: Node) -> Hashable:
    """Equal for queries that give the same rows, column by column, under other names."""
    return _Shape().of(node)


class _Shape:
    """Columns are numbered where they first occur: what is above a relation speaks of columns that are numbered by then."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, value: object) -> Hashable:
        match value:
            case Scan():  # a table's own names are what they are
                return value.table, value.at, value.fields, self.of(value.output)
            case Column():
                return self.numbers.setdefault(value.name, len(self.numbers)), value.type, value.nullable
            case Expr():
                numbered = {c: read_text(quote(str(self.of(c))), "") for c in value.columns}
                return value.substitute(numbered).sql, value.type, value.nullable, value.deterministic
            case str():
                return self.numbers.get(value, value)
            case tuple():
                return tuple(self.of(part) for part in value)
            case _ if is_dataclass(value):
                return type(value).__name__, *(self.of(getattr(value, f.name)) for f in fields(value))
        assert isinstance(value, Hashable)
        return value
