"""A program as a lake keeps it: its text, the types of its tables, and the types that Spark gave its expressions, so that it
can be read again without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nabla.datalog.functions import TypeOf, UnknownType
from nabla.datalog.program import Program, Tables, parse_program


@dataclass
class RecordedTypes:
    """The types of expressions: asked of somebody once, and remembered."""

    ask: TypeOf | None = None
    answers: dict[str, str] = field(default_factory=dict)

    def __call__(self, sql: str, columns: Mapping[str, str]) -> str:
        key = "; ".join([sql, *(f"{name} {kind}" for name, kind in sorted(columns.items()) if name in sql)])
        if key not in self.answers:
            if self.ask is None:
                raise UnknownType(f"the type of {sql} was not recorded")
            self.answers[key] = self.ask(sql, columns)
        return self.answers[key]


@dataclass(frozen=True, eq=False)
class StoredRules:
    name: str
    json: Mapping[str, Any]
    types: RecordedTypes

    @cached_property
    def program(self) -> Program:
        return Program.from_json(self.json, self.types)

    def to_json(self) -> dict[str, Any]:
        self.program  # noqa: B018  what it asks about types is recorded
        return {"name": self.name, "program": dict(self.json), "types": dict(self.types.answers)}


def stored_rules(json: Mapping[str, Any]) -> StoredRules:
    return StoredRules(json["name"], json["program"], RecordedTypes(None, dict(json["types"])))


def new_rules(name: str, text: str, tables: Tables, type_of: TypeOf) -> StoredRules:
    """Reads and checks rules; only the tables that they read are kept."""
    types = RecordedTypes(type_of)
    program = parse_program(text, tables, types)
    for predicate in program.stored:
        if not program.recursive(predicate):
            program.plan(predicate)
    read = {atom for clause in program.clauses for atom, _, _ in clause.reads()}
    json = program.to_json()
    return StoredRules(name, json | {"tables": {n: t for n, t in json["tables"].items() if n in read}}, types)
