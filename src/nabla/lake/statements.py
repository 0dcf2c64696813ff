"""`lake.sql` with a statement: a transaction changes rows, and definitions do what the methods of a lake do."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from nabla.errors import NablaError
from nabla.frontends.spark_sql.statements import (
    OtherStatement,
    Parsed,
    frame_of,
    list_of,
    option_of,
    read_statement,
)
from nabla.frontends.spark_sql.table_statements import CreateTable, name_of, read_create_table, read_create_view
from nabla.lake.constraints.constraints import create_constraint
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived
from nabla.lake.refresh.refresh import refresh_views
from nabla.lake.refresh.views import create_view
from nabla.lake.status import read_history
from nabla.lake.write.create_table import Declared, Storing, create_table, violating
from nabla.lake.write.drop import drop
from nabla.lake.write.generated import Identity
from nabla.lake.write.transaction import Transaction

_LEFT_TO_SPARK = (
    *("Describe", "Show", "Explain", "Cache", "Uncache", "ClearCache", "Refresh", "Set", "Reset", "List", "Add"),
    *("CreateVariable", "DropVariable", "UnresolvedExecuteImmediate", "DropFunction"),
    *("CreateFunction", "CreateUserDefinedFunction", "CreateSQLFunction"),
)
"""Statements of a session, by the beginnings of Spark's names for them. They write nothing that stays."""

_BEGIN = r"^(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_NAME = r"((?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))*)\s*;?\s*$"


def _form(text: str) -> re.Pattern[str]:
    return re.compile(_BEGIN + text.replace(" ", r"\s+").replace("NAME", _NAME), re.IGNORECASE | re.DOTALL)


_REPLACE_VIEW = _form("create or (?:replace|refresh) materialized view")
_DROP_VIEW = _form("drop materialized view")
_REFRESH = _form("refresh (?:materialized view )?NAME")
_HISTORY = _form("desc(?:ribe)? history NAME")
_SHOW_VIEWS = _form("show materialized views")
"""Forms that Spark's parser does not have, or takes for something else."""


def run_if_statement(context: LakeContext, text: str) -> DataFrame | None:
    """Run a statement, and tell what it did. None for a query, and for statements that are left to Spark."""
    if found := _HISTORY.match(text):
        return _history(context, _plain(found[1]))
    if (found := _REFRESH.match(text)) and (entry := context.names(context.log.state()).find(_plain(found[1]))):
        return _refresh(context, entry.name)
    replaces = _REPLACE_VIEW.match(text)
    if replaces:
        text = "CREATE MATERIALIZED VIEW" + text[replaces.end() :]
    elif found := _DROP_VIEW.match(text):
        text = "DROP VIEW" + text[found.end() :]
    elif found := _SHOW_VIEWS.match(text):
        text = "SHOW VIEWS" + text[found.end() :]
    parsed = read_statement(context.spark.session, text)
    if parsed is None:
        return None
    if not isinstance(parsed.statement, OtherStatement):
        return _change_rows(context, parsed, text)
    kind, plan = parsed.statement.kind, parsed.statement.plan
    if kind == "CreateMaterializedViewAsSelect":
        return _create_view(context, plan, replaces=replaces is not None)
    if kind in _DEFINITIONS:
        return _DEFINITIONS[kind](context, plan)
    if kind == "CreateViewCommand" and not str(plan.viewType().toString()).startswith("Persisted"):
        return None
    if kind.startswith(_LEFT_TO_SPARK) and not kind.startswith(("SetTable", "SetView", "AddC", "SetCatalogAndN")):
        return None
    raise _unsupported(kind)


# ---------------------------------------------------------------- rows


def _change_rows(context: LakeContext, parsed: Parsed, text: str) -> DataFrame:
    statement = parsed.statement
    assert not isinstance(statement, OtherStatement)
    transaction = Transaction(context)
    with transaction:
        transaction.sql(text)
    name = context.names(context.log.state()).entry(statement.target.name).name
    moved = transaction.moved.get(name, {"inserted": 0, "deleted": 0})
    rows = [(name, int(moved["inserted"]), int(moved["deleted"]))]
    return _told(context, rows, "table STRING, inserted BIGINT, deleted BIGINT")


# ---------------------------------------------------------------- definitions


def _create_table(context: LakeContext, plan: Any) -> DataFrame:
    wanted = read_create_table(plan)
    existing = context.names(context.log.state()).find(wanted.name)
    if existing is not None and wanted.if_absent:
        return _done(context, existing.name, "exists")
    if existing is not None and wanted.replaces:
        return _replace_table(context, wanted, existing.name)
    identities = {name: Identity(one.start, one.step, one.always) for name, one in wanted.identities.items()}
    data = None if wanted.query is None else frame_of(context.spark.named_session, wanted.query)
    more = Declared(wanted.defaults, identities, wanted.checks)
    storing = Storing(cluster_by=wanted.cluster_by or None)
    key, foreign = wanted.key or None, wanted.foreign_keys or None
    create_table(context, wanted.name, wanted.schema, data, key, foreign, False, storing, more)
    return _done(context, wanted.name, "created")


def _replace_table(context: LakeContext, wanted: CreateTable, name: str) -> DataFrame:
    """CREATE OR REPLACE of a table that there is: its rows are replaced, as long as its columns stay."""
    if wanted.query is None:
        raise NablaError(
            "NABLA_EXISTS",
            f'there is a table "{name}" already, which has a history',
            place=f"lake {context.path}",
            remedy="Use TRUNCATE TABLE for its rows, lake.alter_table for its columns, or drop it first.",
        )
    with Transaction(context) as transaction:
        transaction.replace(name, frame_of(context.spark.named_session, wanted.query))
    return _done(context, name, "replaced")


