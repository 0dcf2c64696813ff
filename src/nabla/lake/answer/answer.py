"""The answer to a query: the plain query, or one over views that gives the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nabla._cached import cached_property
from nabla.algebra.expressions import quote
from nabla.algebra.nodes import Node
from nabla.algebra.sql import to_sql
from nabla.answer.answers import FoundAnswer, find_answer
from nabla.answer.facts import NOTHING_PROVED, Sizes
from nabla.answer.reasons import Reason
from nabla.engine.sources import user_frame
from nabla.engine.spark.frames import Workspace
from nabla.engine.spark.meaning import is_ansi, meaning
from nabla.errors import NablaError, wrong_argument
from nabla.frontends.spark_sql.read_query import NotReadable, QueryPlan, read_query, tables_read
from nabla.frontends.spark_sql.session_names import names_of
from nabla.lake.advise.workload import record_query
from nabla.lake.answer.candidates import Candidates, Offered, candidates_in, offer, versions_of
from nabla.lake.answer.proofs import proofs_in
from nabla.lake.answer.readable import check_one_result
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import columns_of, table_of
from nabla.lake.objects.view import is_declared_key
from nabla.lake.refresh.schedule import freshness
from nabla.lake.write.fresh import read_fresh
from nabla.storage.catalog import LakeState

Views = Literal["auto", "never", "only"]
MARGIN = 0.8
"""An answer from views has to read this much less than the plain query: estimates are rough."""
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class AnswerEstimates:
    """The rows that the answer and the plain query read, by the lake's statistics. What a view that is behind lacks counts as
    the rows that could be read in the time that it takes to compute it."""

    rows: float
    plain_rows: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a query. `frame` has its rows, `views` are the views that it reads, `reasons` say why others that read the
    same tables were not used, `sql` is the query that is run, `versions` are those of the tables that the rows reflect. `note`
    says why no view was looked at, if that is so."""

    frame: DataFrame
    views: tuple[str, ...]
    reasons: tuple[Reason, ...]
    sql: str
    estimates: AnswerEstimates
    versions: Mapping[str, int]
    rules: frozenset[str] = frozenset()
    pending: tuple[str, ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All but the rows, for JSON."""
        return {
            "views": list(self.views),
            "pending": list(self.pending),
            "reasons": [{"view": r.view, "code": r.code, "message": r.message} for r in self.reasons],
            "sql": self.sql,
            "rows": self.estimates.rows,
            "plain_rows": self.estimates.plain_rows,
            "versions": dict(self.versions),
            "note": self.note,
        }

    def __str__(self) -> str:
        if self.views:
            named = [f"{v} with what is pending" if v in self.pending else v for v in self.views]
            lines = [f"answered from {', '.join(named)} ({', '.join(sorted(self.rules))})"]
            lines.append(f"reads about {self.estimates.rows:,.0f} rows instead of {self.estimates.plain_rows:,.0f}")
        else:
            lines = [f"answered from the tables{f': {self.note}' if self.note else ''}"]
        lines += [f"not used: {reason}" for reason in self.reasons]
        return "\n".join(lines)


def check_views(views: str, fresh_within: str | None) -> float | None:
    """The seconds that an answer may be old; None if it may not be."""
    if views not in get_args(Views):
        raise wrong_argument("views", views, f"one of {', '.join(map(repr, get_args(Views)))}")
    if fresh_within is None:
        return None
    seconds = freshness(fresh_within)
    if seconds is None:
        raise wrong_argument("fresh_within", fresh_within, 'a time such as "5 minutes"')
    return seconds


def answer_query(
    context: LakeContext, query: str | DataFrame, views: str = "auto", fresh_within: str | None = None
) -> Answer:
    """The answer to a query, from views where that reads less; with views="only", from views or not at all."""
    within = check_views(views, fresh_within)
    state = context.log.state()
    if isinstance(query, str):
        answer = answer_frame(context, state, plain_frame(context, query), query, views, within)
        record_query(context, query, answer.estimates.rows, answer.views)
        return answer
    old = names_of(context.spark.named_session).outdated(query, tuple(state.entries))
    if old is None:
        return answer_frame(context, state, query, "", views, within)
    asked = _Asked(context, state, query, "", context.spark.home)
    message = f'it reads "{old}" as it was when the DataFrame was made'
    if views == "only":
        raise _not_answered(message, asked.unread(message))
    return asked.unanswered(message, asked.unread(message))


def plain_frame(context: LakeContext, text: str) -> DataFrame:
    """Spark SQL over the lake's tables and views."""
    try:
        return context.spark.named_session.sql(text)
    except PySparkException as error:
        raise context.translate(error, "query") from None


def answer_frame(
    context: LakeContext, state: LakeState, plain: DataFrame, text: str, views: str, within: float | None
) -> Answer:
    """The answer to a query that Spark has analyzed, in a state of the lake."""
    asked = _Asked(context, state, plain, text, context.spark.home)
    try:
        if views == "never":
            return asked.unanswered("views were not asked for")
        return asked.answer(views, within)
    except NotReadable as refusal:
        reasons = asked.unread(str(refusal))
        if views == "only":
            raise _not_answered(str(refusal), reasons) from None
        return asked.unanswered(str(refusal), reasons)


def answer_now(context: LakeContext, state: LakeState, plain: DataFrame, home: Workspace) -> Answer:
    """The answer to a query of any session from views that reflect the current versions. Starts no job, and raises NotReadable
    for a query that cannot be read."""
    return _Asked(context, state, plain, "", home, allow_pending=False).answer("auto", None)


def readable_plan(context: LakeContext, state: LakeState, plain: DataFrame) -> Node:
    """The plan of a query that views could answer. Raises NABLA_NOT_ANSWERED where there is none."""
    try:
        return _Asked(context, state, plain, "", context.spark.home).query.plan
    except NotReadable as refusal:
        raise _not_answered(str(refusal), ()) from None


@dataclass(eq=False)
class _Asked:
    """A query that is being answered."""

    context: LakeContext
    state: LakeState
    plain: DataFrame
    text: str
    home: Workspace
    allow_pending: bool = True
    candidates: Candidates = field(init=False)
    read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.candidates = candidates_in(self.context, self.state).for_one_answer()

    def unanswered(self, note: str, reasons: tuple[Reason, ...] = (), rows: float = 0.0) -> Answer:
        """The plain query."""
        versions = {name: self.candidates.version(name) for name in self.read if name in self.state.entries}
        return Answer(self.plain, (), reasons, self.text, AnswerEstimates(rows, rows), versions, note=note)

    def unread(self, why: str) -> tuple[Reason, ...]:
        """The reasons of all views that read a table of a query, for one that cannot be compared with any."""
        tables = tables_read(self.home.session, self.plain, list(self.state.entries))
        return tuple(Reason(view, "QUERY", why) for view in self.candidates.reading(tables) if view not in tables)

    def answer(self, views: str, within: float | None) -> Answer:
        query = self.query
        settings = meaning(self.home.session)
        offered = offer(self.candidates, self.read, settings, within, self.allow_pending)
        found = self._search(query, offered, views, is_ansi(settings), within)
        if found.views and within is not None and not self._consistent(found, offered):
            offered = offer(self.candidates, self.read, settings, None, self.allow_pending)
            found = self._search(query, offered, views, is_ansi(settings), None)
        reasons = tuple({r.view: r for r in (*offered.refused, *found.reasons)}.values())
        if not found.views or (views == "auto" and not _is_cheaper(found)):
            if views == "only":
                raise _not_answered("no view can answer the query", reasons)
            reasons += tuple(Reason(v, "COST", "the tables are as quick to read") for v in found.views)
            return self.unanswered("no view answers it", reasons, found.plain_rows)
        answered = self._run(query, found, offered, reasons)
        if answered is None:
            if views == "only":
                raise _not_answered("the views have other types", reasons)
            reasons += tuple(Reason(v, "SCHEMA", "its columns have other types than the query's") for v in found.views)
            return self.unanswered("no view answers it", reasons, found.plain_rows)
        return answered

    @cached_property
    def query(self) -> QueryPlan:
        """The query as a plan whose rows do not depend on chance or on the time."""
        session = self.home.session
        query = read_query(
            session, self.plain, list(self.state.entries), lambda t, f: is_declared_key(self.state.entries[t], f)
        )
        self.read = list(dict.fromkeys(scan.table for scan in query.plan.scans))
        check_one_result(query.plan, str(session.conf.get("spark.sql.session.timeZone")))
        return query

    def _search(self, query: QueryPlan, offered: Offered, views: str, ansi: bool, within: float | None) -> FoundAnswer:
        names = {*self.read, *(view.name for view in offered.index.views)}
        names |= {table for view in offered.index.views for table in view.tables}
        rows = {name: self.candidates.rows(name) for name in names}
        # Of an older version nothing is proved.
        proofs = proofs_in(self.context.log, self.state) if within is None else NOTHING_PROVED
        sizes = Sizes(rows, offered.pending)
        return find_answer(query.plan, offered.index, proofs, sizes, ansi, cheaper_only=views != "only")

    def _consistent(self, found: FoundAnswer, offered: Offered) -> bool:
        """Whether all that an answer reads reflects one version of each table."""
        versions: dict[str, int] = {}
        for own in self._reflected(found, offered).values():
            if any(versions.setdefault(table, version) != version for table, version in own.items()):
                return False
        return True

    def _reflected(self, found: FoundAnswer, offered: Offered) -> dict[str, dict[str, int]]:
        """The versions of tables that each relation of an answer reflects."""
        result = {}
        for name in dict.fromkeys(scan.table for scan in found.plan.scans):
            entry = self.state.entries[name]
            if name in found.views:
                result[name] = versions_of(self.candidates, entry, fresh=name in offered.pending)
            else:
                result[name] = {name: self.candidates.version(name)}
        return result

    def _run(
        self, query: QueryPlan, found: FoundAnswer, offered: Offered, reasons: tuple[Reason, ...]
    ) -> Answer | None:
        """The frame of an answer; None if it would have other types than the plain query."""
        shown = to_sql(found.plan, lambda scan: quote(scan.table))
        if "${" in shown or "«" in shown:
            raise NotReadable("its text would mean something else")
        schema = self.plain.schema
        names: dict[str, str] = {}
        session = self.home.session
        pending = tuple(v for v in found.views if v in offered.pending)
        try:
            for table in dict.fromkeys(scan.table for scan in found.plan.scans):
                names[table] = f"{table} (answer {next(_NUMBERS)})"
                self._frame(table, table in pending).createOrReplaceTempView(quote(names[table]))
            text = to_sql(found.plan, lambda scan: quote(names[scan.table]))
            # A view's own filter may be part of the text: that of a lake that is not trusted is looked at first.
            frame = self.home.sql(_select(query, found.plan, schema, text))
        except PySparkException as error:
            raise NotReadable(f"Spark refuses the query over views ({str(error).splitlines()[0]})") from None
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)
        if _described(frame.schema) != _described(schema):
            return None
        versions: dict[str, int] = {}
        for own in self._reflected(found, offered).values():
            versions |= own
        return Answer(
            frame,
            found.views,
            reasons,
            _select(query, found.plan, schema, shown),
            AnswerEstimates(found.rows, found.plain_rows),
            versions,
            found.fired,
            pending,
        )

    def _frame(self, name: str, pending: bool) -> DataFrame:
        entry = self.state.entries[name]
        if pending:
            return read_fresh(self.context, entry, state=self.state)
        snapshot = table_of(self.context.log, entry).snapshot(self.candidates.version(name))
        return user_frame(self.home, snapshot, columns_of(entry))


