"""A slice of `python -m nabla.testing.fuzz_constraints --engine spark`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from nabla.testing.fuzz.lake_trial import Trial
from nabla.testing.lake_constraints import LakeOfConstraints, LakeTally

pytestmark = pytest.mark.spark


def test_random_transactions_are_refused_exactly_where_a_constraint_is_violated(
    spark: SparkSession, tmp_path: Path
) -> None:
    tally = LakeTally()
    for seed in (1, 4):
        LakeOfConstraints(Trial(spark, tmp_path / f"lake{seed}"), Random(seed), tally).run(5)
    assert tally.transactions == 10
    assert tally.constraints >= 6
