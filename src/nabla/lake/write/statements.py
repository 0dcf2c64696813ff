"""Statements of SQL that change rows, as operations of a transaction."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.spark.frames import Workspace
from nabla.errors import NablaError
from nabla.frontends.spark_sql.statements import (
    Delete,
    Insert,
    Merge,
    RowStatement,
    Update,
    Values,
    frame_of,
    with_defaults,
)
from nabla.lake.context import LakeContext
from nabla.lake.write.conditions import Seen, Sql, delete_matching, update_matching, workspace_seeing
from nabla.lake.write.generated import default_of, default_text, number_rows, refuse_given, write_numbered
from nabla.lake.write.merge import merge_rows_by_clauses
from nabla.lake.write.new_table import clustered
from nabla.lake.write.table_change import TableChange

_LOCAL = frozenset(("LocalRelation", "UnresolvedInlineTable"))


def refuse_nested(change: TableChange, statement: RowStatement) -> None:
    """Nested tables have keys at every level, which these statements do not know."""
    if change.nested and not isinstance(statement, Delete):
        raise NablaError(
            "NABLA_NOT_WRITABLE",
            f'"{change.name}" is a nested table, which SQL cannot write',
            place=f'"{change.name}"',
            remedy="Use tx.insert, tx.merge and tx.remove.",
        )


def run_statement(
    context: LakeContext, change: TableChange, statement: RowStatement, seen: Seen, new_staging: Callable[[], str]
) -> None:
    """Apply a statement to a table as the transaction sees it."""
    refuse_nested(change, statement)
    if isinstance(statement, Insert):
        _insert(context, change, statement, seen, new_staging)
    elif isinstance(statement, Update):
        where: Sql = "true" if statement.where is None else statement.where
        values = _values(change, statement.values)
        update_matching(context, change, values, where, seen, statement.target.alias)
    elif isinstance(statement, Delete):
        where = "true" if statement.where is None else statement.where
        delete_matching(context, change, where, seen, statement.target.alias)
    else:
        assert isinstance(statement, Merge)
        merge_rows_by_clauses(context, change, statement, seen, new_staging, lambda name: default_of(change, name))


def _values(change: TableChange, given: Values) -> dict[str, Sql]:
    names = {name.casefold(): name for name in change.visible.names}
    return {
        (found := _column(change, names, name)): default_text(change, found) if value is None else value
        for name, value in given.items()
    }


def _column(change: TableChange, names: dict[str, str], name: str) -> str:
    if name.casefold() not in names:
        raise NablaError(
            "NABLA_UNKNOWN_COLUMN",
            f'there is no column "{name}"',
            place=f'statement about "{change.name}"',
            remedy=f"It has the columns {', '.join(change.visible.names)}.",
        )
    return names[name.casefold()]


def _insert(
    context: LakeContext, change: TableChange, statement: Insert, seen: Seen, new_staging: Callable[[], str]
) -> None:
    """Insert the rows of a query. It reads the table as it was before rows are replaced."""
    with workspace_seeing(context, seen) as workspace, context.translating(f'INSERT into "{change.name}"'):
        local = str(statement.query.getClass().getSimpleName()) in _LOCAL
        arranged, given = _arranged(change, statement, workspace)
        if not local:
            refuse_given(change, given)
        frame = intake.fit_frame(arranged, change.visible, change.name)
        folder, rows = new_staging(), None
        if local:
            rows = types.conform(frame.toArrow(), types.to_stored(change.visible, change.visible.names))
        else:
            write_numbered(change, clustered(frame, change.entry.definition), folder)
        if statement.overwrite:
            where: Sql = "true" if statement.replaced is None else statement.replaced
            delete_matching(context, change, where, seen, statement.target.alias)
        if rows is not None:
            change.add(number_rows(change, rows), 1)
        else:
            change.written.append(folder)


def _arranged(change: TableChange, statement: Insert, workspace: Workspace) -> tuple[DataFrame, list[str]]:
    """The rows of an INSERT with all columns of the table by name, and the columns that it gives."""
    names = {name.casefold(): name for name in change.visible.names}
    wanted = [_column(change, names, name) for name in statement.columns] or list(change.visible.names)
    if len({*wanted}) < len(wanted):
        raise NablaError(
            "NABLA_DUPLICATE_COLUMN",
            "a column is named twice",
            place=f'INSERT into "{change.name}"',
            remedy="Name each column once.",
        )
    session = workspace.session
    frame = frame_of(session, with_defaults(session, statement.query, [default_text(change, name) for name in wanted]))
    if statement.by_name:
        given = [_column(change, names, name) for name in frame.columns]
    elif len(frame.columns) != len(wanted):
        raise NablaError(
            "NABLA_WIDTH",
            f"the rows have {len(frame.columns)} values for {len(wanted)} columns",
            place=f'INSERT into "{change.name}"',
            remedy=f"Give a value for each of {', '.join(wanted)}, or name the columns.",
        )
    else:
        given = wanted
    named = frame.toDF(*given)
    missing = [name for name in change.visible.names if name not in given]
    completed = named.select(*map(quote, given), *(default_of(change, name).alias(name) for name in missing))
    return completed, given
