"""The lake as users have it: every method delegates to the module that does the work."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from nabla._arguments import check_arguments
from nabla.engine import intake
from nabla.frontends.nested.language import Nested, nested
from nabla.lake import read
from nabla.lake.advise.advise import ADVISED, Proposal
from nabla.lake.alter.alter_table import alter_table
from nabla.lake.alter.alter_view import alter_view
from nabla.lake.alter.alteration import Wanted
from nabla.lake.answer.accelerate import accelerate
from nabla.lake.answer.answer import Answer, Views, answer_query
from nabla.lake.answer.run_sql import run_sql
from nabla.lake.constraints import constraints
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.optimize import optimize
from nabla.lake.housekeeping.settings import Housekeeping, change_settings
from nabla.lake.publish.publications import Publication
from nabla.lake.publish.publish import publish, unpublish
from nabla.lake.refresh import rules, views
from nabla.lake.refresh.propagate import check_propagate, propagate_views
from nabla.lake.refresh.refresh import refresh_views
from nabla.lake.refresh.schedule import Schedule
from nabla.lake.refresh.subscriptions import Callback, Subscription
from nabla.lake.registering import Registering
from nabla.lake.reports import (
    AlterReport,
    CheckReport,
    OptimizeReport,
    RefreshReport,
    ViewReport,
)
from nabla.lake.statements import run_if_statement
from nabla.lake.vacuum import vacuum_lake
from nabla.lake.write import create_table
from nabla.lake.write.drop import drop
from nabla.lake.writing import Writing
from nabla.planner.steps import Mode
from nabla.storage.fsck import Checkup, examine_lake
from nabla.storage.vacuum import Vacuumed


@check_arguments
class Lake(Registering, Writing):
    """Use `nabla.open`. All methods may be called from several threads, and several processes may use one lake."""

    # ------------------------------------------------------------------ tables

    def create_table(
        self,
        name: str,
        schema: str | StructType | None = None,
        data: intake.Data = None,
        key: str | Sequence[str] | None = None,
        foreign_keys: Mapping[str, str] | None = None,
        enforce: bool | str = False,
        deletion_vectors: bool | None = None,
        feed: Literal["delta"] | None = None,
        cluster_by: str | Sequence[str] | None = None,
    ) -> None:
        """Create a table from a schema ("id BIGINT, name STRING"), from data, or both.

        `data` is a DataFrame, a pyarrow Table, or a list of tuples or dicts (these need a schema). `key` names the column
        or columns that identify a row, `foreign_keys` maps columns to "table.column". They are declarations, unless
        `enforce` makes constraints of them: True, or what happens on a violation (see `create_constraint`). Deleted rows are
        marked by Delta's deletion vectors; `deletion_vectors=False` is for readers that do not know them. With `feed="delta"`
        its commits keep Delta's change data feed, for readers of other systems. Rows of DataFrames are sorted by the columns
        of `cluster_by` before they are written, so that later conditions on these meet few files.
        """
        storing = create_table.Storing(deletion_vectors, feed, cluster_by)
        create_table.create_table(self._context, name, schema, data, key, foreign_keys, enforce, storing)

    def create_nested(self, name: str, schema: str | StructType | None = None, data: intake.Data = None) -> Nested:
        """Create a nested table: columns of type array<struct<…>> are subrelations, all others are its key.

        At every level the atomic attributes are the key (partitioned normal form), which is checked whenever rows are
        written. Change it with `tx.merge` and `tx.remove`. Gives the table as the beginning of a nested view.
        """
        create_table.create_nested(self._context, name, schema, data)
        return nested(name)

    def alter_table(
        self,
        name: str,
        add: str | StructType | Mapping[str, str] | None = None,
        drop: str | Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, str] | None = None,
        default: Mapping[str, Any] | None = None,
    ) -> AlterReport:
        """Change the columns of a table in one commit; all names are those before it.

        `add` are new columns as in `create_table` ("discount DOUBLE"), NULL in all rows or with the values of `default`.
        `drop` names columns, `rename` maps old names to new ones, and `widen` maps columns to types that have all values of
        the old ones ({"amount": "BIGINT"}). Views that read the table go on, without being built again where their meaning
        is the same; the report says what happened to each. A column that a view reads cannot be dropped.
        """
        return alter_table(self._context, name, Wanted(add, drop, rename, widen, default))

    def drop_table(self, name: str) -> None:
        """Drop a table that no view reads. Its files go with the next vacuum; a registered table stays as it is."""
        drop(self._context, name, "table", "registered")

    # -------------------------------------------------------------- constraints

    def create_constraint(
        self,
        name: str,
        query: str | DataFrame | Callable[[], DataFrame] | None = None,
        on_violation: str = "reject",
        rules: str | None = None,
    ) -> ViewReport:
        """A query over tables and views that must stay empty, checked before anything is committed. Or `rules` with a denial,
        such as `:- path(X, X).`, which nothing may satisfy.

        A change that would violate it is refused with the violating rows ("reject"), recorded and logged ("warn"), or
        committed without the rows that violate it, which go to a table of their own ("quarantine"). `lake.read(name)` are
        the violations of one that warns.
        """
        return constraints.create_constraint(self._context, name, query, on_violation, rules)

    def drop_constraint(self, name: str) -> None:
        """Drop a constraint. Rows that it has set aside stay in their table."""
        drop(self._context, name, "constraint")

    def check(self, *names: str) -> CheckReport:
        """Evaluate all constraints, or the given ones, from scratch."""
        return constraints.check_constraints(self._context, names)

    # ------------------------------------------------------------------- views

    def create_view(
        self,
        name: str,
        query: str | DataFrame | Nested,
        rebuild: bool = False,
        maintain: Schedule = "deferred",
        detached: bool = False,
        propagate: Literal["ahead"] | None = None,
        feed: Literal["delta"] | None = None,
        over: Literal["views"] | None = None,
        follow: bool = False,
    ) -> ViewReport:
        """Create a view from Spark SQL, a DataFrame or a nested expression over the lake's tables and views, and build it.

        A view of that name is an error unless `rebuild` is set: then it is replaced, whatever its definition was.
        `maintain` says when it follows its sources: in the same commit ("immediate"), at the next refresh ("deferred"),
        only when a refresh names it ("manual"), within a time that `nabla watch` keeps to ("5 minutes"), or once so many of
        their rows have changed ("1000 rows"); or each source has its own, as {"orders": "immediate", "rates": "1 hour"}.
        With `detached`, auxiliary views keep the parts of its sources that it reads, so that it can be refreshed without them.
        With `propagate="ahead"`, `nabla watch` or `lake.propagate()` computes its change before it is refreshed. With
        `feed="delta"`, its commits keep Delta's change data feed, for readers of other systems. With `over="views"`, it is made
        and maintained from other views that have what it needs, where these are smaller than the tables; the report says so.
        With `follow`, `SELECT *` gets the columns that its tables get later; without it, the view keeps those that it has.
        """
        ahead, captures = check_propagate(propagate), create_table.check_feed(feed)
        return views.create_view(
            self._context, name, query, rebuild, maintain, detached, ahead, captures, over, follow=follow
        )

    def alter_view(self, name: str, query: str | DataFrame | Nested) -> AlterReport:
        """Give a view another query, and keep its table, its versions and its feed, which tells the minimal difference.

        A column that is new was NULL before, in terms of the feed. Views that read this one go on; they cannot lose a column
        that they read. Where a column gets another type, the view is built again and its feed begins anew; the report
        says what was kept and why. Schedule, feed and whatever else `create_view` was told stays.
        """
        return alter_view(self._context, name, query)

    def create_advised(self, proposal: Proposal) -> ViewReport:
        """Create a view that `advise` proposed. It is marked, so that `advise` can tell when no query uses it any more."""
        return views.create_view(self._context, proposal.name, proposal.sql, False, "deferred", False, notes=(ADVISED,))

    def create_views(
        self, queries: Mapping[str, str | DataFrame | Nested], maintain: str = "deferred"
    ) -> RefreshReport:
        """Create several views, given as names with queries, in one commit: all of them or none. Much faster than one by one.

        A query in SQL may read the views that stand before its own. None of them may exist yet.
        """
        return RefreshReport(views.create_views(self._context, queries, maintain))

    def view(
        self, function: views.Make | None = None, *, rebuild: bool = False, maintain: Schedule = "deferred"
    ) -> Any:
        """Decorator: a function that returns a DataFrame becomes a view named after it."""
        make = views.decorator(self._context, rebuild, maintain)
        return make(function) if function is not None else make

    def create_rules(self, name: str, text: str, rebuild: bool = False, maintain: str = "deferred") -> RefreshReport:
        """Create views from Datalog rules over the lake's tables and views: one for each predicate that they define.

        Predicates may depend on each other, and on the absence of facts (`not p(X)`). All of them are built, or none. Rules
        of that name are an error unless `rebuild` is set: then they are replaced. `maintain` says when they follow their
        tables, as for views.
        """
        return rules.create_rules(self._context, name, text, rebuild, maintain)

    def rules(self) -> dict[str, str]:
        """The texts of all rules, by name."""
        return rules.rule_texts(self._context)

    def ask(self, question: str) -> DataFrame:
        """Answer a question about a predicate of the rules, `path(1, X)`, computing no more than it needs."""
        return rules.ask(self._context, question)

    def delta_rules(self, name: str) -> str:
        """The incremental rules of a program: how its insertions and deletions follow from those of its tables."""
        return rules.show_delta_rules(self._context, name)

    def drop_rules(self, name: str) -> None:
        """Drop the views of rules, unless another view reads one of them."""
        rules.drop_rules(self._context, name)

    def drop_view(self, name: str) -> None:
        """Drop a view that no other view reads. Its files go with the next vacuum."""
        drop(self._context, name, "view")

    def refresh(
        self, *names: str, mode: Mode = "auto", progress: Callable[[ViewReport], None] | None = None
    ) -> RefreshReport:
        """Bring all views but the manual ones, or the given ones with the views that they read, up to date.

        A view whose change would violate a constraint stays at its last good version; the report says so (`held`). So does
        one over a registered table that is away, unless it is named: then that is an error.

        Modes: "auto" lets the cost decide; "incremental" maintains from the change wherever there is a rule; "strict" does
        the same and raises, before anything is written, where there is none; "full" recomputes.
        """
        return refresh_views(self._context, names, mode, progress)

    def propagate(self, *names: str) -> RefreshReport:
        """Compute the changes of all views that were made with `propagate="ahead"`, or of the given ones, and store them beside
        the views. They are applied by the next refresh, which computes only what has changed since."""
        return propagate_views(self._context, names)

    def on_change(self, view: str, callback: Callback, since: int | None = None) -> Subscription:
        """Call `callback` with the minimal change of a view or table (a `ViewChange`) after every commit that changed it.

        It hears of all changes after version `since` of the table or view, or from now on, whoever made them. A callback
        that fails harms no commit, and is given the same changes again after the next one. `cancel` the result to end it.
        """
        return self._context.subscriptions.add(view, callback, since)

    def publish(self, name: str, table: str, comments: Mapping[str, str] | None = None) -> Publication:
        """Show a table or view as an external table of the session's catalog ("reports.revenue"), from now on.

        The name always shows a whole version: after every commit that changes the object, it is pointed to the files of the
        new one. Columns have `comments`, those of views by default say what they are computed from; properties have the
        versions of the lake, of the object and of its sources.
        """
        return publish(self._context, name, table, comments)

    def unpublish(self, name: str, table: str | None = None) -> tuple[Publication, ...]:
        """Take the names of a table or view out of the catalog: the given one, or all. The object itself stays."""
        return unpublish(self._context, name, table)

    # ----------------------------------------------------------------- reading

    def read(self, name: str, version: int | None = None, fresh: bool = False) -> DataFrame:
        """A table or view as a DataFrame, now or at one of its versions.

        With `fresh`, a view as it would be after a refresh: what its sources changed is added on the fly, and nothing is
        committed.
        """
        return read.read(self._context, name, version, fresh)

    def changes(self, name: str, since: int = 0, pairs: bool = False) -> DataFrame:
        """The changes after version `since`, a row a copy: the columns, _change_type, _version and _timestamp.

        With `pairs`, a row that a commit replaced by another one with the same key is not "delete" and "insert" but
        "update_before" and "update_after". The key is that of a table, or the columns that identify the rows of a view.
        """
        return read.read_changes(self._context, name, since, pairs)

    def sql(self, text: str, views: Views = "auto", fresh_within: str | None = None) -> DataFrame:
        """Run Spark SQL over the lake's tables and views: a query, or a statement that changes a table.

        A query of large tables is answered from views where that reads less ("auto"), or never, or only from views, with an
        error where none can. The rows are the plain query's, unless `fresh_within`, as "5 minutes", allows older ones.

        INSERT, UPDATE, DELETE, MERGE and TRUNCATE are transactions; their result says how many rows came and went.
        """
        done = run_if_statement(self._context, text)
        return run_sql(self._context, text, views, fresh_within) if done is None else done

    def answer(self, query: str | DataFrame, views: Views = "auto", fresh_within: str | None = None) -> Answer:
        """Answer a query as `sql` does, also of small tables, and say how: from which views, and why not from others."""
        return answer_query(self._context, query, views, fresh_within)

    def accelerate(self, spark: SparkSession | None = None, on: bool = True) -> None:
        """Let a Spark session answer its own queries over the lake's names from views: `spark.sql` and DataFrames.

        By default that is off, and `spark` the lake's session. Views that are behind are not used; EXPLAIN shows what is read.
        """
        accelerate(self._context, spark, on)

    def unnest(self, name: str) -> DataFrame:
        """The flat form of a nested table or view, to read or to make a view from.

        For each tuple the combinations of what its subrelations hold, with NULLs for an empty one.
        """
        return read.read_unnested(self._context, name)

    # ------------------------------------------------------------- maintenance

    def vacuum(self, dry_run: bool = False, older_than: datetime.timedelta = datetime.timedelta(days=7)) -> Vacuumed:
        """Delete files that no view, no version younger than `older_than` and no transaction under way needs."""
        return vacuum_lake(self._context, dry_run, older_than)

    def optimize(self, *names: str) -> OptimizeReport:
        """Do all housekeeping now, for everything or for the given tables and views: small files are merged, files with many
        deleted rows written anew, feeds and logs shortened as `housekeeping` says. No row changes, and no view is stale after
        it. Files that are not needed any more go with the next `vacuum`."""
        return optimize(self._context, names)

    def housekeeping(
        self,
        automatic: bool | None = None,
        history: datetime.timedelta | Literal["forever"] | None = None,
        feeds: datetime.timedelta | Literal["forever"] | None = None,
    ) -> Housekeeping:
        """The settings of the lake's housekeeping, after those that are given were changed.

        `automatic` lets refreshes and transactions do a little of it now and then. `history` is how long old versions can be
        named, `feeds` how long changes of views are kept; changes that a view of the lake still has to read stay anyway.
        """
        return change_settings(self._context.log, automatic, history, feeds)

    def fsck(self, repair: bool = False, quick: bool = False) -> Checkup:
        """Look for damage in logs and files, and with `repair` mend what the lake itself knows. `quick` reads no rows."""
        return examine_lake(self.path, repair=repair, quick=quick)

    # ----------------------------------------------------------------- session

    @property
    def path(self) -> str:
        """The lake's folder."""
        return self._context.path

    @property
    def spark(self) -> SparkSession:
        """The Spark session, in which the lake's tables and views are known by their names. A query finds them as they are
        when it is analyzed, in a session that was kept in a variable, too. They are changed by transactions only."""
        return self._context.spark.named_session

    @property
    def context(self) -> LakeContext:
        """The inside of the lake, for Nabla's own commands and tests. It is no part of the interface for users."""
        return self._context

    def __repr__(self) -> str:
        return f"lake {self.path}\n{self.status()}"

    def _repr_html_(self) -> str:
        return self.status().to_html(f"lake {self.path}")
