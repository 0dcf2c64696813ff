"""The operators on subrelations as Spark SQL expressions, without UDFs, for any depth.

A relation is an `array<struct<…>>` in canonical order: sorted by key at every level. Every function takes the texts of
such values and gives the text of one. Variables of lambdas are numbered by their depth. Keys are compared with `<=>`.

Two arrays are matched by looking for every tuple of the one in the other, n·m comparisons of keys. That is what Spark's
own functions do for keys that are structs, and subrelations are short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nabla.nested.conditions import Condition
from nabla.nested.schema import Schema, joined

Pair = Callable[[str, str, int], Mapping[str, str]]
"""The structured attributes of a tuple that two tuples with one key make, by name."""


def empty(schema: Schema) -> str:
    return f"CAST(array() AS {schema.array})"


def field(t: str, name: str) -> str:
    return f"{t}['{name}']"


def struct(fields: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({pairs})"


def _tuple(t: str, schema: Schema, parts: Mapping[str, str]) -> str:
    """A tuple with the key of t."""
    return struct({name: field(t, name) for name in schema.key} | {name: parts[name] for name in schema.structured})


def _variable(depth: int) -> str:
    return f"t_{depth}"


def _same_key(schema: Schema, t: str, u: str) -> str:
    return " AND ".join(f"({field(t, name)} <=> {field(u, name)})" for name in schema.key)


def _transform(value: str, depth: int, body: Callable[[str], str]) -> str:
    return f"transform({value}, {_variable(depth)} -> {body(_variable(depth))})"


def _filter(value: str, depth: int, body: Callable[[str], str]) -> str:
    return f"filter({value}, {_variable(depth)} -> {body(_variable(depth))})"


def _parts(t: str, schema: Schema) -> dict[str, str]:
    return {name: field(t, name) for name in schema.structured}


def nonempty(values: Mapping[str, str]) -> str:
    """Whether one of the relations has a tuple."""
    return " OR ".join(f"(size({value}) > 0)" for value in values.values()) or "false"


# One operand


def expansion(value: str, s: Schema, r: Schema, depth: int = 1) -> str:
    if s == r:
        return value

    def body(t: str) -> str:
        return _tuple(t, r, expanded(_parts(t, s), s, r, depth + 1))

    return _transform(value, depth, body)


def expanded(values: Mapping[str, str], s: Schema, r: Schema, depth: int = 1) -> dict[str, str]:
    """The structured attributes of a tuple over R from those of a tuple over S."""
    return {
        name: expansion(values[name], s[name], part, depth) if name in values else empty(part) for name, part in r.parts
    }


def projection(value: str, r: Schema, s: Schema, depth: int = 1) -> str:
    if r == s:
        return value

    def body(t: str) -> str:
        return _tuple(t, s, projected(_parts(t, r), r, s, depth + 1))

    return _transform(value, depth, body)


def projected(values: Mapping[str, str], r: Schema, s: Schema, depth: int = 1) -> dict[str, str]:
    return {name: projection(values[name], r[name], part, depth) for name, part in s.parts}


def selection(value: str, condition: Condition, schema: Schema, depth: int = 1) -> str:
    if condition.where is not None:
        where = condition.where
        value = _filter(value, depth, lambda t: f"({where.over(lambda name: field(t, name))})")
    if not condition.parts:
        return value

    def body(t: str) -> str:
        return _tuple(t, schema, selected(_parts(t, schema), condition, schema, depth + 1))

    chosen = _transform(value, depth, body)
    if all(part.test == "any" for _, part in condition.parts):
        return chosen
    return _filter(chosen, depth, lambda t: tested(_parts(t, schema), condition))


def selected(values: Mapping[str, str], condition: Condition, schema: Schema, depth: int = 1) -> dict[str, str]:
    return {
        name: selection(value, condition.by_name[name], schema[name], depth) if name in condition.by_name else value
        for name, value in values.items()
    }


def tested(values: Mapping[str, str], condition: Condition) -> str:
    """Whether what was selected of the subrelations passes the tests of existence."""
    signs = {"empty": "=", "nonempty": ">"}
    tests = [f"(size({values[name]}) {signs[p.test]} 0)" for name, p in condition.parts if p.test != "any"]
    return " AND ".join(tests) or "true"


# Two operands


def _matched(u: str, v: str, schema: Schema, result: Schema, pair: Pair, depth: int) -> str:
    """A tuple for every two with one key, in the order of u."""

    def body(t: str) -> str:
        partners = _filter(v, depth + 1, lambda w: _same_key(schema, t, w))
        return _transform(partners, depth + 1, lambda w: _tuple(t, result, pair(t, w, depth + 2)))

    return f"flatten({_transform(u, depth, body)})"


def _unmatched(u: str, v: str, schema: Schema, depth: int) -> str:
    inner = _variable(depth + 1)
    return _filter(u, depth, lambda t: f"NOT exists({v}, {inner} -> {_same_key(schema, t, inner)})")


def _sorted(*pieces: str) -> str:
    return f"sort_array(concat({', '.join(pieces)}))"


def union(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    if not schema.parts:
        return _sorted(u, _unmatched(v, u, schema, depth))

    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return united(_parts(t, schema), _parts(w, schema), schema, depth)

    alone = _unmatched(u, v, schema, depth), _unmatched(v, u, schema, depth)
    return _sorted(*alone, _matched(u, v, schema, schema, pair, depth))


def united(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: union(u[name], v[name], part, depth) for name, part in schema.parts}


def difference(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    alone = _unmatched(u, v, schema, depth)
    if not schema.parts:
        return alone

    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return reduced(_parts(t, schema), _parts(w, schema), schema, depth)

    both = _matched(u, v, schema, schema, pair, depth)
    return _sorted(alone, _filter(both, depth, lambda t: nonempty(_parts(t, schema))))


def reduced(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: difference(u[name], v[name], part, depth) for name, part in schema.parts}


def intersection(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return intersected(_parts(t, schema), _parts(w, schema), schema, depth)

    return _matched(u, v, schema, schema, pair, depth)


def intersected(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: intersection(u[name], v[name], part, depth) for name, part in schema.parts}


def join(u: str, v: str, r: Schema, s: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return carried(_parts(t, r), _parts(w, s), r, s, depth)

    return _matched(u, v, r, joined(r, s), pair, depth)


def carried(u: Mapping[str, str], v: Mapping[str, str], r: Schema, s: Schema, depth: int = 1) -> dict[str, str]:
    common = {name: join(u[name], v[name], r[name], s[name], depth) for name in u if name in v}
    return {**u, **v, **common}


# From arrays that may be anything


def merged(value: str, schema: Schema, depth: int = 1) -> str:
    """The union of all tuples of an array, which is in PNF whatever the array is: NULL, unsorted, with keys twice."""
    whole, key, t = _variable(depth), _variable(depth + 1), _variable(depth + 2)
    present = f"filter(coalesce({value}, {empty(schema)}), {whole} -> {whole} IS NOT NULL)"
    keys = f"array_distinct({_transform(whole, depth + 1, lambda t: struct({n: field(t, n) for n in schema.key}))})"

    def part(name: str, inner: Schema) -> str:
        own = _filter(whole, depth + 2, lambda t: _same_key(schema, t, key))
        pieces = f"transform({own}, {t} -> coalesce({field(t, name)}, {empty(inner)}))"
        return merged(f"flatten({pieces})", inner, depth + 2)

    made = _tuple(key, schema, {name: part(name, inner) for name, inner in schema.parts})
    # An array of one is how an expression gives a value a name.
    return f"transform(array({present}), {whole} -> sort_array(transform({keys}, {key} -> {made})))[0]"


def violates(value: str, schema: Schema, depth: int = 1) -> str:
    """Whether an array is not a relation in PNF: a tuple is NULL or a key is there twice, at any level."""
    keys = _transform(value, depth, lambda t: struct({n: field(t, n) for n in schema.key}))
    t = _variable(depth)
    inner = [violates(field(t, name), part, depth + 1) for name, part in schema.parts]
    tests = " OR ".join([f"({t} IS NULL)", *inner])
    return f"coalesce((size(array_distinct({keys})) < size({value})) OR exists({value}, {t} -> {tests}), false)"


def canonical(value: str, schema: Schema, depth: int = 1) -> str:
    """An array in PNF, sorted at every level, with empty arrays for NULLs and keys before subrelations."""

    def body(t: str) -> str:
        return _tuple(t, schema, {name: canonical(field(t, name), part, depth + 1) for name, part in schema.parts})

    return f"sort_array({_transform(f'coalesce({value}, {empty(schema)})', depth, body)})"
