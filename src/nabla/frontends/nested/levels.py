"""Levels below the top: operators on a subrelation, which is named by the path that leads to it.

An operator at a level works on that subrelation of every tuple. Tuples above it stay, also if nothing is left below them. A
second operand is one relation for all tuples, so that "the tests of a subject" stand once and not with every student.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nabla.errors import NablaError, wrong_argument
from nabla.frontends.nested.model import Key, Relation
from nabla.frontends.nested.schema import Schema, level, resolver

Path: TypeAlias = tuple[str, ...]
Level: TypeAlias = "str | Sequence[str] | None"
"""A level as users name it: "Subjs.Marks", or ("Subjs", "Marks"); None is the top."""


def read_path(at: Level) -> Path:
    """The names that lead to a level."""
    names = at.split(".") if isinstance(at, str) else at if at is not None else ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise wrong_argument("at", at, 'the path of a level, such as "Subjs" or "Subjs.Marks"')
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


def replace_level(schema: Schema, path: Path, new: Schema) -> Schema:
    """The schema with another one at a level."""
    if not path:
        return new
    parts = ((n, replace_level(part, path[1:], new) if n == path[0] else part) for n, part in schema.parts)
    return Schema(schema.atoms, tuple(parts))


@dataclass(frozen=True)
class Meeting:
    """Two subrelations, of either operand of a join, that must have tuples which are equal in their common attributes."""

    ours: str
    theirs: str
    common: tuple[str, ...]


def read_meetings(pairs: Iterable[tuple[str, str]], r: Schema, s: Schema, path: Path) -> tuple[Meeting, ...]:
    """The meetings that a join asks for, checked against the schemas of its operands."""
    ours = resolver(r, r.structured, "structured attribute", path)
    theirs = resolver(s, s.structured, "structured attribute", ())
    return tuple(_meeting(ours(p), theirs(q), r, s, path) for p, q in pairs)


def _meeting(ours: str, theirs: str, r: Schema, s: Schema, path: Path) -> Meeting:
    kinds = dict(s[theirs].atoms)
    common = tuple(n for n, kind in r[ours].atoms if kinds.get(n, "").lower() == kind.lower())
    if not common:
        raise NablaError(
            "NABLA_NOT_JOINABLE",
            f"{ours}*: {r[ours].typed} and {theirs}*: {s[theirs].typed} have no atomic attribute in common",
            place=level((*path, ours)),
            remedy="Subrelations meet in atomic attributes of one name and type.",
        )
    return Meeting(ours, theirs, common)


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
        key for key, t in r.items() if any(not inner.keys().isdisjoint(keys) for inner in subrelations({key: t}, path))
    ]
