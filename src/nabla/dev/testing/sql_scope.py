"""Relations for the generator of SQL text: their columns, and the terms for expressions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from nabla.algebra.parse import foreign
from nabla.dev.testing.random_expressions import Expressions
from nabla.dev.testing.random_terms import Sample, kind_of

SCALARS = frozenset(("int", "decimal", "double", "string", "boolean", "date"))
ARRAY, STRUCT, TIMESTAMP = "array<int>", "struct<x:int,y:string>", "timestamp"
ROUGH = math.inf
"""The bound of a number whose last digits depend on the order of summation: it may be shown, not computed with."""


@dataclass(frozen=True)
class Field:
    """A column of a table, view or subquery."""

    name: str
    type: str
    bound: float = 1.0
    exact: bool = True

    @property
    def usable(self) -> bool:
        return self.bound < ROUGH and "map<" not in self.type


@dataclass(frozen=True)
class Item:
    """An item of a FROM clause, with its columns under its alias."""

    sql: str
    columns: tuple[Sample, ...]


@dataclass(frozen=True)
class QueryText:
    """A query that can stand alone or in brackets."""

    sql: str
    fields: tuple[Field, ...]


def sample(sql: str, type_: str, bound: float = 1.0, exact: bool = True) -> Sample:
    """A term as it is written: queries are to be spelled in many ways."""
    return Sample(foreign(sql, {}, type_), bound, exact)


def under(alias: str, fields: Sequence[Field]) -> tuple[Sample, ...]:
    """The columns that can be computed with, as an alias shows them."""
    return tuple(sample(f"{alias}.`{f.name}`", f.type, f.bound, f.exact) for f in fields if f.usable)


def of_type(columns: Sequence[Sample], type_: str) -> list[Sample]:
    return [column for column in columns if column.expr.type == type_]


def scalars(columns: Sequence[Sample]) -> list[Sample]:
    return [column for column in columns if kind_of(column.expr.type) in SCALARS]


def expressions(rng: Random, columns: Sequence[Sample]) -> Expressions:
    """Scalar expressions over columns, and over what nested ones and times contain."""
    leaves = scalars(columns)
    inner = [term for column in columns for term in _inside(column)]
    return Expressions(rng, leaves + (rng.sample(inner, min(2, len(inner))) if inner else []))


def _inside(column: Sample) -> Iterator[Sample]:
    x = column.sql
    match column.expr.type:
        case "array<int>":
            yield sample(f"size({x})", "int", 10)
            yield sample(f"get({x}, 0)", "int", 10)
            yield sample(f"array_contains({x}, 1)", "boolean")
            yield sample(f"exists({x}, e -> e > 1)", "boolean")
            yield sample(f"aggregate({x}, 0, (total, e) -> total + coalesce(e, 0))", "int", 100)
            yield sample(f"array_max({x})", "int", 10)
        case "struct<x:int,y:string>":
            yield sample(f"{x}.x", "int", 10)
            yield sample(f"{x}.y", "string", 2)
        case "timestamp":
            yield sample(f"hour({x})", "int", 24)
            yield sample(f"CAST({x} AS DATE)", "date")
            yield sample(f"CAST({x} + INTERVAL '1' DAY AS DATE)", "date")
            yield sample(f"({x} > TIMESTAMP '2024-01-02 00:00:00')", "boolean")
        case "date":
            yield sample(f"({x} + INTERVAL '1' MONTH)", "date")
            yield sample(f"datediff({x}, DATE '2024-01-02')", "int", 1000)
            yield sample(f"dayofweek({x})", "int", 7)


def nested(rng: Random, columns: Sequence[Sample]) -> Sample:
    """An array, struct, timestamp or map: what a view carries along."""
    terms = expressions(rng, columns)
    arrays, structs, times = (of_type(columns, type_) for type_ in (ARRAY, STRUCT, TIMESTAMP))
    made = [
        sample(f"array({terms.of_type('int').sql}, {terms.of_type('int').sql})", ARRAY),
        sample(
            f"named_struct('x', {terms.of_type('int').sql}, 'y', {terms.of_type('string').sql})",
            STRUCT,
        ),
    ]
    if rng.random() < 0.1:
        made.append(sample(f"map('k', {terms.of_type('int').sql})", "map<string,int>"))
    for x in arrays:
        made += [x, sample(f"transform({x.sql}, e -> e + 1)", ARRAY), sample(f"filter({x.sql}, e -> e > 0)", ARRAY)]
        made += [sample(f"transform({x.sql}, (e, i) -> coalesce(e, 0) + i)", ARRAY)]
        made += [sample(f"sort_array(array_distinct({x.sql}))", ARRAY)]
    made += structs
    for t in times:
        made += [
            t,
            sample(f"date_trunc('DAY', {t.sql})", TIMESTAMP),
            sample(f"({t.sql} + INTERVAL '2' HOUR)", TIMESTAMP),
        ]
    return rng.choice(made)


def any_term(rng: Random, columns: Sequence[Sample], depth: int = 2) -> Sample:
    return nested(rng, columns) if rng.random() < 0.2 else expressions(rng, columns).any(depth)


def null(type_: str) -> str:
    return f"CAST(NULL AS {type_})"
