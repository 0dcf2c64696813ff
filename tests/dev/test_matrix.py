"""The matrix of types: a slice of it finds nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from nabla.dev.testing.matrix.columns import KINDS
from nabla.dev.testing.matrix.run import run
from nabla.dev.testing.matrix.shapes import views

pytestmark = pytest.mark.spark

SLICE = {
    "moment": ("min", "max_all", "group", "inner", "top"),
    "biggest": ("avg", "sum", "distinct", "left"),
    "double_edge": ("max", "group", "except"),
    "entries": ("plain", "union_all"),
}


def test_a_slice_of_the_matrix_is_maintained_as_spark_answers(spark: SparkSession) -> None:
    wanted = {f"{kind}_{shape}" for kind, shapes in SLICE.items() for shape in shapes}
    found = run(spark, [k for k in KINDS if k.name in SLICE], wanted.__contains__, with_functions=False)
    assert found.faults == []
    assert found.views + found.refused.total() >= len(wanted)
    assert found.modes["incremental"] > 2 * found.modes["full"]


def test_every_kind_has_every_shape() -> None:
    shapes = {tuple(name.removeprefix(f"{kind.name}_") for name in views(kind)) for kind in KINDS}
    assert len(shapes) == 1
    assert len(*shapes) > 40
