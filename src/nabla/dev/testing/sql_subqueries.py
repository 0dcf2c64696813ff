"""Subqueries in predicates and as values: EXISTS, IN, NOT IN, comparisons with one value; correlated or not; nested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nabla.dev.testing.random_terms import Sample
from nabla.dev.testing.sql_aggregates import simple_call
from nabla.dev.testing.sql_scope import Item, expressions, sample, scalars

Inner = Callable[[], Item]
"""Makes something to read from, under an alias of its own."""


def predicate(rng: Random, outer: Sequence[Sample], inner: Inner, depth: int = 1) -> str:
    """A condition on the outer row that reads another relation."""
    return rng.choice((_exists, _exists, _member, _member, _comparison))(rng, outer, inner, depth)


def value(rng: Random, outer: Sequence[Sample], inner: Inner) -> Sample:
    """One value for each outer row: an aggregate of the rows that match it."""
    item = inner()
    result = simple_call(rng, item.columns)
    where = _where(rng, outer, item, inner, 0, equalities=True)
    return sample(f"(SELECT {result.sql} FROM {item.sql}{where})", result.expr.type, result.bound, result.exact)


def _exists(rng: Random, outer: Sequence[Sample], inner: Inner, depth: int) -> str:
    item = inner()
    where = _where(rng, outer, item, inner, depth)
    return f"{rng.choice(('EXISTS', 'EXISTS', 'NOT EXISTS'))} (SELECT 1 FROM {item.sql}{where})"


def _member(rng: Random, outer: Sequence[Sample], inner: Inner, depth: int) -> str:
    item = inner()
    pairs = _alike(outer, item.columns)
    if not pairs:
        return _exists(rng, outer, inner, depth)
    word, where = rng.choice(("IN", "IN", "NOT IN")), _where(rng, outer, item, inner, depth, equalities=True)
    s, t = rng.choice(pairs)
    if len(pairs) > 1 and rng.random() < 0.15:
        s2, t2 = rng.choice(pairs)
        return f"({s.sql}, {s2.sql}) {word} (SELECT {t.sql}, {t2.sql} FROM {item.sql}{where})"
    return f"{s.sql} {word} (SELECT {t.sql} FROM {item.sql}{where})"


def _comparison(rng: Random, outer: Sequence[Sample], inner: Inner, depth: int) -> str:
    found = value(rng, outer, inner)
    others = [column for column in scalars(outer) if column.kind == found.kind] or [
        expressions(rng, outer).of(found.kind, 0)
    ]
    return f"{rng.choice(others).sql} {rng.choice(('=', '<', '>=', '<>', '<=>'))} {found.sql}"


def _where(rng: Random, outer: Sequence[Sample], item: Item, inner: Inner, depth: int, equalities: bool = False) -> str:
    """The condition of a subquery: how it hangs on the outer row, what else it asks, and what it reads in turn."""
    tests = []
    pairs = _alike(outer, item.columns)
    if pairs and rng.random() < 0.75:
        for s, t in rng.sample(pairs, min(len(pairs), rng.choice((1, 1, 2)))):
            operator = "=" if equalities or rng.random() < 0.75 else rng.choice(("<", ">=", "<>", "<=>"))
            tests.append(f"{t.sql} {operator} {s.sql}")
    if rng.random() < 0.4:
        tests.append(f"({expressions(rng, item.columns).condition(1).sql})")
    if depth > 0 and rng.random() < 0.3:
        tests.append(predicate(rng, item.columns, inner, depth - 1))
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _alike(left: Sequence[Sample], right: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    return [(s, t) for s in scalars(left) for t in scalars(right) if s.kind == t.kind]
