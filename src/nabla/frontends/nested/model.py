"""Nested relations in partitioned normal form, in plain Python.

In PNF the atomic attributes are a key at every level: a relation is a function from keys to subrelations. It is therefore a
dict, `{key: {structured attribute: relation}}`, and two relations are equal exactly if the dicts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from nabla.algebra.reference.evaluator.values import Struct, canonical, row_key
from nabla.errors import NablaError
from nabla.frontends.nested.schema import Schema, level

Key: TypeAlias = tuple[Any, ...]
Relation: TypeAlias = "dict[Key, dict[str, Relation]]"
Tuple: TypeAlias = dict[str, Relation]


def relation(rows: Iterable[Any], schema: Schema, name: str = "") -> Relation:
    """Rows as users and Spark write them, checked to be in PNF at every level.

    A row is a dict, or a tuple in the order of schema.names; a subrelation is a list of rows, and one that is missing or
    None is empty.
    """
    return _read(rows, schema, (), (), f'table "{name}", ' if name else "")


def _read(rows: Iterable[Any], schema: Schema, path: tuple[str, ...], above: tuple[str, ...], table: str) -> Relation:
    result: Relation = {}
    for row in rows:
        values = attributes(row, schema, path, table)
        key = tuple(frozen(values[name]) for name in schema.key)
        if key in result:
            raise not_pnf(schema, key, path, above, table)
        inside = (*above, shown(schema, key))
        result[key] = {n: _read(values.get(n) or (), part, (*path, n), inside, table) for n, part in schema.parts}
    return result


def attributes(row: Any, schema: Schema, path: tuple[str, ...] = (), table: str = "") -> Mapping[str, Any]:
    """The attributes of a row by name. All attributes of the key must be there."""
    if isinstance(row, Mapping):
        unknown, missing = row.keys() - set(schema.names), set(schema.key) - row.keys()
        if not unknown and not missing:
            return row
        what = (
            f'an attribute "{min(unknown)}"' if unknown else f'no value for "{min(missing)}", which is part of the key'
        )
    elif isinstance(row, tuple | list) and len(row) == len(schema.names):
        return dict(zip(schema.names, row, strict=True))
    else:
        what = f"{len(row)} values" if isinstance(row, tuple | list) else f"{row!r}"
    raise NablaError(
        "NABLA_COLUMNS", f"a row has {what}", place=f"{table}{level(path)}", remedy=f"A tuple is {schema.text}."
    )


def not_pnf(
    schema: Schema, key: Key, path: tuple[str, ...] = (), above: tuple[str, ...] = (), table: str = ""
) -> NablaError:
    inside = f" inside of {', '.join(above)}" if above else ""
    return NablaError(
        "NABLA_PNF",
        f"two tuples have the key {shown(schema, key)}{inside}",
        place=f"{table}{level(path)}",
        remedy="At each level the atomic attributes are the key: put what belongs to one key into one tuple.",
    )


def shown(schema: Schema, key: Key) -> str:
    return f"({', '.join(f'{name}={value!r}' for name, value in zip(schema.key, key, strict=True))})"


def frozen(value: Any) -> Any:
    """An atomic value in a form that can be a key: hashable, one NaN, no negative zero."""
    if isinstance(value, float):
        return canonical(value + 0.0)
    if isinstance(value, Mapping):
        return Struct.of(value.keys(), map(frozen, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return bytes(value) if isinstance(value, bytearray) else value


def _thaw(value: Any) -> Any:
    if isinstance(value, Struct):
        return dict(zip(value.names, map(_thaw, value), strict=True))
    return [_thaw(part) for part in value] if isinstance(value, tuple) else value


def ordered(r: Relation) -> list[tuple[Key, Tuple]]:
    """The tuples in the order in which Spark sorts an array of them."""
    return sorted(r.items(), key=lambda item: row_key(item[0]))


def dicts(r: Relation, schema: Schema) -> list[dict[str, Any]]:
    """The relation as rows: dicts with lists of dicts, in canonical order at every level."""
    return [
        dict(zip(schema.key, map(_thaw, key), strict=True)) | {n: dicts(t[n], part) for n, part in schema.parts}
        for key, t in ordered(r)
    ]


def structs(r: Relation, schema: Schema) -> tuple[Struct, ...]:
    """The relation as the value that Spark has for it: a sorted array of structs."""
    return tuple(
        Struct.of(schema.names, (*key, *(structs(t[n], part) for n, part in schema.parts))) for key, t in ordered(r)
    )


# Containment and disjointness


def contained(d: Relation, r: Relation) -> bool:
    """δ ⊆ r: every tuple of δ has its key in r, and every subrelation of it is contained there (definition 3.1)."""
    return all(k in r and all(contained(part, r[k][n]) for n, part in v.items()) for k, v in d.items())


def disjoint(d: Relation, r: Relation) -> bool:
    """δ and r share nothing: every tuple of δ has a new key or a non-empty subrelation that is disjoint (definition 3.2)."""
    return all(k not in r or any(part and disjoint(part, r[k][n]) for n, part in v.items()) for k, v in d.items())


def attribute_disjoint(r: Relation, s: Relation, schema: Schema, attributes: Sequence[str]) -> bool:
    """Whether no tuple of r has the same values of `attributes` as one of s (definition 3.3)."""
    there = [restriction(key, t, schema, attributes) for key, t in s.items()]
    return all(restriction(key, t, schema, attributes) not in there for key, t in r.items())


def restriction(key: Key, t: Tuple, schema: Schema, attributes: Sequence[str]) -> list[Any]:
    """t[Y]."""
    values = dict(zip(schema.key, key, strict=True)) | t
    return [values[name] for name in attributes]


def inside(r: Relation, keys: Iterable[Key]) -> Relation:
    """[r]∈K: the tuples with a key in K."""
    return {k: r[k] for k in keys if k in r}


def outside(r: Relation, keys: Iterable[Key]) -> Relation:
    """[r]∉K."""
    gone = set(keys)
    return {k: t for k, t in r.items() if k not in gone}


# Total unnest and nest


def unnest(r: Relation, schema: Schema) -> list[dict[str, Any]]:
    """The flat form: for each tuple the combinations of the tuples of its subrelations, with NULLs for an empty one."""
    return [dict(zip(schema.flat, row, strict=True)) for row in _flat(r, schema)]


def _flat(r: Relation, schema: Schema) -> Iterator[tuple[Any, ...]]:
    for key, t in r.items():
        parts = (list(_flat(t[n], part)) or [(None,) * len(part.all_atoms)] for n, part in schema.parts)
        for combination in product(*parts):
            yield (*key, *(value for part in combination for value in part))


def nest(rows: Iterable[Mapping[str, Any]], schema: Schema) -> Relation:
    """The inverse of unnest: the union of all rows, each read as a tuple with at most one tuple in every subrelation."""
    result: Relation = {}
    for row in rows:
        _nest(result, [frozen(row[name]) for name in schema.flat], schema)
    return result


def _nest(into: Relation, values: list[Any], schema: Schema) -> None:
    width = len(schema.key)
    t = into.setdefault(tuple(values[:width]), {name: {} for name in schema.structured})
    for name, part in schema.parts:
        own, width = values[width : width + len(part.all_atoms)], width + len(part.all_atoms)
        if any(value is not None for value in own):
            _nest(t[name], own, part)
