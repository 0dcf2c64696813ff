"""Schema trees: at every level the atomic attributes α(R), which are the key, and the structured attributes β(R).

In Spark a structured attribute is an `array<struct<…>>`; everything else is atomic. Within a tree atomic attributes stand
before structured ones, so that Spark's order of structs is the order of keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from nabla._cached import cached_property
from nabla.errors import NablaError

_PLAIN = re.compile(r"\w+")
_NO_KEY = re.compile(r"map<|variant|geometry|geography")


@dataclass(frozen=True)
class Schema:
    """R = α(R){R₁*, …, Rₙ*}. `atoms` are names with Spark types, `parts` are names with the schemas of subrelations."""

    atoms: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, Schema], ...] = ()

    def __post_init__(self) -> None:
        if not self.atoms:
            raise _refusal(f"{self.text} has no atomic attribute", "Every level needs one: together they are its key.")
        names = [name.casefold() for name in self.names]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise _refusal(f'two attributes of one level are called "{twice}"', "Rename one of them.")
        for name, kind in self.atoms:
            if _NO_KEY.search(kind):
                raise _refusal(
                    f'"{name}" has type {kind}, and values of that type cannot be part of a key', "Leave it out."
                )
        for _, part in self.parts:
            if odd := next((name for name in part.names if not _PLAIN.fullmatch(name)), None):
                raise _refusal(
                    f'an attribute of a subrelation is called "{odd}"', "Use letters, digits and underscores."
                )

    @classmethod
    def of(cls, schema: Any) -> Schema:
        """From Spark DDL ("Name STRING, Tels ARRAY<STRUCT<Tel STRING>>") or a pyspark StructType."""
        return cls._of_fields(_parse(schema) if isinstance(schema, str) else _fields(schema))

    @classmethod
    def _of_fields(cls, fields: list[tuple[str, Any]]) -> Schema:
        atoms = tuple((name, kind) for name, kind in fields if isinstance(kind, str))
        return cls(atoms, tuple((name, cls._of_fields(kind)) for name, kind in fields if not isinstance(kind, str)))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """α(R)."""
        return tuple(name for name, _ in self.atoms)

    @cached_property
    def structured(self) -> tuple[str, ...]:
        """β(R)."""
        return tuple(name for name, _ in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        return self.key + self.structured

    def __getitem__(self, name: str) -> Schema:
        return dict(self.parts)[name]

    @cached_property
    def types(self) -> dict[str, str]:
        """Every attribute with its Spark type."""
        return dict(self.atoms) | {name: part.array for name, part in self.parts}

    @cached_property
    def array(self) -> str:
        """The Spark type of a relation over this schema."""
        return f"array<struct<{','.join(f'{name}:{kind}' for name, kind in self.types.items())}>>"

    @property
    def text(self) -> str:
        """The schema as the paper writes it: {Name, Tels*: {Tel}}."""
        return f"{{{', '.join([*self.key, *(f'{name}*: {part.text}' for name, part in self.parts)])}}}"

    @property
    def typed(self) -> str:
        """The same with the types of atomic attributes."""
        atoms = [f"{name} {kind}" for name, kind in self.atoms]
        return f"{{{', '.join([*atoms, *(f'{name}*: {part.typed}' for name, part in self.parts)])}}}"

    @property
    def height(self) -> int:
        return 1 + max((part.height for _, part in self.parts), default=0)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
        """Every level with the names that lead to it, the top first."""
        yield path, self
        for name, part in self.parts:
            yield from part.walk((*path, name))

    @cached_property
    def all_atoms(self) -> tuple[tuple[tuple[str, ...], str, str], ...]:
        """α_U(R): path, name and type of the atomic attributes of all levels."""
        return tuple((path, name, kind) for path, level in self.walk() for name, kind in level.atoms)

    @cached_property
    def flat(self) -> tuple[str, ...]:
        """Names for the columns of the total unnest: the attribute's name, with its path if another attribute has the name."""
        own = [name.casefold() for _, name, _ in self.all_atoms]
        flat = tuple(n if own.count(n.casefold()) == 1 else "_".join((*path, n)) for path, n, _ in self.all_atoms)
        if len({name.casefold() for name in flat}) < len(flat):
            raise _refusal("two columns of the flat form would have one name", "Rename attributes.")
        return flat


def is_prime(s: Schema, r: Schema) -> bool:
    """S ⊆ᵖ R: α(S) = α(R), and every structured attribute of S is a prime subschema of one of R (definition 2.1)."""
    parts = dict(r.parts)
    return same_key(s, r) and all(name in parts and is_prime(part, parts[name]) for name, part in s.parts)


