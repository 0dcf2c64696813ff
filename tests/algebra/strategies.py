"""Random scenarios for hypothesis: a seed names a case, so that a failing example is one number."""

from __future__ import annotations

from hypothesis import strategies as st

from nabla.dev.testing.random_data import DEFAULT, RandomSizes
from nabla.dev.testing.random_plans import CORE, Scenario, random_scenario


def scenarios(features: frozenset[str] = CORE, sizes: RandomSizes = DEFAULT) -> st.SearchStrategy[Scenario]:
    return st.integers(0, 2**32).map(lambda seed: random_scenario(seed, features, sizes))
