"""The operators on subrelations as Spark SQL expressions, without UDFs, for any depth.

A relation is an `array<struct<…>>` in canonical order: sorted by key at every level. Every function takes the texts of
such values and gives the text of one. Variables of lambdas are numbered by their depth. Keys are compared with `<=>`.

Two arrays are matched by looking for every tuple of the one in the other, n·m comparisons of keys. That is what Spark's
own functions do for keys that are structs, and subrelations are short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nabla.frontends.nested.conditions import Condition
from nabla.frontends.nested.schema import Schema, joined

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
    """The tuples that pass all tests, and of their subrelations what is selected."""
    if not _is_trivial(condition):
        value = _filter(value, depth, lambda t: _passes(t, condition, schema, depth + 1))
    if not any(_selects(part) for _, part in condition.parts):
        return value

    def body(t: str) -> str:
        return _tuple(t, schema, selected(_parts(t, schema), condition, schema, depth + 1))

    return _transform(value, depth, body)


def selected(values: Mapping[str, str], condition: Condition, schema: Schema, depth: int = 1) -> dict[str, str]:
    return {
        name: selection(value, condition.by_name[name], schema[name], depth) if name in condition.by_name else value
        for name, value in values.items()
    }


def existence(values: Mapping[str, str], condition: Condition, schema: Schema, depth: int = 1) -> str:
    """Whether what is selected of the subrelations passes the tests of existence. It is not computed for that: there is
    some where a tuple passes."""
    tests = []
    for name, part in condition.parts:
        if part.test != "any":
            some = _some(values[name], part, schema[name], depth)
            tests.append(f"({some})" if part.test == "nonempty" else f"(NOT coalesce({some}, false))")
    return " AND ".join(tests) or "true"


def _some(value: str, condition: Condition, schema: Schema, depth: int) -> str:
    """Whether a tuple passes; maybe NULL if none does."""
    if _is_trivial(condition):
        return f"size({value}) > 0"
    return f"exists({value}, {_variable(depth)} -> {_passes(_variable(depth), condition, schema, depth + 1)})"


def _passes(t: str, condition: Condition, schema: Schema, depth: int) -> str:
    own = [f"({condition.where.over(lambda name: field(t, name))})"] if condition.where is not None else []
    return " AND ".join([*own, existence(_parts(t, schema), condition, schema, depth)])


def _is_trivial(condition: Condition) -> bool:
    """Whether every tuple passes."""
    return condition.where is None and all(part.test == "any" for _, part in condition.parts)


def _selects(condition: Condition) -> bool:
    """Whether a selection may leave something out."""
    return not _is_trivial(condition) or any(_selects(part) for _, part in condition.parts)


# Two operands


def _both(u: str, v: str, r: Schema, s: Schema, depth: int, body: Callable[[str, str], str]) -> str:
    """An expression over two relations, each of them opened once. An array of one is how a value gets a name."""
    pair = _variable(depth)
    values = struct({"u": _opened(u, r), "v": _opened(v, s)})
    return f"transform(array({values}), {pair} -> {body(field(pair, 'u'), field(pair, 'v'))})[0]"


def _opened(value: str, schema: Schema) -> str:
    """The same relation in another form in memory: to read an attribute of a tuple that lies in the packed form of a row
    costs Spark ten times as much, and each is read as often as there are tuples to compare with."""
    return f"arrays_zip({', '.join(field(value, name) for name in schema.names)})"


def _partners(t: str, v: str, schema: Schema, depth: int) -> str:
    return _filter(v, depth, lambda w: _same_key(schema, t, w))


def _has_partner(t: str, v: str, schema: Schema, depth: int) -> str:
    return f"exists({v}, {_variable(depth)} -> {_same_key(schema, t, _variable(depth))})"


def _made(t: str, v: str, schema: Schema, result: Schema, pair: Pair, depth: int) -> str:
    """The tuple that t makes with the one of v that has its key, if there is one: a relation of at most one tuple."""
    partners = _partners(t, v, schema, depth)
    return _transform(partners, depth, lambda w: _tuple(t, result, pair(t, w, depth + 1)))


def _matched(u: str, v: str, r: Schema, s: Schema, result: Schema, pair: Pair, depth: int) -> str:
    """A tuple for every two with one key, in the order of u."""

    def body(u: str, v: str) -> str:
        return f"flatten({_transform(u, depth + 1, lambda t: _made(t, v, r, result, pair, depth + 2))})"

    return _both(u, v, r, s, depth, body)


def union(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return united(_parts(t, schema), _parts(w, schema), schema, depth)

    def merged(t: str, v: str) -> str:
        both = _made(t, v, schema, schema, pair, depth + 2)
        return f"CASE WHEN {_has_partner(t, v, schema, depth + 2)} THEN {both} ELSE array({t}) END"

    def body(u: str, v: str) -> str:
        ours = f"flatten({_transform(u, depth + 1, lambda t: merged(t, v))})" if schema.parts else u
        theirs = _filter(v, depth + 1, lambda t: f"NOT {_has_partner(t, u, schema, depth + 2)}")
        return f"sort_array(concat({ours}, {theirs}))"

    return _both(u, v, schema, schema, depth, body)


def united(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: union(u[name], v[name], part, depth) for name, part in schema.parts}


def difference(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return reduced(_parts(t, schema), _parts(w, schema), schema, depth)

    def less(t: str, v: str) -> str:
        made = _made(t, v, schema, schema, pair, depth + 2)
        left = _filter(made, depth + 2, lambda t: nonempty(_parts(t, schema)))
        return f"CASE WHEN {_has_partner(t, v, schema, depth + 2)} THEN {left} ELSE array({t}) END"

    def body(u: str, v: str) -> str:
        if not schema.parts:
            return _filter(u, depth + 1, lambda t: f"NOT {_has_partner(t, v, schema, depth + 2)}")
        return f"flatten({_transform(u, depth + 1, lambda t: less(t, v))})"

    return _both(u, v, schema, schema, depth, body)


def reduced(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: difference(u[name], v[name], part, depth) for name, part in schema.parts}


def intersection(u: str, v: str, schema: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return intersected(_parts(t, schema), _parts(w, schema), schema, depth)

    return _matched(u, v, schema, schema, schema, pair, depth)


def intersected(u: Mapping[str, str], v: Mapping[str, str], schema: Schema, depth: int = 1) -> dict[str, str]:
    return {name: intersection(u[name], v[name], part, depth) for name, part in schema.parts}


def join(u: str, v: str, r: Schema, s: Schema, depth: int = 1) -> str:
    def pair(t: str, w: str, depth: int) -> Mapping[str, str]:
        return carried(_parts(t, r), _parts(w, s), r, s, depth)

    return _matched(u, v, r, s, joined(r, s), pair, depth)


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


def canonical(value: str, schema: Schema, depth: int = 1) -> str:
    """An array in PNF, sorted at every level, with empty arrays for NULLs and keys before subrelations. What is not in PNF
    stays so: a key that is there twice, a tuple that is NULL."""

    def body(t: str) -> str:
        made = _tuple(t, schema, {name: canonical(field(t, name), part, depth + 1) for name, part in schema.parts})
        return f"CASE WHEN {t} IS NOT NULL THEN {made} END"

    return f"sort_array({_transform(f'coalesce({value}, {empty(schema)})', depth, body)})"
