"""A program as a lake stores it: its text, its tables and the types of its expressions, so that Spark is not needed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nabla._cached import cached_property
from nabla.frontends.datalog.functions import TypeOf
from nabla.frontends.datalog.program import Program, Tables, parse_program


@dataclass(frozen=True, eq=False)
class StoredRules:
    name: str
    json: Mapping[str, Any]

    @cached_property
    def program(self) -> Program:
        return Program.from_json(self.json)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "program": dict(self.json)}


def stored_rules(json: Mapping[str, Any]) -> StoredRules:
    return StoredRules(json["name"], json["program"])


def new_rules(name: str, text: str, tables: Tables, type_of: TypeOf) -> StoredRules:
    """Read and check rules. The program keeps only the tables that they read, and every type that their plans need."""
    return store(name, parse_program(text, tables, type_of))


def store(name: str, program: Program) -> StoredRules:
    """A program to store, without the tables that it does not read."""
    for predicate in program.stored:
        if not program.recursive(predicate):
            program.plan(predicate)
    read = {predicate for clause in program.clauses for predicate, _, _ in clause.reads()}
    json = program.to_json()
    return StoredRules(name, json | {"tables": {n: t for n, t in json["tables"].items() if n in read}})
