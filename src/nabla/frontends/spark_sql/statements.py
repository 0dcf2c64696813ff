"""Statements of Spark SQL that change rows, as Spark's parser reads them.

Conditions, values and queries stay Spark's unresolved expressions and plans: whoever runs a statement lets Spark resolve them
over the rows that they are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from nabla.errors import NablaError
from nabla.frontends.spark_sql.failures import quiet
from nabla.frontends.spark_sql.jvm import java_list

Values = Mapping[str, Column | None]
"""New values by column; None for DEFAULT."""


@dataclass(frozen=True)
class Target:
    """The table that a statement writes, and the name that its columns are qualified with."""

    name: str
    alias: str


@dataclass(frozen=True)
class Insert:
    """Rows of a query: by position, into `columns` if these are given, or by name. They take the place of all rows with
    `overwrite`, or of those for which `replaced` holds."""

    target: Target
    query: Any
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: bool = False
    replaced: Column | None = None


@dataclass(frozen=True)
class Update:
    target: Target
    values: Values
    where: Column | None


@dataclass(frozen=True)
class Delete:
    """Without a condition, all rows: TRUNCATE is one, too."""

    target: Target
    where: Column | None


@dataclass(frozen=True)
class Clause:
    """What a MERGE does with rows for which `when` holds. Without `values`, an update or insertion takes all columns of the
    source (`*`)."""

    action: Literal["update", "insert", "delete"]
    when: Column | None
    values: Values | None = None


@dataclass(frozen=True)
class Merge:
    target: Target
    source: Any
    source_alias: str
    on: Column
    matched: tuple[Clause, ...]
    not_matched: tuple[Clause, ...]
    not_matched_by_source: tuple[Clause, ...]


RowStatement = Insert | Update | Delete | Merge

_NO_ALIAS = "_nabla_source"


@dataclass(frozen=True)
class OtherStatement:
    """A statement that changes no rows, with the name of Spark's class for it."""

    kind: str
    plan: Any


Statement = RowStatement | OtherStatement


@dataclass(frozen=True)
class Parsed:
    """A statement, and the names that it reads; None if these may be any."""

    statement: Statement
    reads: frozenset[str] | None


_TARGET = "__required_write_privileges__"
"""Spark's parser marks the table that a statement writes with this option."""
_ANY = re.compile(r"\b(?:identifier|with)\b", re.IGNORECASE)


def read_statement(session: SparkSession, text: str) -> Parsed | None:
    """The statement that a text is; None for a query, and for what Spark cannot parse, which is left to whoever runs it."""
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    with quiet():
        try:
            parser.parseQuery(text)
        except (PySparkException, Py4JJavaError):
            pass
        else:
            return None
        try:
            plan = parser.parsePlan(text)
        except (PySparkException, Py4JJavaError):
            return None
    return Parsed(_read(plan), None if _ANY.search(text) else _names_read(plan))


def _names_read(plan: Any) -> frozenset[str]:
    """The names of relations in a plan and its subqueries, without the table that it writes."""
    found = set()
    for one in [plan, *list_of(plan.subqueriesAll())]:
        for leaf in list_of(one.collectLeaves()):
            if kind_of(leaf) == "UnresolvedRelation" and not leaf.options().containsKey(_TARGET):
                found.add(".".join(str(part) for part in list_of(leaf.multipartIdentifier())).casefold())
    return frozenset(found)


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """The rows of an unresolved query."""
    jvm: Any = session._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def expression_column(session: SparkSession, text: str) -> Column:
    """A column from the text of an expression."""
    return column_of(session._jsparkSession.sessionState().sqlParser().parseExpression(text))


def with_defaults(session: SparkSession, query: Any, defaults: Iterable[str]) -> Any:
    """The query of an INSERT with expressions in the place of DEFAULT: one for each column, by position."""
    kind, texts = kind_of(query), list(defaults)
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    jvm: Any = session._jvm
    if kind == "UnresolvedWith":
        parts = [query.productElement(place) for place in range(query.productArity())]
        return query.copy(with_defaults(session, query.child(), texts), *parts[1:])
    if kind == "UnresolvedInlineTable":
        rows = [
            _seq(jvm, [_or_default(parser, item, texts, place) for place, item in enumerate(list_of(row))])
            for row in list_of(query.rows())
        ]
        return query.copy(query.names(), _seq(jvm, rows))
    if kind == "Project":
        items = [
            _or_default(parser, item, texts, place, named=True)
            for place, item in enumerate(list_of(query.projectList()))
        ]
        return query.copy(_seq(jvm, items), query.child())
    return query


def _or_default(parser: Any, item: Any, defaults: list[str], place: int, *, named: bool = False) -> Any:
    if not _is_default(item) or place >= len(defaults):
        return item
    return parser.parseExpression(f"({defaults[place]}) AS `DEFAULT`" if named else defaults[place])


