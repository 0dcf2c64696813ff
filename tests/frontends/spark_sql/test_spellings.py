"""Two spellings of one expression become one tree when Spark reads them, as they do without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from spellings import COLUMNS, DIFFERENT, SAME

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Project
from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def trees(spark: SparkSession) -> dict[str, Expr]:
    """Every spelling, read in one query."""
    spark.createDataFrame([], ", ".join(f"{n} {t}" for n, t in COLUMNS.items())).createOrReplaceTempView("t")
    texts = list(dict.fromkeys(text for pair in (*SAME, *DIFFERENT) for text in pair))
    listed = ", ".join(f"{text} AS x{i}" for i, text in enumerate(texts))
    plan = define(spark, f"SELECT {listed} FROM t", ["t"], "v").plan
    found: list[Expr] = [c.ref for c in plan.columns]
    while isinstance(plan, Project):
        meanings = {o.column.name: o.expr for o in plan.outputs}
        found, plan = [e.substitute(meanings) for e in found], plan.input
    return dict(zip(texts, found, strict=True))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_are_one_tree(trees: dict[str, Expr], one: str, other: str) -> None:
    assert trees[one] == trees[other]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_expressions_that_differ_are_two_trees(trees: dict[str, Expr], one: str, other: str) -> None:
    assert trees[one] != trees[other]


def test_there_are_fifty_pairs() -> None:
    assert len(SAME) >= 50
