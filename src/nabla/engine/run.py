"""Runs the plan of a view, or of views that are recursive together, and gives the results to apply.

There are three ways. A plan has steps, which are executed one by one. The predicates of a recursive group are computed
together, round by round. A query that Nabla has no algebra for runs as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from nabla.algebra.nodes import At
from nabla.calculus.recursion.relations import RecursiveGroup
from nabla.engine.apply import Computed, Whole
from nabla.engine.execute import Execution
from nabla.engine.queries import Queries
from nabla.engine.spark.rounds import run_group


@dataclass(frozen=True)
class Task:
    """Views that are computed together, with the schemas of their tables. `group` are the rules of recursive ones, `text`
    is the query of one that Nabla has no algebra for."""

    schemas: Mapping[str, StructType]
    group: RecursiveGroup | None = None
    text: str | None = None


def run(task: Task, queries: Queries, *, only_spark: bool = False) -> dict[str, Computed]:
    """The results of a plan for each view. With `only_spark`, the driver computes no rounds."""
    if task.group is not None:
        return run_group(task.group, task.schemas, queries, only_spark)
    ((name, schema),) = task.schemas.items()
    if task.text is not None:
        return {name: _run_text(task.text, schema, queries)}
    return {name: Execution(queries, schema).run()}


def _run_text(text: str, schema: StructType, queries: Queries) -> Computed:
    """A query as it was written, on the versions of this refresh: in a session of its own, which knows the relations by
    the names that the user gave them."""
    with queries.sessions.separate("large") as workspace:
        for name, source in queries.relations.sources.items():
            source.frame(workspace, At.NEW).createOrReplaceTempView(name)
        return Computed(Whole(queries.write(workspace.session.sql(text), schema)))