def _create_view(context: LakeContext, plan: Any, *, replaces: bool) -> DataFrame:
    wanted = read_create_view(plan)
    existing = context.names(context.log.state()).find(wanted.name)
    if existing is not None and wanted.if_absent:
        return _done(context, existing.name, "exists")
    create_view(context, wanted.name, wanted.query, replaces, "deferred", False)
    return _done(context, wanted.name, "created" if existing is None else "replaced")


def _drop_table(context: LakeContext, plan: Any) -> DataFrame | None:
    return _drop(context, plan, "table", "registered")


def _drop_view(context: LakeContext, plan: Any) -> DataFrame | None:
    return _drop(context, plan, "view")


def _drop(context: LakeContext, plan: Any, *kinds: str) -> DataFrame | None:
    name = name_of(plan.child())
    entry = context.names(context.log.state()).find(name)
    if entry is None and context.spark.session.catalog.tableExists(name) and kinds == ("view",):
        return None  # a temporary view of the session
    if entry is None and plan.ifExists():
        return _done(context, name, "absent")
    drop(context, name, *kinds)
    return _done(context, name, "dropped")


def _add_check(context: LakeContext, plan: Any) -> DataFrame:
    check, table = plan.checkConstraint(), str(list_of(plan.child().child().multipartIdentifier())[-1])
    given = check.userProvidedName()
    name = str(given) if given is not None else f"{table}_check"
    create_constraint(context, name, violating(table, str(check.condition())), "reject", None)
    return _done(context, name, "created")


# ---------------------------------------------------------------- what is told


def _refresh(context: LakeContext, name: str) -> DataFrame:
    report = refresh_views(context, (name,), "auto", None)
    rows = [(one, view.mode, view.inserted, view.deleted) for one, view in report.items()]
    return _told(context, rows, "view STRING, mode STRING, inserted BIGINT, deleted BIGINT")


def _history(context: LakeContext, name: str) -> DataFrame:
    rows = [(e.version, e.timestamp, e.operation, e.inserted, e.deleted) for e in read_history(context, name, None)]
    return _told(
        context, rows, "version BIGINT, timestamp TIMESTAMP, operation STRING, inserted BIGINT, deleted BIGINT"
    )


def _show_tables(context: LakeContext, plan: Any) -> DataFrame:
    return _show(context, plan, "tableName", lambda entry: not is_derived(entry))


def _show_views(context: LakeContext, plan: Any) -> DataFrame:
    return _show(context, plan, "viewName", lambda entry: entry.kind == "view")


def _show(context: LakeContext, plan: Any, column: str, shown: Callable[[Any], bool]) -> DataFrame:
    """The objects of the lake, in the columns that Spark has for this."""
    pattern = option_of(plan.pattern())
    patterns = str(pattern).lower().split("|") if pattern is not None else ["*"]
    names = sorted(name for name, entry in context.log.state().entries.items() if shown(entry))
    rows = [("", name, False) for name in names if any(fnmatch.fnmatchcase(name.lower(), one) for one in patterns)]
    return _told(context, rows, f"namespace STRING, {column} STRING, isTemporary BOOLEAN")


_DEFINITIONS: Mapping[str, Callable[[LakeContext, Any], DataFrame | None]] = {
    "CreateTable": _create_table,
    "CreateTableAsSelect": _create_table,
    "ReplaceTable": _create_table,
    "ReplaceTableAsSelect": _create_table,
    "DropTable": _drop_table,
    "DropView": _drop_view,
    "AddCheckConstraint": _add_check,
    "ShowTables": _show_tables,
    "ShowViews": _show_views,
}

_INSTEAD = {
    "CreateView": "Use CREATE MATERIALIZED VIEW, which the lake keeps, or CREATE TEMPORARY VIEW.",
    "CreateStreamingTableAsSelect": "Streaming tables belong into a project (nabla run).",
    "CreateStreamingTable": "Streaming tables belong into a project (nabla run).",
    "CreateFlowCommand": "Flows belong into a project (nabla run).",
    "CreateNamespace": "A lake is one database: make another lake with nabla.open.",
    "DropNamespace": "A lake is one database: delete its folder.",
    "SetCatalogAndNamespace": "A lake is one database: name its tables without one.",
    "AnalyzeTable": "Statistics are kept by themselves.",
    "CompoundBody": "Run one statement after the other, in a transaction if they belong together.",
    "Union": "Write one INSERT for each table, in a transaction.",
    "RenameTable": "Create a table of the new name from it (CREATE TABLE … AS SELECT).",
}


def _unsupported(kind: str) -> NablaError:
    altering = kind in ("AddColumns", "RenameColumn", "DropColumns", "AlterColumns", "ReplaceColumns")
    remedy = "Use lake.alter_table." if altering else _INSTEAD.get(kind, "Use the methods of the lake.")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Command")).upper()
    return NablaError("NABLA_NOT_WRITABLE", f"a lake does not run {words}", place="statement", remedy=remedy)


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("`") for part in name.split("."))


def _done(context: LakeContext, name: str, outcome: str) -> DataFrame:
    return _told(context, [(name, outcome)], "name STRING, outcome STRING")


def _told(context: LakeContext, rows: list[Any], schema: str) -> DataFrame:
    return context.spark.session.createDataFrame(rows, schema)
