"""Changes of tables, made together: operations apply in order, and their net change is committed in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from decimal import Decimal
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from nabla._arguments import check_arguments
from nabla.engine import intake
from nabla.engine.spark.frames import Workspace
from nabla.errors import Conflict, NablaError
from nabla.frontends.nested.equations import Sign
from nabla.frontends.spark_sql.statements import Insert, OtherStatement, RowStatement, read_statement
from nabla.lake.constraints.quarantine import hold_back
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.turns import take_turn
from nabla.lake.objects.graph import is_derived, quarantined_tables, read_through
from nabla.lake.objects.sources import count_keys
from nabla.lake.refresh.rules import tables_of_question
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.commit import Commit, retry
from nabla.lake.write.conditions import Seen, entry_frame, mentioned_in, named_in
from nabla.lake.write.fresh import ask_fresh, query_fresh, read_fresh
from nabla.lake.write.generated import complete_frame, is_generated, number_rows
from nabla.lake.write.given_rows import read_given, read_incomplete
from nabla.lake.write.operations import (
    delete_frame,
    delete_rows,
    delete_where,
    insert_frame,
    merge_frame,
    merge_rows,
    read_rows,
    replace_where,
    update_where,
)
from nabla.lake.write.statements import run_statement
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.table_changes import TableChanges
from nabla.lake.write.upsert import key_for_upsert, upsert_rows
from nabla.lake.write.write_change import take_over, write_change
from nabla.storage.catalog import Entry
from nabla.storage.uncommitted import Lease, Uncommitted

Operation = Callable[[TableChange], None]

Sql = str | int | float | bool | Decimal
"""An expression in Spark SQL. A number is one, too."""


@check_arguments
class Transaction:
    """Made by `lake.transaction()`. Leaving the `with` block commits; an exception leaves the lake as it was."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._changes = TableChanges(context, context.log.state())
        self._operations: list[tuple[str, Operation]] = []
        self._reads: set[str] = set()
        self._evaluated: set[str] = set()
        self._uncommitted = Uncommitted()
        self._lease: Lease | None = None
        self._closed = False
        self._workspaces: list[Workspace] = []
        """Those of frames that users hold."""
        self.moved: Mapping[str, Mapping[str, Any]] = {}
        """The tables that were changed by the commit, with the numbers of rows."""

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._closed:
                self.commit()
        finally:
            self._close()

    def insert(self, table: str, rows: intake.Data) -> None:
        """Insert rows: a DataFrame, a pyarrow Table, or a list of tuples or dicts."""
        change = self._change(table)
        if isinstance(rows, DataFrame):
            frame = self._fit_frame(change, rows)
            self._do(table, lambda c: insert_frame(c, frame, self._changes.new_staging()))
        else:
            arrow = self._read_rows(change, rows)
            self._do(table, lambda c: c.add(number_rows(c, arrow), 1))

    def delete(self, table: str, where: str | None = None, rows: intake.Data = None) -> None:
        """Delete the rows for which a condition holds, or given rows: one copy for each, and all must be there."""
        change = self._change(table)
        if (where is None) == (rows is None):
            raise NablaError(
                "NABLA_DELETE",
                "say what to delete, in one way",
                place=f'table "{table}"',
                remedy="Pass where= or rows=.",
            )
        if isinstance(rows, DataFrame) and not change.nested:
            with self._translating(change):
                frame = intake.fit_frame(rows, change.visible, change.name)
            self._do(table, lambda c: delete_frame(self._context, c, frame, self._changes.new_staging()))
        elif rows is not None:
            with self._translating(change):
                arrow = read_rows(change, rows)
            self._do(table, lambda c: delete_rows(c, arrow))
        else:
            assert where is not None
            self._do(table, lambda c: delete_where(self._context, c, where, self._seen_by(c, where)))

    def update(self, table: str, set: Mapping[str, Sql], where: str | None = None) -> None:
        """Give columns new values, as SQL expressions over the old row, in the rows for which a condition holds."""
        change = self._change(table)
        names = {f.name.casefold(): f.name for f in change.visible.fields}
        unknown = [column for column in set if column.casefold() not in names]
        if unknown or not set:
            raise NablaError(
                "NABLA_UNKNOWN_COLUMN",
                f'there is no column "{unknown[0]}"' if unknown else "there is nothing to set",
                place=f'update of "{change.name}"',
                remedy=f"It has the columns {', '.join(change.visible.names)}.",
            )
        values = {names[column.casefold()]: str(text) for column, text in set.items()}
        condition = "true" if where is None else where
        texts = (condition, *values.values())
        self._do(table, lambda c: update_where(self._context, c, values, condition, self._seen_by(c, *texts)))

    def apply(self, table: str, operation: Operation) -> None:
        """Do something else to the change of a table, now and whenever the transaction is repeated. For Nabla's own use."""
        self._do(table, operation)

    def upsert(self, table: str, rows: intake.Data, delete_when: str | None = None) -> None:
        """Put rows into a table by its declared key: each takes the place of the row that has its key, or is new.

        Columns that a row does not have stay as they are (dicts may have different ones), and are NULL in new rows. Rows for
        which the condition `delete_when` holds name keys to delete; it may read columns that the table lacks: "op = 'd'".
        """
        change = self._change(table)
        key = key_for_upsert(change)
        with self._translating(change):
            given = read_given(self._context, change, key, rows, delete_when)
        self._do(table, lambda c: upsert_rows(self._context, c, key, given))

    def replace(self, table: str, rows: intake.Data, where: str | None = None) -> None:
        """Put rows in the place of all rows of a table, or of those for which a condition holds, as it has to for the new ones.
        A row that is the same before and after has not changed."""
        change, condition = self._change(table), "true" if where is None else where
        if isinstance(rows, DataFrame):
            given: DataFrame | pa.Table = self._fit_frame(change, rows)
        else:
            given = self._read_rows(change, rows)

        def replace(c: TableChange) -> None:
            seen = self._seen_by(c, condition)
            replace_where(self._context, c, given, condition, seen, self._changes.new_staging())

        self._do(table, replace)

    def merge(self, table: str, rows: intake.Data) -> None:
        """r ⊕ δ: add rows and parts of rows, at any level, to a nested table.

        A row whose key is there gets what its subrelations lack; others are new. Subrelations may be left out.
        """
        self._update_nested(table, rows, "⊕")

    def remove(self, table: str, rows: intake.Data) -> None:
        """r ⊖ δ: remove parts of rows, at any level, from a nested table, and rows of which nothing is left.

        A row whose key is there loses the parts that the given row has, too; parts that are not there are no error.
        """
        self._update_nested(table, rows, "⊖")

    def _update_nested(self, table: str, rows: intake.Data, sign: Sign) -> None:
        change = self._change(table)
        if not change.nested:
            raise nests.not_nested(change.name)
        if isinstance(rows, DataFrame):
            self._do(table, lambda c: merge_frame(self._context, c, rows, sign))
        else:
            d = nests.read(rows, change.visible, change.name)
            self._do(table, lambda c: merge_rows(c, d, sign))

    def read(self, name: str, fresh: bool = False) -> DataFrame:
        """A table as this transaction sees it, its own changes included, or a view; to use before the transaction ends.

        With `fresh`, a view as it would be if the transaction were committed and the view refreshed. A transaction that has
        read something is not repeated when that was changed in the meantime: it is refused.
        """
        entry = self._context.names(self.changes.state).entry(name)
        if fresh and is_derived(entry):
            self._reads |= read_through([entry.name], self._changes.state)
            return read_fresh(self._context, entry, self._changes)
        self._reads.add(entry.name)
        return entry_frame(self._context, self._context.spark.home, self._changed_entry(entry))

    def sql(self, text: str) -> DataFrame:
        """Run a query over the state that this transaction would make: tables with its changes, and views as they would be
        after a refresh. To use before the transaction ends.

        INSERT, UPDATE, DELETE, MERGE and TRUNCATE change tables of the lake, as part of this transaction. What they read are
        tables with its changes, and views as they are.
        """
        parsed = read_statement(self._context.spark.session, text)
        if parsed is not None and not isinstance(parsed.statement, OtherStatement):
            return self._run(parsed.statement, parsed.reads)
        state = self.changes.state
        names = mentioned_in(text, state)
        self._reads |= read_through(names, state)
        entries = {name: state.entries[name] for name in sorted(names)}
        views = [entry for entry in entries.values() if is_derived(entry)]
        tables = {name: self._changed_entry(e) for name, e in entries.items() if not is_derived(e)}
        frame, workspace = query_fresh(self._context, text, self._changes, tables, views)
        self._workspaces.append(workspace)
        return frame

    def _run(self, statement: RowStatement, reads: frozenset[str] | None) -> DataFrame:
        """Run a statement that changes rows; gives the name of its table."""

        def run(change: TableChange) -> None:
            entries = self._changes.state.entries
            named = [name for name in entries if reads is None or name.casefold() in reads]
            adds_alone = isinstance(statement, Insert) and not statement.overwrite and not named
            seen = {} if adds_alone else self._see(change, named)
            run_statement(self._context, change, statement, seen, self._changes.new_staging)

        table = self._change(statement.target.name).name
        self._do(table, run)
        return self._context.spark.session.createDataFrame([(table,)], "table STRING")

    def ask(self, question: str) -> DataFrame:
        """Answer a question about a predicate of the rules, `path(1, X)`, in the state that this transaction would make."""
        state = self.changes.state
        self._reads |= read_through(tables_of_question(question, state), state)
        return ask_fresh(self._context, question, self._changes)

    def commit(self) -> None:
        """Write the net change of every table and make it visible in one step."""
        self._check_open()
        try:
            with self._context.events.run("transaction", sorted(self._changes.tables)):
                done = retry(self._context, self._commit_once, self._replay)
        finally:
            self._close()
        self.moved = {name: done.info[name] for name in done.moved & self._changes.tables}
        for name in self.moved:
            with suppress(NablaError, OSError):  # the transaction is committed, and counts only help
                count_keys(self._context.log, name, done.info[name]["inserted"] + done.info[name]["deleted"])
        self._context.subscriptions.deliver(done.moved)
        take_turn(self._context, self._changes.state.version, done.moved)

    @property
    def changes(self) -> TableChanges:
        """The changes so far, for `lake.preview`."""
        self._check_open()
        return self._changes

    def _check_open(self) -> None:
        if self._closed:
            raise NablaError("NABLA_TRANSACTION_CLOSED", "the transaction is over", remedy="Start another one.")

    def _close(self) -> None:
        self._closed = True
        self._changes.close()
        self._uncommitted.discard()
        if self._lease is not None:
            self._lease.close()

    def _change(self, table: str) -> TableChange:
        return self.changes.change(table)

    def _translating(self, change: TableChange) -> AbstractContextManager[None]:
        return self._context.translating(f'change of table "{change.name}"')

    def _read_rows(self, change: TableChange, rows: intake.Data) -> pa.Table:
        with self._translating(change):
            if is_generated(change):
                return read_incomplete(self._context, change, rows)
            return read_rows(change, rows)

    def _fit_frame(self, change: TableChange, rows: DataFrame) -> DataFrame:
        with self._translating(change):
            frame = intake.fit_frame(complete_frame(change, rows), change.visible, change.name)
            return nests.canonical_frame(frame) if change.nested else frame

    def _do(self, table: str, operation: Operation) -> None:
        self._apply(table, operation)
        self._operations.append((self._change(table).name, operation))

    def _apply(self, table: str, operation: Operation) -> None:
        change = self._change(table)
        if self._lease is None:  # Spark may write rows now, long before they are committed
            self._lease = self._context.log.leases.take()
        with self._translating(change), self._changes.uncommitted:
            operation(change)

    def _seen_by(self, change: TableChange, *texts: str) -> Seen:
        """The objects that subqueries in these texts read; `_replay` evaluates the texts again if one has changed."""
        return self._see(change, named_in(texts, self._changes.state))

    def _see(self, change: TableChange, objects: Iterable[str]) -> Seen:
        names = frozenset(objects)
        self._evaluated |= {change.name, *names}
        return {name: self._changed_entry(self._changes.state.entries[name]) for name in names}

    def _changed_entry(self, entry: Entry) -> Entry:
        """A table with the changes of this transaction, in files that are deleted when it ends."""
        change = self._changes.find(entry.name)
        if change is None or not change.changed:
            return entry
        with self._changes.uncommitted:
            take_over(change)
        with self._uncommitted:
            done = write_change(change)
        return done[0] if done else entry

    def _replay(self) -> None:
        """Do everything again on the lake's new state: the transaction takes place after the one that came first."""
        before, state = self._changes, self._context.log.state()
        for name in sorted(self._reads):
            if not state.has_same_content(before.state, name):
                raise Conflict(
                    "NABLA_CONFLICT",
                    f'"{name}", which the transaction has read, was changed in the meantime',
                    remedy="Repeat the transaction.",
                )
        for name in sorted(before.tables):
            if state.entries.get(name) and state.entries[name].definition != before.state.entries[name].definition:
                raise Conflict(
                    "NABLA_CONFLICT",
                    f'"{name}" was altered in the meantime, so that the rows may not be meant for its columns',
                    remedy="Repeat the transaction.",
                )
        before.close()
        self._evaluated = set()
        self._changes = TableChanges(self._context, state)
        for table, operation in self._operations:
            self._apply(table, operation)

    def _commit_once(self) -> Commit:
        """Commit the changes, but for rows that a constraint sets aside. These are found by trying: a change that violates
        such a constraint is put together again without them."""
        if quarantined_tables(self._changes.state) & self._changes.tables:
            self._changes.take_over_written()
        while True:
            with Commit(self._context, self._changes.state) as commit:
                self._changes.put_into(commit)
                commit.follow()
                if not hold_back(self._changes, commit):
                    commit.check()
                    if commit.changes:
                        self._changes.hand_over(commit)
                        commit.publish("transaction", self._reads | self._evaluated)
                        commit.end_views()
                    return commit
