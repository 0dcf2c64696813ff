"""Tables and programs that several tests read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nabla.frontends.datalog.program import Program, parse_program

TABLES = {
    "edge": [("from", "int"), ("to", "int")],
    "node": [("n", "int")],
    "person": [("name", "string"), ("born", "date"), ("pay", "decimal(10,2)")],
    "sale": [("id", "bigint not null"), ("shop", "string"), ("amount", "bigint")],
}
GRAPH = """
  link(X, Y) :- edge(X, Y).
  link(X, Y) :- edge(X, Z), edge(Z, Y).
  path(X, Y) :- edge(X, Y).
  path(X, Y) :- edge(X, Z), path(Z, Y).
  isolated(X) :- node(X), not path(X, _).
"""

Facts = Mapping[str, Iterable[tuple[Any, ...]]]


def rules(text: str) -> Program:
    return parse_program(text, TABLES)
