"""What a lake tells about itself: plans, costs, lineage, status, history. Nothing here changes it."""

from __future__ import annotations

from nabla._arguments import check_arguments
from nabla.explain.explanation import Explanation
from nabla.lake import limit, status
from nabla.lake.advise.advise import Advice, advise
from nabla.lake.advise.workload import Workload
from nabla.lake.context import LakeContext
from nabla.lake.events import Observation, Observer
from nabla.lake.explain import explain_view
from nabla.lake.limit import MaintenanceLimit
from nabla.lake.lineage import Impact, Lineage, impact_of, lineage_of
from nabla.lake.refresh import views
from nabla.lake.refresh.verify import verify_views
from nabla.lake.reports import History, LakeStatus, VerifyReport
from nabla.lake.running import Running, running_runs
from nabla.papers.forms import FormName
from nabla.planner.self_maintenance import SelfMaintenance
from nabla.planner.steps import Mode


@check_arguments
class Insight:
    """The part of a lake's interface that only tells."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def explain(self, name: str, mode: Mode = "auto", form: FormName | None = None) -> Explanation:
        """The definition and maintenance of a view or constraint, and the plan of its next refresh; nothing is run.

        With a `form`, it prints the view's change as one of the papers derives it, with its size and what it would read.
        """
        return explain_view(self._context, name, mode, form)

    def maintenance_limit(self, view: str, *tables: str, measure: bool = False) -> MaintenanceLimit:
        """The share of changed rows from which on recomputing a view is cheaper than maintaining it.

        `tables` are those that change; by default those whose changes the view has followed, or all that it reads. The answer
        comes from the planner's estimates. `measure=True` deletes growing shares of the rows in transactions that it
        does not commit, and takes the time of both ways.
        """
        return limit.maintenance_limit(self._context, view, tables, measure)

    def lineage(self, name: str, through: bool = True) -> Lineage:
        """The columns of tables that a view ("revenue"), or one of its columns ("revenue.total"), is computed from, directly or
        as a condition: filter, join, group key, order of a window. Without `through`, columns of views that it reads count,
        too, and it is not looked what these are computed from. Nothing is run."""
        return lineage_of(self._context, name, through)

    def impact(self, name: str) -> Impact:
        """The columns of views and constraints that depend on a column ("orders.amount"), or on a table or view at all."""
        return impact_of(self._context, name)

    def advise(
        self, workload: Workload | None = None, space: str | int | None = None, upkeep: float | None = None
    ) -> Advice:
        """The views that would pay for a workload: queries (SQL or DataFrames), or pairs of a query and a weight. Without one,
        the queries that this lake was asked (they are recorded without their constants, unless NABLA_RECORD_QUERIES=off).

        `space` limits what the views take, in bytes or as "2 GB"; by default a fifth of the tables. `upkeep` limits the seconds
        of their refreshes together. Nothing is created: pass the name and SQL of a proposal to `create_view`.
        """
        return advise(self._context, workload, space, upkeep)

    def self_maintenance(self, *names: str) -> tuple[SelfMaintenance, ...]:
        """For each of these views together, or of all: can they be maintained without other sources, and what would help?"""
        return views.self_maintenance(self._context, names)

    def verify(self, *names: str) -> VerifyReport:
        """Recompute every view, or the given ones, from the versions it reflects, and compare as bags.

        Raises Mismatch with the differing rows where a view is not exactly its query. A query that gives another result each
        time it is run cannot be compared; the report says so and why (`not_comparable`).
        """
        return verify_views(self._context, names)

    def status(self) -> LakeStatus:
        """All tables and views: kind, version, rows, and for views the versions they reflect and whether they are stale."""
        return status.lake_status(self._context)

    def history(self, name: str | None = None, limit: int | None = None) -> History:
        """The commits of a table or view, or those of the lake with its versions, newest first."""
        return status.read_history(self._context, name, limit)

    @property
    def version(self) -> int:
        """The version of the lake: every commit makes one, of whatever it changes."""
        return self._context.log.state().version

    def observe(self, observer: Observer) -> Observation:
        """Call `observer` with every event of the lake in this process (see `nabla.lake.events`): runs, views, steps, commits.

        It is called in the thread that does the work, so it must be quick. `cancel` the result to end it.
        """
        return self._context.events.observers.add(observer)

    def running(self) -> tuple[Running, ...]:
        """The refreshes, transactions and other runs under way, in this process and, after a second, in others."""
        return running_runs(self._context.path)
