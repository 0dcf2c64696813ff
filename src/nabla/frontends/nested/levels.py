"""Levels below the top: operators on a subrelation, which is named by the path that leads to it.

An operator at a level works on that subrelation of every tuple. Tuples above it stay, also if nothing is left below them. A
second operand is one relation for all tuples, so that "the tests of a subject" stand once and not with every student.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from nabla.errors import wrong_argument
from nabla.frontends.nested.model import Key, Relation
from nabla.frontends.nested.schema import Schema, resolver

Path: TypeAlias = tuple[str, ...]
Level: TypeAlias = "str | Sequence[str] | None"
"""A level as users name it: "Subjs.Marks", or ("Subjs", "Marks"); None is the top."""


def read_path(level: Level) -> Path:
    """The names that lead to a level."""
    names = level.split(".") if isinstance(level, str) else level if level is not None else ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise wrong_argument("at", level, 'the path of a level, such as "Subjs" or "Subjs.Marks"')
    return tuple(names)


def spell_path(path: Path, schema: Schema) -> Path:
    """The path as the schema spells it. An error names the first attribute that is not there, with its level."""
    found: Path = ()
    for name in path:
        own = resolver(schema, schema.structured, "structured attribute", found)(name)
        found, schema = (*found, own), schema[own]
    return found


def level_schema(schema: Schema, path: Path) -> Schema:
    for name in path:
        schema = schema[name]
    return schema


def replace_level(schema: Schema, path: Path, level: Schema) -> Schema:
    """The schema with another one at a level."""
    if not path:
        return level
    parts = ((n, replace_level(part, path[1:], level) if n == path[0] else part) for n, part in schema.parts)
    return Schema(schema.atoms, tuple(parts))


# Relations


def apply_at(r: Relation, path: Path, op: Callable[[Relation], Relation]) -> Relation:
    """op@L(r): the relation with the operator applied to the subrelation at the path, in every tuple."""
    if not path:
        return op(r)
    return {key: t | {path[0]: apply_at(t[path[0]], path[1:], op)} for key, t in r.items()}


def subrelations(r: Relation, path: Path) -> list[Relation]:
    """The subrelations at a path, of all tuples."""
    found = [r]
    for name in path:
        found = [t[name] for relation in found for t in relation.values()]
    return found


def meeting(r: Relation, path: Path, keys: Collection[Key]) -> list[Key]:
    """K(L, δ): the keys of tuples of r that have a tuple with one of these keys at the path."""
    return [
        key
        for key, t in r.items()
        if any(not level.keys().isdisjoint(keys) for level in subrelations({key: t}, path))
    ]
