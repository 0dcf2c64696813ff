"""The net changes of all tables in a transaction, over the state of the lake that it began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nabla.engine import types
from nabla.engine.large_change import capture_change
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import quarantined_tables
from nabla.lake.objects.names import a_kind, is_nested
from nabla.lake.write.commit import Commit
from nabla.lake.write.generated import DEFAULTS
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.write_change import take_over, write_change
from nabla.storage import locations
from nabla.storage.catalog import ORIGIN, LakeState
from nabla.storage.table import Snapshot
from nabla.storage.uncommitted import Uncommitted


class TableChanges:
    """The changes by table. `close` deletes the folders that Spark wrote into for them, and files that were to become files of
    tables, unless they were handed over to a commit."""

    def __init__(self, context: LakeContext, state: LakeState) -> None:
        self.state = state
        self._context = context
        self._changes: dict[str, TableChange] = {}
        self._staging: list[str] = []
        self.uncommitted = Uncommitted()

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._changes)

    def find(self, table: str) -> TableChange | None:
        """The change of a table by its exact name, if an operation has named it."""
        return self._changes.get(table)

    def change(self, table: str) -> TableChange:
        """The change of a table, which has to be one that the lake may write to."""
        entry = self._context.names(self.state).entry(table)
        if entry.kind != "table" or ORIGIN in entry.definition:
            kind = "a copy of a table of others" if entry.kind == "table" else a_kind(entry)
            raise NablaError(
                "NABLA_NOT_WRITABLE",
                f'"{entry.name}" is {kind}, and the lake writes to its own tables only',
                place=f'"{entry.name}"',
                remedy="Whoever owns it writes it."
                if entry.kind == "registered"
                else "Change the tables that it is made from.",
            )
        if entry.name not in self._changes:
            for text in (entry.definition.get(DEFAULTS) or {}).values():
                self._context.spark.check(f"SELECT {text}")
            snapshot = self._context.log.snapshot(entry.parts["data"])
            visible = types.from_json(entry.definition["schema"])
            if not entry.definition.get(
                "enforced"
            ):  # a table of Nabla 0.1, which took NOT NULL and lengths for comments
                visible = types.to_stored(visible, visible.names)
            alone = is_nested(entry) or entry.name in quarantined_tables(self.state)
            self._changes[entry.name] = TableChange(entry.name, entry, visible, snapshot, by_driver=alone)
        return self._changes[entry.name]

    def new_staging(self) -> str:
        """A new folder for Spark to write rows into."""
        self._staging.append(self._context.log.new_staging())
        return self._staging[-1]

    def take_over_written(self) -> None:
        """Read the rows that Spark wrote. Needed where the changes are put into more than one commit: the files of one that
        is not published are deleted."""
        with self.uncommitted:
            for change in self._changes.values():
                take_over(change)

    def put_into(self, commit: Commit) -> None:
        """Write all changes, and put the tables as they would be into a commit."""
        for change in self._changes.values():
            done = write_change(change, self._capture)
            if done is not None:
                commit.put({change.name: done[0]}, {change.name: done[1]})
            elif (
                change.entry != self.state.entries[change.name]
            ):  # no row has changed, but what the lake knows of the table
                commit.put({change.name: change.entry}, {change.name: {"inserted": 0, "deleted": 0}})

    def _capture(self, before: Snapshot, after: Snapshot) -> Mapping[str, Any]:
        with self._context.spark.workspace("large") as workspace:
            return capture_change(workspace, before, after, self.new_staging())

    def hand_over(self, commit: Commit) -> None:
        """Let a commit that is about to be published decide about the files that were written for the changes so far."""
        commit.take_over(self.uncommitted)

    def close(self) -> None:
        self.uncommitted.discard()
        for folder in self._staging:
            locations.remove_folder(folder)
        self._staging = []
