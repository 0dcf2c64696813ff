"""The operators on subrelations as expressions, without UDFs, for any depth.

A relation is an `array<struct<…>>` in canonical order: sorted by key at every level. Every function takes such values, as
expressions, and gives one. Variables of lambdas are numbered by their depth. Keys are compared with `<=>`.

Two arrays are matched by searching every tuple of the one in the other, with n·m comparisons of keys. Spark's own functions do
the same for keys that are structs, and subrelations are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from nabla.algebra.build import (
    TRUE,
    all_of,
    any_of,
    call,
    coalesce,
    compare,
    equal,
    is_not_null,
    named_struct,
    negate,
    number,
    text,
    when,
)
from nabla.algebra.expressions import Apply, Expr, Lambda, Literal, Variable
from nabla.algebra.normalize import cast
from nabla.algebra.result_types import element_type
from nabla.frontends.nested.conditions import Condition
from nabla.frontends.nested.levels import Meeting
from nabla.frontends.nested.schema import Schema, join_schemas

Body = Callable[[Expr], Expr]
"""An expression over a variable of a lambda."""
Values = Mapping[str, Expr]
"""The values of attributes, by name."""
Pair = Callable[[Expr, Expr, int], Values]
"""The structured attributes of a tuple that two tuples with one key make, by name."""
Met = Callable[[Expr, Expr, int], Iterable[Expr]]
"""Tests that two tuples with one key have to pass to be a pair."""


def always(t: Expr, w: Expr, depth: int) -> tuple[Expr, ...]:
    return ()


def empty(schema: Schema) -> Expr:
    return cast(array(), schema.array)


def array(*tuples: Expr) -> Expr:
    return call("array", *tuples, type=f"array<{tuples[0].type if tuples else 'void'}>", nullable=False)


def flatten(arrays: Expr) -> Expr:
    return call("flatten", arrays, type=element_type(arrays.type), nullable=arrays.nullable)


def field(t: Expr, name: str, type_: str) -> Expr:
    """An attribute of a tuple."""
    return Apply("GetStructField", (t, text(name)), type_)


def struct(fields: Values) -> Expr:
    return named_struct(fields.items())


def _key(t: Expr, schema: Schema) -> dict[str, Expr]:
    return {name: field(t, name, kind) for name, kind in schema.atoms}


def _tuple(t: Expr, schema: Schema, parts: Values) -> Expr:
    """A tuple with the key of t."""
    return struct(_key(t, schema) | {name: parts[name] for name in schema.structured})


def _lambda(value: Expr, depth: int, body: Body) -> Lambda:
    """A function of the elements of an array."""
    variable = Variable(f"t_{depth}", element_type(value.type))
    return Lambda((variable,), body(variable))


def _same_key(schema: Schema, t: Expr, u: Expr) -> Expr:
    ours, theirs = _key(t, schema), _key(u, schema)
    return all_of(equal(ours[name], theirs[name], null_safe=True) for name in schema.key)


def _transform(value: Expr, depth: int, body: Body) -> Expr:
    function = _lambda(value, depth, body)
    return call("transform", value, function, type=f"array<{function.type}>", nullable=value.nullable)


def _filter(value: Expr, depth: int, body: Body) -> Expr:
    return call("filter", value, _lambda(value, depth, body), type=value.type, nullable=value.nullable)


def _exists(value: Expr, depth: int, body: Body) -> Expr:
    return call("exists", value, _lambda(value, depth, body), type="boolean")


def _parts(t: Expr, schema: Schema) -> dict[str, Expr]:
    return {name: field(t, name, part.array) for name, part in schema.parts}


def _has_tuples(value: Expr) -> Expr:
    return compare(call("size", value, type="int", nullable=value.nullable), ">", number(0, "int"))


def nonempty(values: Values) -> Expr:
    """Whether one of the relations has a tuple."""
    return any_of(map(_has_tuples, values.values()))


# One operand


def expansion(value: Expr, s: Schema, r: Schema, depth: int = 1) -> Expr:
    if s == r:
        return value

    def body(t: Expr) -> Expr:
        return _tuple(t, r, expand_parts(_parts(t, s), s, r, depth + 1))

    return _transform(value, depth, body)


def expand_parts(values: Values, s: Schema, r: Schema, depth: int = 1) -> dict[str, Expr]:
    """The structured attributes of a tuple over R from those of a tuple over S."""
    return {
        name: expansion(values[name], s[name], part, depth) if name in values else empty(part) for name, part in r.parts
    }


def projection(value: Expr, r: Schema, s: Schema, depth: int = 1) -> Expr:
    if r == s:
        return value

    def body(t: Expr) -> Expr:
        return _tuple(t, s, project_parts(_parts(t, r), r, s, depth + 1))

    return _transform(value, depth, body)


def project_parts(values: Values, r: Schema, s: Schema, depth: int = 1) -> dict[str, Expr]:
    return {name: projection(values[name], r[name], part, depth) for name, part in s.parts}


def selection(value: Expr, condition: Condition, schema: Schema, depth: int = 1) -> Expr:
    """The tuples that pass all tests, with their subrelations selected, too."""
    if not _is_trivial(condition):
        value = _filter(value, depth, lambda t: _passes(t, condition, schema, depth + 1))
    if not any(_selects(part) for _, part in condition.parts):
        return value

    def body(t: Expr) -> Expr:
        return _tuple(t, schema, select_parts(_parts(t, schema), condition, schema, depth + 1))

    return _transform(value, depth, body)


def select_parts(values: Values, condition: Condition, schema: Schema, depth: int = 1) -> dict[str, Expr]:
    return {
        name: selection(value, condition.by_name[name], schema[name], depth) if name in condition.by_name else value
        for name, value in values.items()
    }


def existence(values: Values, condition: Condition, schema: Schema, depth: int = 1) -> Expr:
    """Whether the selected subrelations pass the tests of existence. They are not computed for that: a selected subrelation
    is nonempty if one of its tuples passes."""
    tests = []
    for name, part in condition.parts:
        if part.test != "any":
            some = _some(values[name], part, schema[name], depth)
            tests.append(some if part.test == "nonempty" else negate(coalesce(some, Literal("false", "boolean"))))
    return all_of(tests)


def _some(value: Expr, condition: Condition, schema: Schema, depth: int) -> Expr:
    """Whether a tuple passes; the value may be NULL if none does."""
    if _is_trivial(condition):
        return _has_tuples(value)
    return _exists(value, depth, lambda t: _passes(t, condition, schema, depth + 1))


def _passes(t: Expr, condition: Condition, schema: Schema, depth: int) -> Expr:
    own = [condition.where.over(_key(t, schema))] if condition.where is not None else []
    tests = [*own, existence(_parts(t, schema), condition, schema, depth)]
    return all_of(test for test in tests if test != TRUE)


def _is_trivial(condition: Condition) -> bool:
    """Whether every tuple passes."""
    return condition.where is None and all(part.test == "any" for _, part in condition.parts)


def _selects(condition: Condition) -> bool:
    """Whether a selection may leave something out."""
    return not _is_trivial(condition) or any(_selects(part) for _, part in condition.parts)


# Levels below the top


def change_level(
    values: Values, path: Sequence[str], r: Schema, result: Schema, change: Callable[[Expr, int], Expr], depth: int = 1
) -> dict[str, Expr]:
    """The structured attributes of a tuple over R, with the subrelation at the path changed. `change` gets that subrelation
    and the depth of lambdas around it."""
    name, *rest = path

    def body(t: Expr) -> Expr:
        inner = change_level(_parts(t, r[name]), rest, r[name], result[name], change, depth + 1)
        return _tuple(t, result[name], inner)

    changed = _transform(values[name], depth, body) if rest else change(values[name], depth)
    return {**values, name: changed}


def level_keys(values: Values, path: Sequence[str], schema: Schema) -> Expr:
    """The keys of the tuples that the subrelations at the path have, each once, as an array of structs."""

    def keys(values: Values, path: Sequence[str], schema: Schema, depth: int) -> Expr:
        name, *rest = path
        part = schema[name]
        if not rest:
            return _transform(values[name], depth, lambda t: struct(_key(t, part)))
        return flatten(_transform(values[name], depth, lambda t: keys(_parts(t, part), rest, part, depth + 1)))

    found = keys(values, path, schema, 1)
    return call("array_distinct", found, type=found.type, nullable=found.nullable)


# Two operands


def _compute_once(value: Expr, depth: int, body: Body) -> Expr:
    """An expression over a value that is computed once: a transform of an array with one element gives the value a name."""
    mapped = _transform(array(value), depth, body)
    return Apply("GetArrayItem", (mapped, number(0, "int")), element_type(mapped.type))


def _both(u: Expr, v: Expr, r: Schema, s: Schema, depth: int, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """An expression over two relations, each of which is unpacked once."""
    values = struct({"u": _unpack(u, r), "v": _unpack(v, s)})
    return _compute_once(values, depth, lambda pair: body(field(pair, "u", r.array), field(pair, "v", s.array)))


def _unpack(value: Expr, schema: Schema) -> Expr:
    """The same relation as an array of unpacked structs in memory. Spark takes ten times as long to read an attribute of a
    tuple in the packed form of a row, and reads each once for every tuple that it is compared with."""
    columns = (
        Apply("GetArrayStructFields", (value, text(name)), f"array<{kind}>") for name, kind in schema.types.items()
    )
    return call("arrays_zip", *columns, type=schema.array)


def _has_partner(t: Expr, v: Expr, schema: Schema, depth: int) -> Expr:
    return _exists(v, depth, lambda w: _same_key(schema, t, w))


def _pair_tuple(t: Expr, v: Expr, schema: Schema, result: Schema, pair: Pair, depth: int, met: Met = always) -> Expr:
    """The tuple that t makes with the tuple of v that has its key, if both meet: a relation of at most one tuple."""
    partners = _filter(v, depth, lambda w: all_of((_same_key(schema, t, w), *met(t, w, depth + 1))))
    return _transform(partners, depth, lambda w: _tuple(t, result, pair(t, w, depth + 1)))


def _match(u: Expr, v: Expr, r: Schema, s: Schema, result: Schema, pair: Pair, depth: int, met: Met = always) -> Expr:
    """A tuple for every pair of tuples with one key that meet, in the order of u."""

    def body(u: Expr, v: Expr) -> Expr:
        return flatten(_transform(u, depth + 1, lambda t: _pair_tuple(t, v, r, result, pair, depth + 2, met)))

    return _both(u, v, r, s, depth, body)


def union(u: Expr, v: Expr, schema: Schema, depth: int = 1) -> Expr:
    def pair(t: Expr, w: Expr, depth: int) -> Values:
        return unite_parts(_parts(t, schema), _parts(w, schema), schema, depth)

    def merged(t: Expr, v: Expr) -> Expr:
        both = _pair_tuple(t, v, schema, schema, pair, depth + 2)
        return when(_has_partner(t, v, schema, depth + 2), both, array(t))

    def body(u: Expr, v: Expr) -> Expr:
        ours = flatten(_transform(u, depth + 1, lambda t: merged(t, v))) if schema.parts else u
        theirs = _filter(v, depth + 1, lambda t: negate(_has_partner(t, u, schema, depth + 2)))
        return sort(call("concat", ours, theirs, type=schema.array))

    return _both(u, v, schema, schema, depth, body)


def unite_parts(u: Values, v: Values, schema: Schema, depth: int = 1) -> dict[str, Expr]:
    return {name: union(u[name], v[name], part, depth) for name, part in schema.parts}


def difference(u: Expr, v: Expr, schema: Schema, depth: int = 1) -> Expr:
    def pair(t: Expr, w: Expr, depth: int) -> Values:
        return subtract_parts(_parts(t, schema), _parts(w, schema), schema, depth)

    def less(t: Expr, v: Expr) -> Expr:
        made = _pair_tuple(t, v, schema, schema, pair, depth + 2)
        left = _filter(made, depth + 2, lambda t: nonempty(_parts(t, schema)))
        return when(_has_partner(t, v, schema, depth + 2), left, array(t))

    def body(u: Expr, v: Expr) -> Expr:
        if not schema.parts:
            return _filter(u, depth + 1, lambda t: negate(_has_partner(t, v, schema, depth + 2)))
        return flatten(_transform(u, depth + 1, lambda t: less(t, v)))

    return _both(u, v, schema, schema, depth, body)


def subtract_parts(u: Values, v: Values, schema: Schema, depth: int = 1) -> dict[str, Expr]:
    return {name: difference(u[name], v[name], part, depth) for name, part in schema.parts}


def intersection(u: Expr, v: Expr, schema: Schema, depth: int = 1) -> Expr:
    def pair(t: Expr, w: Expr, depth: int) -> Values:
        return intersect_parts(_parts(t, schema), _parts(w, schema), schema, depth)

    return _match(u, v, schema, schema, schema, pair, depth)


def intersect_parts(u: Values, v: Values, schema: Schema, depth: int = 1) -> dict[str, Expr]:
    return {name: intersection(u[name], v[name], part, depth) for name, part in schema.parts}


def join(u: Expr, v: Expr, r: Schema, s: Schema, depth: int = 1, on: Sequence[Meeting] = ()) -> Expr:
    def pair(t: Expr, w: Expr, depth: int) -> Values:
        return join_parts(_parts(t, r), _parts(w, s), r, s, depth)

    def met(t: Expr, w: Expr, depth: int) -> Iterable[Expr]:
        return meet(_parts(t, r), _parts(w, s), r, s, on, depth)

    return _match(u, v, r, s, join_schemas(r, s), pair, depth, met)


def meet(u: Values, v: Values, r: Schema, s: Schema, on: Iterable[Meeting], depth: int = 1) -> list[Expr]:
    """Tests whether subrelations of two tuples have tuples that are equal in their common atoms."""

    def equal_atoms(m: Meeting, t: Expr, w: Expr) -> Expr:
        ours, theirs = _key(t, r[m.ours]), _key(w, s[m.theirs])
        return all_of(equal(ours[name], theirs[name], null_safe=True) for name in m.common)

    def some(m: Meeting, t: Expr) -> Expr:
        return _exists(v[m.theirs], depth + 1, lambda w: equal_atoms(m, t, w))

    return [_exists(u[m.ours], depth, partial(some, m)) for m in on]


def join_parts(u: Values, v: Values, r: Schema, s: Schema, depth: int = 1) -> dict[str, Expr]:
    common = {name: join(u[name], v[name], r[name], s[name], depth) for name in u if name in v}
    return {**u, **v, **common}


# Any arrays


def sort(value: Expr) -> Expr:
    return call("sort_array", value, type=value.type, nullable=value.nullable)


def merge(value: Expr, schema: Schema, depth: int = 1) -> Expr:
    """The union of all tuples of an array. It is in PNF even if the array is NULL, unsorted, or has a key twice."""
    present = _filter(coalesce(value, empty(schema)), depth, is_not_null)

    def union_of(whole: Expr) -> Expr:
        keys = _transform(whole, depth + 1, lambda t: struct(_key(t, schema)))
        distinct = call("array_distinct", keys, type=keys.type)
        return sort(_transform(distinct, depth + 1, lambda key: made(whole, key)))

    def made(whole: Expr, key: Expr) -> Expr:
        own = _filter(whole, depth + 2, lambda t: _same_key(schema, t, key))
        return _tuple(key, schema, {name: part(own, name, inner) for name, inner in schema.parts})

    def part(own: Expr, name: str, inner: Schema) -> Expr:
        pieces = _transform(own, depth + 2, lambda t: coalesce(field(t, name, inner.array), empty(inner)))
        return merge(flatten(pieces), inner, depth + 2)

    return _compute_once(present, depth, union_of)


def canonical(value: Expr, schema: Schema, depth: int = 1) -> Expr:
    """The array sorted at every level, with empty arrays for NULLs and keys before subrelations. Violations of PNF stay: a
    key that is there twice, a tuple that is NULL."""

    def body(t: Expr) -> Expr:
        parts = {n: canonical(field(t, n, part.array), part, depth + 1) for n, part in schema.parts}
        return when(is_not_null(t), _tuple(t, schema, parts))

    return sort(_transform(coalesce(value, empty(schema)), depth, body))
