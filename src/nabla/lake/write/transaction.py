"""Changes of tables, made together: operations apply in order, and their net change is committed in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.apply import repeated, split
from nabla.engine.results import Replacement
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.frames import Workspace
from nabla.errors import Conflict, NablaError
from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.model import Relation
from nabla.lake.constraints import quarantine
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import derived
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.sources import count_keys
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.commit import Proposal, retried
from nabla.lake.write.nested_checks import check_keys, check_written
from nabla.lake.write.table_change import TableChange, absent_rows
from nabla.storage import bags, changes, files
from nabla.storage.bags import N
from nabla.storage.catalog import Entry
from nabla.storage.changes import ChangeFile
from nabla.storage.files import DataFile
from nabla.storage.pending_table import discard
from nabla.storage.replace import compare_rows, replace_rows
from nabla.storage.rewrite import absent, rewrite
from nabla.storage.table import Snapshot

RETRIES = 10
"""How often a transaction is repeated on top of other writers' commits before it gives up."""


Operation = Callable[[TableChange], None]


class Transaction:
    """Made by `lake.transaction()`. Leaving the `with` block commits; an exception leaves the lake as it was."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._state = context.log.state()
        self._operations: list[tuple[str, Operation]] = []
        self._changes: dict[str, TableChange] = {}
        self._reads: set[str] = set()
        self._scratch: list[Entry] = []
        self._closed = False

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
            frame = intake.fitting_frame(rows, change.visible, change.name)
            frame = nests.canonical_frame(frame) if change.nested else frame
            self._do(table, lambda c: self._insert_frame(c, frame))
        else:
            arrow = change.rows(rows)
            self._do(table, lambda c: c.add(arrow, 1))

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
        if rows is not None:
            arrow = change.rows(rows)
            self._do(table, lambda c: self._delete_rows(c, arrow))
        else:
            assert where is not None
            self._do(table, lambda c: self._delete_where(c, where))

    def update(self, table: str, set: Mapping[str, str], where: str | None = None) -> None:
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
        self._do(table, lambda c: self._update_where(c, values, where))

    def merge(self, table: str, rows: intake.Data) -> None:
        """r ⊕ δ: add rows and parts of rows, at any level, to a nested table.

        A row whose key is there gets what its subrelations lack; others are new. Subrelations may be left out.
        """
        self._update_nested(table, rows, "⊕")

    def remove(self, table: str, rows: intake.Data) -> None:
        """r ⊖ δ: remove parts of rows, at any level, from a nested table, and rows of which nothing is left.

        Of a row whose key is there goes what the given row has, too; what is not there is no error.
        """
        self._update_nested(table, rows, "⊖")

    def _update_nested(self, table: str, rows: intake.Data, sign: Sign) -> None:
        change = self._change(table)
        if not change.nested:
            raise nests.not_nested(change.name)
        if isinstance(rows, DataFrame):
            self._do(table, lambda c: self._merge_frame(c, rows, sign))
        else:
            d = nests.read(rows, change.visible, change.name)
            self._do(table, lambda c: self._merge_rows(c, d, sign))

    def _merge_rows(self, change: TableChange, d: Relation, sign: Sign) -> None:
        self._take_over_written(change)
        nests.update_rows(change, d, sign)

    def _merge_frame(self, change: TableChange, frame: DataFrame, sign: Sign) -> None:
        self._take_over_written(change)
        nests.update_frame(self._context, change, frame, sign)

    def read(self, name: str) -> DataFrame:
        """A table as this transaction sees it, its own changes included, or a view; to use before the transaction ends.

        A transaction that has read something is not repeated when that was changed in the meantime: it is refused.
        """
        self._check_open()
        entry = self._context.names(self._state).entry(name)
        self._reads.add(entry.name)
        change = self._changes.get(entry.name)
        if change is not None and change.changed:
            self._take_over_written(change)
            if done := self._written_change(change):
                entry = done[0]
                self._scratch.append(entry)
        part = entry.parts["data"]
        table = self._context.log.table(part)
        snapshot = table.snapshot(None if entry.kind == "registered" else part.version)
        return snapshot_frame(self._context.spark.home, snapshot, columns_of(entry))

    def commit(self) -> None:
        """Write the net change of every table and make it visible in one step."""
        self._check_open()
        try:
            done = retried(self._commit_once, RETRIES, self._replay)
        finally:
            self._close()
        for name in done.moved & self._changes.keys():
            count_keys(self._context.log, name, done.info[name]["inserted"] + done.info[name]["deleted"])
        if any(derived(self._state.entries[name]) for name in done.moved):
            self._context.subscriptions.deliver()

    def _check_open(self) -> None:
        if self._closed:
            raise NablaError("NABLA_TRANSACTION_CLOSED", "the transaction is over", remedy="Start another one.")

    def _close(self) -> None:
        self._closed = True
        for entry in self._scratch:
            discard(entry, {"data": self._context.log.folder(entry.parts["data"])})
        self._scratch = []

    def _change(self, table: str) -> TableChange:
        self._check_open()
        entry = self._context.names(self._state).entry(table)
        if entry.kind != "table":
            raise NablaError(
                "NABLA_NOT_WRITABLE",
                f'"{entry.name}" is a {entry.kind}, and the lake writes to its own tables only',
                place=f'"{entry.name}"',
                remedy="Change the tables that it is made from.",
            )
        if entry.name not in self._changes:
            self._changes[entry.name] = self._fresh(entry)
        return self._changes[entry.name]

    def _fresh(self, entry: Entry) -> TableChange:
        snapshot = self._context.log.snapshot(entry.parts["data"])
        return TableChange(entry.name, entry, types.from_json(entry.definition["schema"]), snapshot)

    def _do(self, table: str, operation: Operation) -> None:
        change = self._change(table)
        operation(change)
        self._operations.append((change.name, operation))

    def _replay(self) -> None:
        """All over again on the lake's new state: the transaction takes place after whoever came first."""
        state = self._context.log.state()
        for name in sorted(self._reads):
            if self._state.entries.get(name) != state.entries.get(name):
                raise Conflict(
                    "NABLA_CONFLICT",
                    f'"{name}", which the transaction has read, was changed in the meantime',
                    remedy="Repeat the transaction.",
                )
        self._state = state
        self._changes = {}
        for table, operation in self._operations:
            operation(self._change(table))

    def _insert_frame(self, change: TableChange, frame: DataFrame) -> None:
        """Rows that Spark has are written by Spark, and become the table's files as they are."""
        path = self._context.log.new_staging()
        frame.toDF(*change.stored.names).write.parquet(path)
        if change.nested:
            check_written(path, change.visible, change.name)
        change.written.append(path)

    def _delete_rows(self, change: TableChange, rows: pa.Table) -> None:
        self._take_over_written(change)
        change.add(rows, -1)
        change.needed.append(split(change.net())[0])

    def _delete_where(self, change: TableChange, where: str) -> None:
        with Workspace(self._context.spark.named_session, self._context.log.new_staging()) as workspace:
            matched = self._matched(change, where, {}, workspace)
        change.pieces.append(bags.negated(matched))

    def _update_where(self, change: TableChange, values: Mapping[str, str], where: str | None) -> None:
        with Workspace(self._context.spark.named_session, self._context.log.new_staging()) as workspace:
            both = self._matched(change, where or "true", values, workspace)
        names = change.stored.names
        change.pieces.append(bags.negated(both.select([*names, N])))
        after = [f"new {n}" if f"new {n}" in both.column_names else n for n in names]
        new = both.select([*after, N]).rename_columns([*names, N])
        if change.nested:
            rows = new.drop_columns([N]).rename_columns(change.visible.names)
            change.add(nests.canonical_rows(rows, change.visible, change.name), 1)
        else:
            change.pieces.append(new)

    def _matched(self, change: TableChange, where: str, values: Mapping[str, str], workspace: Workspace) -> pa.Table:
        """The rows that a condition holds for, as the transaction sees the table, with their copies and new values."""
        self._take_over_written(change)
        visible, stored = change.visible.names, change.stored.names
        frame = snapshot_frame(workspace, change.snapshot, visible).withColumn(N, F.lit(1).cast("bigint"))
        if change.pieces:
            pending = workspace.hold(change.net(), types.with_weight(change.stored))
            frame = frame.unionAll(pending.toDF(*visible, N))
        try:
            kept = frame.where(where)
            columns = [F.col(quote(v)).alias(s) for v, s in zip(visible, stored, strict=True)]
            for name, text in values.items():
                position = visible.index(name)
                new = F.expr(text).cast(change.visible.fields[position].dataType)
                columns.append(new.alias(f"new {stored[position]}"))
            table = kept.select(*columns, F.col(N)).toArrow()
        except PySparkException as error:
            raise self._context.translate(error, f'change of table "{change.name}"') from None
        fields = [*change.stored.fields]
        fields += [
            types.field_like(change.stored[stored[visible.index(n)]], f"new {stored[visible.index(n)]}") for n in values
        ]
        return types.conform(table, types.with_weight(StructType(fields)))

    def _take_over_written(self, change: TableChange) -> None:
        """Rows that Spark wrote join the others where an operation after theirs may concern them."""
        for path in change.written:
            change.pieces.append(bags.counted(types.conform(files.read_folder(path), change.stored)))
        change.written = []
        if change.replacement is not None:
            new, change.replacement = change.replacement, None
            deleted, inserted = compare_rows(change.snapshot, new.key, new.touched, new.rows)
            change.pieces += [bags.negated(bags.counted(deleted)), bags.counted(inserted)]

    def _commit_once(self) -> Proposal:
        with Maintenance(self._context) as maintenance:
            proposal = self._checked(maintenance)
            if proposal.changes:
                proposal.commit("transaction", self._reads)
            return proposal

    def _checked(self, maintenance: Maintenance) -> Proposal:
        """What the transaction would do, with all that must follow, and no constraint in the way."""
        for name in quarantine.concerned(self._state) & self._changes.keys():
            self._take_over_written(self._changes[name])
        while True:
            proposal = self._proposed(maintenance)
            try:
                proposal.follow()
                if not quarantine.hold_back(self, proposal):
                    proposal.check()
                    return proposal
            except BaseException:
                proposal.discard()
                raise
            proposal.discard()

    def _take_over_all(self) -> None:
        for change in self._changes.values():
            self._take_over_written(change)

    def _proposed(self, maintenance: Maintenance) -> Proposal:
        """The tables as the transaction would leave them."""
        proposal = Proposal(self._context, self._state, maintenance)
        for change in self._changes.values():
            done = self._written_change(change)
            if done is not None:
                proposal.put({change.name: done[0]}, {change.name: done[1]})
        return proposal

    def _written_change(self, change: TableChange) -> tuple[Entry, Mapping[str, Any]] | None:
        """The files of a table's net change and its entry with the commit they belong to; None if nothing changed."""
        if change.pieces or (change.written and change.replacement is not None):
            self._take_over_written(change)
        if change.nested and change.replacement is None:
            check_keys(change)
        recorded: tuple[ChangeFile, ...] | None
        if change.pieces or change.replacement is not None:
            adds, removes, net = self._rewritten(change)
            recorded = (
                changes.record(change.snapshot.folder, net)
                if removes or net.num_rows <= changes.RECORDED_ROWS
                else None
            )
        else:
            adds = [file for path in change.written for file in files.adopt(path, change.snapshot.folder)]
            removes, recorded = [], None
        if not adds and not removes:
            return None
        # Without a record, the change is the files added.
        metadata = {changes.KEY: [file.to_json() for file in recorded]} if recorded is not None else {}
        rows = change.snapshot.rows + sum(f.rows for f in adds) - sum(f.rows for f in removes)
        went = sum(f.deleted for f in recorded or ())
        facts = {**change.entry.facts, "rows": rows}
        part = change.entry.parts["data"].advanced(adds, removes, metadata)
        entry = Entry(change.entry.name, "table", change.entry.definition, {"data": part}, facts)
        return entry, {"inserted": rows - change.snapshot.rows + went, "deleted": went}

    def _rewritten(self, change: TableChange) -> tuple[list[DataFile], list[DataFile], pa.Table]:
        if change.replacement is not None:
            return self._replaced(change.snapshot, change.replacement)
        net = change.net()
        deleted, inserted = split(net)
        key = change.entry.definition["key"]
        for needed in change.needed:
            self._check_present(change, needed, deleted)
        done = rewrite(change.snapshot, delete=deleted, insert=repeated(inserted), key=key)
        if done.missing.num_rows:
            raise absent_rows(change.name, done.missing)
        return list(done.adds), list(done.removes), net

    def _replaced(self, snapshot: Snapshot, new: Replacement) -> tuple[list[DataFile], list[DataFile], pa.Table]:
        replaced = replace_rows(snapshot, new.key, new.touched, new.rows)
        net = pa.concat_tables([bags.negated(bags.counted(replaced.deleted)), bags.counted(replaced.inserted)])
        return list(replaced.adds), list(replaced.removes), net

    def _check_present(self, change: TableChange, needed: pa.Table, deleted: pa.Table) -> None:
        """Rows that were deleted and put back later must have been there too: the net change does not tell."""
        beyond = bags.consolidate(pa.concat_tables([needed, bags.negated(deleted)]))
        if pc.any(pc.greater(beyond.column(N), 0)).as_py():
            missing = absent(change.snapshot, needed)
            if missing.num_rows:
                raise absent_rows(change.name, missing)
