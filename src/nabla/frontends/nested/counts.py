"""Counts beside a projection, so that π̂(r ⊖ δ) can be told without r (Liu and Vincent, section 4.6).

A projection hides subrelations. When an update takes away all that is shown of a tuple, the projection alone does not tell
whether something hidden is left, in which case the tuple stays: example 4.1. A count beside each tuple of the projection
does: the number of *leaves* of r below it, a leaf being a tuple with nothing below it. A tuple is there while its count is
positive, as in the count algorithm:

    c(π̂(r ⊖ δ)) = c(π̂(r)) − c(π̂(δ))    if all leaves of δ are leaves of r

An update that was made knows its own leaves: `leaf_change` gives those that went and those that came.
"""

from __future__ import annotations

from typing import TypeAlias

from nabla.frontends.nested.model import Key, Relation, Tuple
from nabla.frontends.nested.schema import Schema

Counted: TypeAlias = "dict[Key, tuple[int, dict[str, Counted]]]"
"""A relation with a count beside each tuple."""


def leaves(t: Tuple) -> int:
    """The leaves at or below a tuple: one if it has nothing below it."""
    return sum(leaves(u) for part in t.values() for u in part.values()) or 1


def counted(r: Relation, schema: Schema) -> Counted:
    """π̂_S(r) with the number of leaves of r below each of its tuples."""
    return {key: (leaves(t), {n: counted(t[n], part) for n, part in schema.parts}) for key, t in r.items()}


def shown(c: Counted) -> Relation:
    """The relation without its counts."""
    return {key: {name: shown(part) for name, part in parts.items()} for key, (_, parts) in c.items()}


def add(c: Counted, d: Relation, schema: Schema) -> Counted:
    """The counts after the leaves of δ have come."""
    result = dict(c)
    for key, t in d.items():
        number, parts = c.get(key, (0, {name: {} for name in schema.structured}))
        result[key] = number + leaves(t), {n: add(parts[n], t[n], part) for n, part in schema.parts}
    return result


def subtract(c: Counted, d: Relation) -> Counted:
    """The counts after the leaves of δ have gone. Tuples whose count is zero go."""
    result: Counted = {}
    for key, (number, parts) in c.items():
        if key not in d:
            result[key] = number, parts
        elif number > leaves(d[key]):
            result[key] = number - leaves(d[key]), {n: subtract(part, d[key][n]) for n, part in parts.items()}
    return result


def leaf_change(old: Relation, new: Relation) -> tuple[Relation, Relation]:
    """(gone, come): relations whose leaves are those that only the old relation has, and only the new one."""
    return _only(old, new), _only(new, old)


def _only(r: Relation, s: Relation) -> Relation:
    """The leaves of r that are no leaves of s, with the tuples above them."""
    result: Relation = {}
    for key, t in r.items():
        if not any(t.values()):
            if key not in s or any(s[key].values()):
                result[key] = t
        elif key not in s:
            result[key] = t
        else:
            below = {name: _only(part, s[key][name]) for name, part in t.items()}
            if any(below.values()):
                result[key] = below
    return result


def effective(r: Relation, d: Relation) -> Relation:
    """The part of δ that r ⊖ δ takes away: all of its leaves are leaves of r."""
    result: Relation = {}
    for key in r.keys() & d.keys():
        t, v = r[key], d[key]
        below = {name: effective(part, v[name]) for name, part in t.items()}
        if not any(t.values()) or any(below.values()):
            result[key] = below
    return result