def same_key(s: Schema, r: Schema) -> bool:
    """Whether α(S) = α(R), with the same types, in any order."""
    return {(n, t.lower()) for n, t in s.atoms} == {(n, t.lower()) for n, t in r.atoms}


def same(s: Schema, r: Schema) -> bool:
    return is_prime(s, r) and is_prime(r, s)


def join_schemas(r: Schema, s: Schema, path: tuple[str, ...] = ()) -> Schema:
    """The joined schema T of two joinable schemas: the least schema of which both are prime subschemas."""
    if not same_key(r, s) or clashes(r, s):
        raise NablaError(
            "NABLA_NOT_JOINABLE",
            f"{r.typed} and {s.typed} cannot be joined",
            place=level(path),
            remedy="Relations are joined on all their atomic attributes: these must be the same, types included.",
        )
    ours, theirs = dict(r.parts), dict(s.parts)
    common = {n: join_schemas(part, theirs[n], (*path, n)) if n in theirs else part for n, part in ours.items()}
    return Schema(r.atoms, tuple((common | {n: part for n, part in theirs.items() if n not in ours}).items()))


def clashes(r: Schema, s: Schema) -> bool:
    """Whether a name is atomic in one and structured in the other."""
    return not set(r.key).isdisjoint(s.structured) or not set(s.key).isdisjoint(r.structured)


def atoms_only(struct: Any) -> Schema:
    """The columns of a flat table that can be part of a key."""
    kinds = [(field.name, field.dataType.simpleString()) for field in struct.fields]
    return Schema(tuple((name, kind) for name, kind in kinds if not _NO_KEY.search(kind)))


def check_order(struct: Any, path: tuple[str, ...] = ()) -> None:
    """Refuse a subrelation whose atomic attributes do not come first, because arrays are sorted as Spark orders structs."""
    for field in struct.fields:
        inner = _fields_of(field.dataType)
        if inner is None:
            continue
        structured = [_fields_of(f.dataType) is not None for f in inner.fields]
        if structured != sorted(structured):
            raise _refusal(
                f'an atomic attribute of "{field.name}" stands after a structured one ({level((*path, field.name))})',
                "Inside of a subrelation, put the atomic attributes first.",
            )
        check_order(inner, (*path, field.name))


def level(path: tuple[str, ...]) -> str:
    return f"level {len(path) + 1}, {'.'.join(path)}" if path else "level 1"


def _parse(ddl: str) -> list[tuple[str, Any]]:
    try:
        tree = exp.DataType.build(f"STRUCT<{ddl}>", dialect="spark")
        return _struct(tree)
    except (SqlglotError, ValueError, AttributeError, KeyError) as error:
        raise _refusal(
            f"cannot read the schema {ddl!r}", 'Write it as "Name STRING, Tels ARRAY<STRUCT<Tel STRING>>".'
        ) from error


def _struct(tree: exp.DataType) -> list[tuple[str, Any]]:
    return [(field.name, _parse_type(field.args["kind"])) for field in tree.expressions]


def _parse_type(kind: exp.DataType) -> Any:
    if kind.is_type("array", "map", "struct") and not kind.expressions:
        raise ValueError(f"{kind.sql('spark')} has nothing inside")
    if kind.is_type("array") and kind.expressions[0].is_type("struct"):
        return _struct(kind.expressions[0])
    return kind.sql("spark").lower().replace(", ", ",")


def _fields(struct: Any) -> list[tuple[str, Any]]:
    return [(field.name, _type(field.dataType)) for field in struct.fields]


def _type(kind: Any) -> Any:
    struct = _fields_of(kind)
    return kind.simpleString() if struct is None else _fields(struct)


def _fields_of(kind: Any) -> Any | None:
    """The struct of an array of structs."""
    element = kind.elementType if kind.typeName() == "array" else None
    return element if element is not None and element.typeName() == "struct" else None


def _refusal(what: str, remedy: str) -> NablaError:
    return NablaError("NABLA_NESTED_SCHEMA", what, place="schema of a nested relation", remedy=remedy)


Match = Callable[[str], str]


def resolver(schema: Schema, names: tuple[str, ...], what: str, path: tuple[str, ...]) -> Match:
    """A function that finds an attribute by the name that a user wrote, in upper or lower case; its error lists the names."""
    known = {name.casefold(): name for name in names}

    def find(name: str) -> str:
        if not isinstance(name, str) or name.casefold() not in known:
            raise NablaError(
                "NABLA_NESTED_ATTRIBUTE",
                f'there is no {what} "{name}" in {schema.text}',
                place=level(path),
                remedy=f"There are: {', '.join(names)}." if names else "There are none at this level.",
            )
        return known[name.casefold()]

    return find
