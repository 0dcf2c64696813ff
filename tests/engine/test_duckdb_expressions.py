"""DuckDB computes on the driver what Spark would compute, whatever the values."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from nabla.dev.testing.duckdb_matrix import compiled, covered, differences, sample
from nabla.engine.driver.duckdb_expressions import EXACT_FUNCTIONS

pytestmark = pytest.mark.spark


def test_every_function_of_the_driver_gives_what_spark_gives_for_every_type(spark: SparkSession) -> None:
    some = sample(compiled(), every=30)
    assert covered(some) == EXACT_FUNCTIONS
    assert [str(d) for d in differences(spark, some)] == []
