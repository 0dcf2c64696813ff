"""The operators of the Verso algebra on relations in PNF: the definitions, transcribed.

Relations are functions from keys (see `model`), so that the flat case (i) of each definition is the general one with no
subrelations: `any` of none is false, `all` of none is true. Both operands have the same atoms in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from nabla.algebra.reference.evaluator import Slot, compile_expression, parse_type
from nabla.frontends.nested.conditions import Condition, Test, Where
from nabla.frontends.nested.model import Key, Relation, Tuple
from nabla.frontends.nested.schema import Schema

TESTS: dict[Test, Callable[[Relation], bool]] = {"any": lambda r: True, "empty": lambda r: not r, "nonempty": bool}


def expansion(s: Relation, schema: Schema) -> Relation:
    """η_R(s): structured attributes of R that s lacks are padded with ∅ (definition 2.2)."""
    return {
        key: {name: expansion(v[name], part) if name in v else {} for name, part in schema.parts}
        for key, v in s.items()
    }


def projection(r: Relation, schema: Schema) -> Relation:
    """π̂_S(r): the keys and the structured attributes of S, which are projected in turn (definition 2.3)."""
    return {key: {name: projection(u[name], part) for name, part in schema.parts} for key, u in r.items()}


def selection(r: Relation, condition: Condition, schema: Schema) -> Relation:
    """σ̂_c(r): tuples whose atoms satisfy c_b, with their subrelations selected, if these pass their tests (2.7)."""
    holds = _compile(condition.where, schema) if condition.where else None
    result: Relation = {}
    for key, u in r.items():
        if holds is None or holds(key):
            x = {
                name: selection(u[name], condition.by_name[name], part) if name in condition.by_name else u[name]
                for name, part in schema.parts
            }
            if all(TESTS[part.test](x[name]) for name, part in condition.parts):
                result[key] = x
    return result


@lru_cache(maxsize=4096)
def _compile(where: Where, schema: Schema) -> Callable[[Key], bool]:
    layout = {name: Slot(place, parse_type(kind)) for place, (name, kind) in enumerate(schema.atoms)}
    get = compile_expression(where.expr, layout).get
    return lambda key: get(key) is True


def union(r: Relation, s: Relation) -> Relation:
    """r ⊕ s: tuples with a common key merge their subrelations (definition 2.8)."""
    merged = {k: _each(union, u, s[k]) for k, u in r.items() if k in s}
    return r | s | merged


def difference(r: Relation, s: Relation) -> Relation:
    """r ⊖ s: a tuple whose key is in s loses what s has there, and goes if nothing is left (definition 2.9)."""
    reduced = {k: _each(difference, u, s[k]) if k in s else u for k, u in r.items()}
    return {k: x for k, x in reduced.items() if k not in s or any(x.values())}


def intersection(r: Relation, s: Relation) -> Relation:
    """r ⊙ s: keys of both, with the intersections of their subrelations, even if all are empty (definition 2.10)."""
    return {k: _each(intersection, u, s[k]) for k, u in r.items() if k in s}


def join(r: Relation, s: Relation) -> Relation:
    """r ⋈ s: keys of both; common structured attributes are joined, the others are carried over (definition 2.12)."""
    return {k: _join_parts(u, s[k]) for k, u in r.items() if k in s}


def meet(u: Relation, v: Relation, places: Sequence[tuple[int, int]]) -> bool:
    """Whether two relations have tuples that are equal in some atoms; `places` are those of each atom in both keys."""
    ours = {tuple(key[i] for i, _ in places) for key in u}
    return any(tuple(key[j] for _, j in places) in ours for key in v)


def _join_parts(u: Tuple, v: Tuple) -> Tuple:
    return u | {name: join(u[name], part) if name in u else part for name, part in v.items()}


def _each(operator: Callable[[Relation, Relation], Relation], u: Tuple, v: Tuple) -> Tuple:
    return {name: operator(part, v[name]) for name, part in u.items()}
