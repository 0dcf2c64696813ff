"""The meaning of an expression of the language: its schema, and its value by the operators of the specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nabla.errors import NablaError
from nabla.frontends.nested import language, model, operators
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.language import Binary, Nested, Shape, entries
from nabla.frontends.nested.levels import (
    Meeting,
    Path,
    apply_at,
    level_schema,
    read_meetings,
    replace_level,
    spell_path,
)
from nabla.frontends.nested.model import Key, Relation
from nabla.frontends.nested.schema import Schema, is_prime, join_schemas, level, resolver, same


@dataclass(frozen=True)
class NestedSource:
    """A table or view that expressions read. With `pnf` it is a nested relation, with arrays sorted at every level; without,
    its rows only have such a schema."""

    schema: Schema
    pnf: bool = True


Sources = Mapping[str, NestedSource]


def source_of(name: str, sources: Sources) -> tuple[str, NestedSource]:
    """The table of a name, in upper or lower case, and its own spelling of the name."""
    for known, source in sources.items():
        if known.casefold() == name.casefold():
            return known, source
    raise NablaError(
        "NABLA_UNKNOWN_TABLE",
        f'there is no table or view "{name}"',
        place="nested view",
        remedy=f"There are: {', '.join(sources)}." if sources else "Create it first.",
    )


def schema_of(expression: Nested, sources: Sources) -> Schema:
    """The schema of the result. An error names the operator that does not fit its operands, and the level."""
    return _SCHEMAS[type(expression)](expression, sources)


def is_by_key(expression: Nested, sources: Sources) -> bool:
    """Whether the rows of the result with a key depend on rows of tables with that key, and below the top level on rows that
    they meet there: for tables in PNF. A union below the top level adds all rows of a table to every row."""
    return all(
        source_of(e.name, sources)[1].pnf
        if isinstance(e, language.Table)
        else not isinstance(e, language.Nest) and not (isinstance(e, language.Union) and e.at)
        for e in expression.walk()
    )


def path_of(e: language.Project | language.Expand | Binary, sources: Sources) -> Path:
    """The level at which an operator works, as the schema of its operand spells it."""
    return spell_path(e.at, schema_of(e.left if isinstance(e, Binary) else e.input, sources)) if e.at else ()


def _at_level(schema: Schema, at: Path, make: Callable[[Schema, Path], Schema]) -> Schema:
    """The schema of the result of an operator that works at a level."""
    path = spell_path(at, schema)
    return replace_level(schema, path, make(level_schema(schema, path), path))


def _project_schema(e: language.Project, sources: Sources) -> Schema:
    return _at_level(schema_of(e.input, sources), e.at, lambda own, path: subschema(e.shape, own, path))


def subschema(shape: Shape, schema: Schema, path: tuple[str, ...] = ()) -> Schema:
    """The prime subschema that a user names by its structured attributes."""
    find = resolver(schema, schema.names, "attribute", path)
    parts: dict[str, Schema] = {}
    for name, inner in entries(shape):
        attribute = find(name)
        if attribute in schema.structured:
            part = schema[attribute]
            parts[attribute] = part if inner is None else subschema(inner, part, (*path, attribute))
        elif inner is not None:
            raise NablaError(
                "NABLA_NESTED_ATTRIBUTE",
                f'"{attribute}" is atomic and has nothing inside',
                place=level(path),
                remedy=f"Structured attributes are: {', '.join(schema.structured) or 'none'}.",
            )
    return Schema(schema.atoms, tuple((name, parts[name]) for name in schema.structured if name in parts))


def _nested(e: language.Nest, sources: Sources) -> Schema:
    _, source = source_of(e.name, sources)
    table = source.schema
    find = resolver(table, table.key, "column", ())
    types = dict(table.atoms)

    def nested(shape: Shape) -> Schema:
        named = list(entries(shape))
        columns = [find(name) for name, inner in named if inner is None]
        parts = tuple((name, nested(inner)) for name, inner in named if inner is not None)
        return Schema(tuple((column, types[column]) for column in columns), parts)

    return nested(e.shape)


def _expand_schema(e: language.Expand, sources: Sources) -> Schema:
    target = Schema.of(e.target)

    def expand(own: Schema, path: Path) -> Schema:
        if not is_prime(own, target):
            raise NablaError(
                "NABLA_NOT_PRIME",
                f"{own.typed} is not a prime subschema of {target.typed}",
                place=_place("expand", path),
                remedy="Name all that it has, with the same types and the same atomic attributes at every level.",
            )
        return target

    return _at_level(schema_of(e.input, sources), e.at, expand)


def _place(operator: str, path: Path) -> str:
    return f"{operator} at {level(path)}" if path else operator


def _select_schema(e: language.Select, sources: Sources) -> Schema:
    schema = schema_of(e.input, sources)
    condition(e.selection, schema)
    return schema


def _binary_schema(e: Binary, sources: Sources) -> Schema:
    right = schema_of(e.right, sources)

    def same_as_right(own: Schema, path: Path) -> Schema:
        if not same(own, right):
            raise NablaError(
                "NABLA_NESTED_OPERANDS",
                f"{own.typed} and {right.typed} are different schemas",
                place=_place(type(e).__name__.lower(), path),
                remedy="Expand or project one of them, so that both have the same attributes and types at every level.",
            )
        return own

    return _at_level(schema_of(e.left, sources), e.at, same_as_right)


def _join_schema(e: language.Join, sources: Sources) -> Schema:
    right = schema_of(e.right, sources)

    def joined(own: Schema, path: Path) -> Schema:
        result = join_schemas(own, right, path)
        read_meetings(e.on, own, right, path)
        return result

    return _at_level(schema_of(e.left, sources), e.at, joined)


def meetings_of(e: language.Join, sources: Sources) -> tuple[Meeting, ...]:
    """The subrelations that must meet in a join."""
    path = path_of(e, sources)
    return read_meetings(e.on, level_schema(schema_of(e.left, sources), path), schema_of(e.right, sources), path)


_SCHEMAS: dict[type[Nested], Callable[[Any, Sources], Schema]] = {
    language.Table: lambda e, sources: source_of(e.name, sources)[1].schema,
    language.Nest: _nested,
    language.Select: _select_schema,
    language.Project: _project_schema,
    language.Expand: _expand_schema,
    language.Union: _binary_schema,
    language.Difference: _binary_schema,
    language.Intersect: _binary_schema,
    language.Join: _join_schema,
}


_BINARY: dict[type[Binary], Callable[[Relation, Relation], Relation]] = {
    language.Union: operators.union,
    language.Difference: operators.difference,
    language.Intersect: operators.intersection,
    language.Join: operators.join,
}


def _join_where_met(e: language.Join, sources: Sources) -> Callable[[Relation, Relation], Relation]:
    """The join of tuples whose subrelations meet."""
    r, s = level_schema(schema_of(e.left, sources), path_of(e, sources)), schema_of(e.right, sources)
    tests = [
        (m, [(r[m.ours].key.index(name), s[m.theirs].key.index(name)) for name in m.common])
        for m in meetings_of(e, sources)
    ]

    def combine(u: Relation, v: Relation) -> Relation:
        def met(key: Key) -> bool:
            return all(operators.meet(u[key][m.ours], v[key][m.theirs], places) for m, places in tests)

        return operators.join({key: t for key, t in u.items() if key in v and met(key)}, v)

    return combine


def evaluate(expression: Nested, sources: Sources, relations: Mapping[str, Relation]) -> Relation:
    """The value of an expression, from those of the tables. Operands have their atoms in the same order."""

    def value(e: Nested) -> Relation:
        match e:
            case language.Table():
                return relations[e.name]
            case language.Nest():
                names = sources[e.name].schema.key
                rows = (dict(zip(names, key, strict=True)) for key in relations[e.name])
                return model.nest(_columns(rows, e, sources), schema_of(e, sources))
            case language.Select():
                schema = schema_of(e.input, sources)
                return operators.selection(value(e.input), condition(e.selection, schema), schema)
            case language.Project() | language.Expand():
                path = path_of(e, sources)
                schema = level_schema(schema_of(e, sources), path)
                change = operators.projection if isinstance(e, language.Project) else operators.expansion
                return apply_at(value(e.input), path, lambda u: change(u, schema))
            case Binary():
                combine, right = _BINARY[type(e)], value(e.right)
                if isinstance(e, language.Join) and e.on:
                    combine = _join_where_met(e, sources)
                return apply_at(value(e.left), path_of(e, sources), lambda u: combine(u, right))
        raise AssertionError(f"{type(e).__name__} has no meaning")

    return value(expression)


def _columns(rows: Any, e: language.Nest, sources: Sources) -> Any:
    """Flat rows under the names that the flat form of the nested schema has."""
    schema = schema_of(e, sources)
    names = [name for _, name, _ in schema.all_atoms]
    return ({flat: row[name] for flat, name in zip(schema.flat, names, strict=True)} for row in rows)
