"""A slice of `python -m nabla.dev.testing.fuzz_constraints --engine spark`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from nabla.dev.testing.fuzz.lake_trial import Trial
from nabla.dev.testing.lake_constraints import LakeOfConstraints, LakeTally

pytestmark = pytest.mark.spark


def test_random_transactions_are_refused_exactly_where_a_constraint_is_violated(
    spark: SparkSession, tmp_path: Path
) -> None:
    tally = LakeTally()
    LakeOfConstraints(Trial(spark, tmp_path / "lake"), Random(4), tally).run(6)
    assert tally.transactions == 6
    assert tally.constraints >= 3
