"""A slice of `python -m nabla.dev.fuzz_nested`: equations, plans, maintenance and updates on random nested relations."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from nabla.dev import fuzz_nested
from nabla.dev.testing import random_nested as nests
from nabla.frontends.nested import language


@pytest.mark.parametrize("block", range(2))
def test_all_equations_hold(block: int) -> None:
    for seed in range(block * 200, (block + 1) * 200):
        rng = Random(seed)
        nests.check_equations(rng, nests.random_schema(rng))


@pytest.mark.parametrize("seed", range(2))
def test_plans_are_the_operators_and_are_maintained(seed: int) -> None:
    fuzz_nested.in_interpreter(40, seed)


def test_the_random_views_use_every_operator_and_reach_every_level() -> None:
    used: Counter[type] = Counter()
    below: Counter[type] = Counter()
    heights: Counter[int] = Counter()
    for seed in range(150):
        expression, sources = nests.random_view(Random(seed))
        used.update(type(part) for part in expression.walk())
        below.update(type(part) for part in expression.walk() if getattr(part, "at", ()))
        heights[sources["r"].schema.height] += 1
    operators = (
        *(language.Select, language.Project, language.Expand, language.Union),
        *(language.Difference, language.Intersect, language.Join, language.Nest, language.Table),
    )
    assert all(used[kind] > 10 for kind in operators), used
    assert all(below[kind] > 3 for kind in operators[1:7]), below
    assert heights[3] > 100
