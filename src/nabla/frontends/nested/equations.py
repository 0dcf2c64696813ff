"""The incremental equations of Liu and Vincent, section 4.

An operator here is a function of the relation that changes; the other operand of a binary operator stays. With
K = δ[α(R)] the keys that the update touches, every equation has one of three forms:

    standard            op(r ± δ) = op(r) ± op(δ)
    limited standard    the same, where a condition on r and δ holds
    implementation      op(r ± δ) = [op(r)]∉K ⊕ op([r]∈K ± δ)

The last one holds without conditions because every operator works key by key. Nabla uses it: at the top level, the update of a
table is the deletion of its rows with keys in K and the insertion of their new versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nabla.frontends.nested.conditions import Condition
from nabla.frontends.nested.model import Relation, Tuple, inside, outside
from nabla.frontends.nested.operators import TESTS, difference, intersection, projection, selection, union
from nabla.frontends.nested.schema import Schema

Operator: TypeAlias = Callable[[Relation], Relation]
Update: TypeAlias = Callable[[Relation, Relation], Relation]
Sign: TypeAlias = Literal["⊕", "⊖"]
Form: TypeAlias = Literal["standard", "limited standard", "implementation"]
UPDATES: dict[Sign, Update] = {"⊕": union, "⊖": difference}


def standard(op: Operator, sign: Sign, view: Relation, d: Relation) -> Relation:
    """op(r ± δ) = op(r) ± op(δ), given the view op(r)."""
    return UPDATES[sign](view, op(d))


def implementation(op: Operator, sign: Sign, view: Relation, r: Relation, d: Relation) -> Relation:
    """op(r ± δ) = [op(r)]∉K ⊕ op([r]∈K ± δ), given the view op(r)."""
    return union(outside(view, d), op(UPDATES[sign](inside(r, d), d)))


def with_recomputation(op: Operator, view: Relation, r: Relation, d: Relation) -> Relation:
    """op(r ⊖ δ) = op(r) ⊖ op(δ) ⊕ op(r ⊖ δ): equations 4, 8 and 12, which add what the standard form loses."""
    return union(difference(view, op(d)), op(difference(r, d)))


# Conditions of the limited standard forms


def projection_allows(r: Relation, d: Relation, s: Schema) -> bool:
    """Lemma 4.2, π̂(r ⊖ δ) = π̂(r) ⊖ π̂(δ): if something is left of a tuple, something is left of its projection."""

    def allows(u: Tuple, v: Tuple) -> bool:
        left = any(difference(u[n], v[n]) for n in u)
        seen = any(difference(projection(u[n], part), projection(v[n], part)) for n, part in s.parts)
        return not left or (seen and all(projection_allows(u[n], v[n], part) for n, part in s.parts))

    return all(allows(u, d[k]) for k, u in r.items() if k in d)


def selection_allows(r: Relation, d: Relation, c: Condition, schema: Schema, sign: Sign) -> bool:
    """Lemma 4.4, σ̂(r ± δ) = σ̂(r) ± σ̂(δ): tuples with a common key pass all tests, before the update and after it."""

    def passes(n: str, selected: Relation) -> bool:
        return n not in c.by_name or TESTS[c.by_name[n].test](selected)

    def allows(u: Tuple, v: Tuple) -> bool:
        seen_left = not schema.parts or sign == "⊕"
        for n, part in schema.parts:
            inner = c.by_name.get(n, Condition())
            ours, theirs = selection(u[n], inner, part), selection(v[n], inner, part)
            left = difference(ours, theirs)
            if not (passes(n, ours) and passes(n, theirs) and (sign == "⊕" or passes(n, left))):
                return False
            if not selection_allows(u[n], v[n], inner, part, sign):
                return False
            seen_left = seen_left or bool(left)
        return seen_left

    return all(allows(u, d[k]) for k, u in r.items() if k in d)


def intersection_allows(r: Relation, d: Relation, s: Relation) -> bool:
    """Lemma 4.6, (r ⊖ δ) ⊙ s = (r ⊙ s) ⊖ (δ ⊙ s): if something is left of a tuple, s has some of it."""

    def allows(u: Tuple, v: Tuple, w: Tuple) -> bool:
        left = any(difference(u[n], v[n]) for n in u)
        seen = any(difference(intersection(u[n], w[n]), intersection(v[n], w[n])) for n in u)
        return not left or (seen and all(intersection_allows(u[n], v[n], w[n]) for n in u))

    return all(allows(u, d[k], s[k]) for k, u in r.items() if k in d and k in s)


def join_allows(r: Relation, d: Relation) -> bool:
    """Lemma 4.7, (r ⊖ δ) ⋈ s = (r ⋈ s) ⊖ (δ ⋈ s): r and δ are α(R)-disjoint."""
    return r.keys().isdisjoint(d.keys())


# The equations as data, for `explain` and for the tests


@dataclass(frozen=True)
class Equation:
    operator: str
    sign: Sign
    form: Form
    law: str
    source: str

    def __str__(self) -> str:
        return f"{self.operator} {self.sign} {self.form}: {self.law}   [{self.source}]"


_PAPER = "Liu and Vincent"
EQUATIONS: tuple[Equation, ...] = (
    Equation("η", "⊕", "standard", "η(r⊕δ) = η(r)⊕η(δ)", f"{_PAPER}, equation 1"),
    Equation("η", "⊖", "standard", "η(r⊖δ) = η(r)⊖η(δ)", f"{_PAPER}, equation 2"),
    Equation("π̂", "⊕", "standard", "π̂(r⊕δ) = π̂(r)⊕π̂(δ)", f"{_PAPER}, equation 3"),
    Equation("π̂", "⊖", "limited standard", "π̂(r⊖δ) = π̂(r)⊖π̂(δ)", f"{_PAPER}, lemma 4.2"),
    Equation("π̂", "⊖", "implementation", "π̂(r⊖δ) = [π̂(r)]∉K ⊕ π̂([r]∈K ⊖ δ)", f"{_PAPER}, equation 5"),
    Equation("σ̂", "⊕", "limited standard", "σ̂(r⊕δ) = σ̂(r)⊕σ̂(δ)", f"{_PAPER}, lemma 4.4"),
    Equation("σ̂", "⊖", "limited standard", "σ̂(r⊖δ) = σ̂(r)⊖σ̂(δ)", f"{_PAPER}, lemma 4.4"),
    Equation("σ̂", "⊕", "implementation", "σ̂(r⊕δ) = [σ̂(r)]∉K ⊕ σ̂([r]∈K ⊕ δ)", f"{_PAPER}, equation 7"),
    Equation("σ̂", "⊖", "implementation", "σ̂(r⊖δ) = [σ̂(r)]∉K ⊕ σ̂([r]∈K ⊖ δ)", f"{_PAPER}, equation 6"),
    Equation("⊙", "⊕", "standard", "(r⊕δ)⊙s = (r⊙s)⊕(δ⊙s)", f"{_PAPER}, equation 11"),
    Equation("⊙", "⊖", "limited standard", "(r⊖δ)⊙s = (r⊙s)⊖(δ⊙s)", f"{_PAPER}, lemma 4.6"),
    Equation("⊙", "⊖", "implementation", "(r⊖δ)⊙s = [r⊙s]∉K ⊕ (([r]∈K ⊖ δ)⊙s)", f"{_PAPER}, equation 10"),
    Equation("⋈", "⊕", "standard", "(r⊕δ)⋈s = (r⋈s)⊕(δ⋈s)", f"{_PAPER}, equation 15"),
    Equation("⋈", "⊖", "limited standard", "(r⊖δ)⋈s = (r⋈s)⊖(δ⋈s)", f"{_PAPER}, lemma 4.7"),
    Equation("⋈", "⊖", "implementation", "(r⊖δ)⋈s = [r⋈s]∉K ⊕ (([r]∈K ⊖ δ)⋈s)", f"{_PAPER}, equation 14"),
    Equation("⊕", "⊕", "standard", "(r⊕δ)⊕s = (r⊕s)⊕δ", "⊕ is associative"),
    Equation("⊕", "⊖", "implementation", "(r⊖δ)⊕s = [r⊕s]∉K ⊕ (([r]∈K ⊖ δ)⊕[s]∈K)", "key by key"),
    Equation("⊖", "⊕", "implementation", "(r⊕δ)⊖s = [r⊖s]∉K ⊕ (([r]∈K ⊕ δ)⊖s)", "key by key"),
    Equation("⊖", "⊖", "implementation", "(r⊖δ)⊖s = [r⊖s]∉K ⊕ (([r]∈K ⊖ δ)⊖s)", "key by key"),
)