def _read(plan: Any) -> Statement:
    kind = kind_of(plan)
    if kind == "InsertIntoStatement":
        return _insert(plan, plan.query())
    if kind == "UnresolvedWith" and kind_of(plan.child()) == "InsertIntoStatement":
        parts = [plan.productElement(place) for place in range(plan.productArity())]
        return _insert(plan.child(), plan.copy(plan.child().query(), *parts[1:]))
    if kind == "OverwriteByExpression":  # REPLACE WHERE of Spark 4.2
        return Insert(_target(plan.table()), plan.query(), overwrite=True, replaced=column_of(plan.deleteExpr()))
    if kind == "UpdateTable":
        return Update(
            _target(plan.table()), _values(plan.assignments(), _target(plan.table())), _condition(plan.condition())
        )
    if kind == "DeleteFromTable":
        where = plan.condition()
        always = kind_of(where) == "Literal" and where.toString() == "true"
        return Delete(_target(plan.table()), None if always else column_of(where))
    if kind == "TruncateTable":
        return Delete(_target(plan.table()), None)
    if kind == "MergeIntoTable":
        return _merge(plan)
    return OtherStatement(kind, plan)


def _insert(plan: Any, query: Any) -> Insert:
    if plan.partitionSpec().size():
        raise refused("PARTITION in INSERT", "Tables of a lake have no partitions: give these columns their values.")
    fields = {str(plan.productElementName(place)) for place in range(plan.productArity())}  # Spark 4.3 has more
    if "withSchemaEvolution" in fields and plan.withSchemaEvolution():
        raise _schema_evolution()
    criteria = option_of(plan.replaceCriteriaOpt()) if "replaceCriteriaOpt" in fields else None
    if criteria is not None and kind_of(criteria) != "InsertReplaceWhere":
        raise refused("this form of INSERT … REPLACE", "Use REPLACE WHERE, or MERGE.")
    columns = tuple(str(name) for name in list_of(plan.userSpecifiedCols()))
    replaced = None if criteria is None else column_of(criteria.cond())
    return Insert(_target(plan.table()), query, columns, plan.byName(), plan.overwrite(), replaced)


def _merge(plan: Any) -> Merge:
    if plan.withSchemaEvolution():
        raise _schema_evolution()
    target, source = _target(plan.targetTable()), plan.sourceTable()
    alias = _NO_ALIAS
    if kind_of(source) == "SubqueryAlias":
        alias = str(source.alias())
    elif kind_of(source) == "UnresolvedRelation":
        alias = str(list_of(source.multipartIdentifier())[-1])
    clauses = (plan.matchedActions(), plan.notMatchedActions(), plan.notMatchedBySourceActions())
    read = [tuple(_clause(action, target) for action in list_of(actions)) for actions in clauses]
    return Merge(target, source, alias, column_of(plan.mergeCondition()), *read)


_ACTIONS: Mapping[str, Literal["update", "insert", "delete"]] = {
    "UpdateAction": "update",
    "UpdateStarAction": "update",
    "InsertAction": "insert",
    "InsertStarAction": "insert",
    "DeleteAction": "delete",
}


def _clause(action: Any, target: Target) -> Clause:
    kind = kind_of(action)
    if kind not in _ACTIONS:
        raise refused(f"{kind} in MERGE", "Use UPDATE, INSERT or DELETE.")
    values = _values(action.assignments(), target) if kind in ("UpdateAction", "InsertAction") else None
    return Clause(_ACTIONS[kind], _condition(action.condition()), values)


def _values(assignments: Any, target: Target) -> Values:
    values: dict[str, Column | None] = {}
    for one in list_of(assignments):
        parts = [str(part) for part in list_of(one.key().nameParts())]
        if len(parts) > 1 and parts[-2].casefold() not in (target.alias.casefold(), target.name.casefold()):
            raise refused(f"the assignment to {'.'.join(parts)}", "Set the whole column, as with named_struct.")
        if parts[-1].casefold() in (name.casefold() for name in values):
            raise NablaError(
                "NABLA_DUPLICATE_COLUMN",
                f'column "{parts[-1]}" is set twice',
                place=f'statement about "{target.name}"',
                remedy="Set it once.",
            )
        values[parts[-1]] = None if _is_default(one.value()) else column_of(one.value())
    return values


def _target(plan: Any) -> Target:
    if kind_of(plan) == "SubqueryAlias":
        return Target(_target(plan.child()).name, str(plan.alias()))
    if kind_of(plan) not in ("UnresolvedRelation", "UnresolvedTable"):
        raise refused("a statement about something that is no table by name", "Name a table of the lake.")
    parts = [str(part) for part in list_of(plan.multipartIdentifier())]
    return Target(".".join(parts), parts[-1])


def _is_default(expression: Any) -> bool:
    if kind_of(expression) != "UnresolvedAttribute":
        return False
    parts = list_of(expression.nameParts())
    return len(parts) == 1 and str(parts[0]).upper() == "DEFAULT"


def _condition(option: Any) -> Column | None:
    found = option_of(option)
    return None if found is None else column_of(found)


def column_of(expression: Any) -> Column:
    """A column of PySpark for an expression of Catalyst."""
    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def kind_of(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def list_of(items: Any) -> list[Any]:
    return [items.apply(place) for place in range(items.size())]


def _seq(jvm: Any, items: Iterable[Any]) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(java_list(jvm, items)).toSeq()


def option_of(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _schema_evolution() -> NablaError:
    return refused("WITH SCHEMA EVOLUTION", "Alter the table before.")


def refused(what: str, remedy: str) -> NablaError:
    return NablaError("NABLA_STATEMENT", f"{what} is not supported", place="statement", remedy=remedy)
