"""Giving maintenance up after it has begun: when it takes longer than recomputing would, wants more memory than there is, or
meets values that the query itself does not. The view is then recomputed, and the report says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from nabla.engine.budget import PATIENCE, Budget, OverBudget
from nabla.frontends.spark_sql.failures import failure_of_values, wants_memory
from nabla.lake.context import LakeContext
from nabla.planner.steps import Plan

OVERFLOW, INTERIM, SLOW, MEMORY = "NABLA_OVERFLOW", "NABLA_INTERIM_VALUE", "NABLA_OVER_BUDGET", "NABLA_OUT_OF_MEMORY"


@dataclass(frozen=True)
class GivenUp:
    """Why maintenance was given up, and after how many seconds. The planner learns the seconds that it would have taken at
    least, unless the values of this change were the cause, which says nothing about others."""

    reason: str
    after: float
    at_least: float | None = None


def why_given_up(
    error: OverBudget | PySparkException | Py4JJavaError, plan: Plan, budget: Budget, context: LakeContext
) -> GivenUp | None:
    """Why a failure makes a view be recomputed; None if recomputing would fail, too."""
    if plan.mode != "incremental":
        return None
    after = budget.elapsed
    recompute = f"recomputing takes about {plan.full.seconds:.1f} s" if plan.full else "the view is recomputed"
    if isinstance(error, OverBudget):
        return GivenUp(f"{SLOW}: given up after {after:.1f} s; {recompute}", after, after)
    if wants_memory(error):
        at_least = max(after, PATIENCE * plan.full.seconds if plan.full else 0.0)
        return GivenUp(f"{MEMORY}: maintaining wants more memory than Spark has; {recompute}", after, at_least)
    kind = failure_of_values(error)
    if kind is None:
        return None
    why = context.translate(error, f'refresh of view "{plan.view}"').message
    if kind == "overflow":
        return GivenUp(f"{OVERFLOW}: a partial result cannot be kept: {why}", after)
    return GivenUp(f"{INTERIM}: an expression fails for a value that is only there on the way: {why}", after)