def _described(schema: StructType) -> list[tuple[object, ...]]:
    """The columns as users see them. Spark marks names that it made up itself, which is not compared."""
    return [(f.name, f.dataType, f.nullable) for f in schema.fields]


def _is_cheaper(found: FoundAnswer) -> bool:
    return "same plan" in found.fired or found.rows <= MARGIN * found.plain_rows


def _select(query: QueryPlan, plan: Node, schema: StructType, inner: str) -> str:
    """The columns under the names and in the order that the query gives them."""
    columns = [
        f"{_typed(quote(column.name), field_)} AS {quote(name)}"
        for column, name, field_ in zip(plan.columns, query.outputs, schema.fields, strict=False)
    ]
    order = ", ".join(o.sql for o in query.order)
    return f"SELECT {', '.join(columns)} FROM ({inner})" + (f" ORDER BY {order}" if order else "")


_DEFAULTS = {
    "bigint": "0L",
    "int": "0",
    "smallint": "0S",
    "tinyint": "0Y",
    "double": "0D",
    "boolean": "false",
    "string": "''",
    "date": "DATE '1970-01-01'",
}


def _typed(column: str, field_: StructField) -> str:
    """A column that cannot be NULL in the plain query, and so is not in a view, for Spark to know."""
    kind = field_.dataType.simpleString()
    default = _DEFAULTS.get(kind, f"CAST(0 AS {kind})" if kind.startswith(("decimal", "float")) else None)
    return column if field_.nullable or default is None else f"coalesce({column}, {default})"


def _not_answered(message: str, reasons: tuple[Reason, ...]) -> NablaError:
    nearest = max(reasons, key=lambda r: r.nearness, default=None)
    return NablaError(
        "NABLA_NOT_ANSWERED",
        message if nearest is None else f"{message}; the nearest is {nearest}",
        place='views="only"',
        remedy='Leave views="only" out, or create a view that can answer it.',
    )
