"""The lake's own log: a small Delta table whose content, at each version, is the whole catalog.

Its commits are the commit points of everything: one commit says which objects get which versions, and what the Delta
commits that make those versions contain. These are made right after it; if the process dies in between, whoever comes
next makes them ("rolls forward"). Nothing is ever undone, and no reader sees some tables of a transaction before and
others after it.
"""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from deltalake import Schema

from nabla._cached import cached_property
from nabla.errors import Conflict, MachineFault, NablaError
from nabla.storage import boundary, deltalog, files, locations, machine, reading
from nabla.storage.boundary import LOG, STAGING, TABLES
from nabla.storage.catalog import (
    MARKS_ROWS,
    SCHEMA,
    Entry,
    LakeState,
    Part,
    Pending,
    format_of,
    from_table,
)
from nabla.storage.deltalog import corrupt, no_version
from nabla.storage.lake_checks import (
    check_after_fence,
    check_format,
    check_vacant,
    foreign_write,
    newest_fence,
    not_a_lake,
    trimmed,
    unkept_promise,
    vacuumed_too_early,
    warn_unkept,
    warn_unsure,
)
from nabla.storage.lake_commit import metadata_of_commit, named_files, new_transaction, write_catalog
from nabla.storage.lake_history import Record, records
from nabla.storage.locations import Location
from nabla.storage.machine import refuse_forked
from nabla.storage.pending_table import PreparedTable
from nabla.storage.table import Snapshot, StoredTable
from nabla.storage.uncommitted import Leases, note

Reads = Callable[[LakeState], Collection[str]]
"""Finds, in the newest state, the objects that a commit depends on beside those that it changes."""


class LakeLog:
    """The log of the lake in a folder. Safe to share between threads; other processes may use the same lake."""

    def __init__(self, path: Location) -> None:
        """Use `open` or `create`."""
        refuse_forked()
        self.path = locations.named(path)
        self._log = StoredTable(os.path.join(self.path, LOG))
        self._lock = threading.RLock()
        self._state: LakeState | None = None
        self._unkept: dict[str, NablaError] = {}  # by path of a part: why its promise could not be kept
        self.leases = Leases(self.path)
        self._tables: dict[str, StoredTable] = {}

    @staticmethod
    def exists(path: Location) -> bool:
        """Whether there is a lake, however damaged."""
        return deltalog.is_delta(os.path.join(path, LOG))

    @classmethod
    def create(cls, path: Location, *, marks_rows: bool = True) -> LakeLog:
        """Make an empty lake in a new or empty folder; open it where somebody else was faster. Its tables mark deleted rows
        by deletion vectors, or do not."""
        log = cls(path)
        if not cls.exists(path):
            check_vacant(log.path)
            boundary.check_lake(log.path)
            locations.make_folder(os.path.join(log.path, TABLES))
            locations.make_folder(os.path.join(log.path, STAGING))
            file = write_catalog(log._log.folder, {})
            schema_json = Schema.from_arrow(SCHEMA).to_json()
            machine.point("lake.create")
            try:
                said = {**metadata_of_commit("create", new_transaction(), {}), MARKS_ROWS: marks_rows}
                StoredTable.create(log._log.folder, schema_json, [file], said)
            except Conflict:
                locations.remove(os.path.join(log._log.folder, file.path))
        return cls.open(path)

    @classmethod
    def open(cls, path: Location) -> LakeLog:
        """Open a lake and complete what a killed process left half done.

        NABLA_NOT_A_LAKE, NABLA_FORMAT (made by a newer Nabla) or NABLA_CORRUPT where that is not possible.
        """
        log = cls(path)
        if not cls.exists(path):
            raise not_a_lake(log.path)
        boundary.check_lake(log.path)
        log.state()
        return log

    @cached_property
    def identity(self) -> str:
        """The name of the commit that made the lake, which no other lake has."""
        return str(self._log.metadata(0).get("transaction", ""))

    @cached_property
    def marks_rows(self) -> bool:
        """Whether deleted rows of new tables are marked by deletion vectors, as the one who made the lake has decided."""
        return bool(self._log.metadata(0).get(MARKS_ROWS, True)) and not locations.is_url(self.path)

    is_whole = True
    """Whether it is that of the lake itself, and not seen through an environment."""

    @property
    def shown_as(self) -> str:
        """The name under which a session knows the lake."""
        return self.path

    def state(self, version: int | None = None) -> LakeState:
        """The newest state, with its tables in place, or an older one as it was. Microseconds if nothing is new."""
        return self.whole_state(version)

    def is_shared(self, name: str) -> bool:
        """Whether an object is the lake's and this is one of its environments."""
        return False

    def origin(self, entry: Entry) -> Entry:
        """The entry of an object as the lake itself has it, where an environment shows it otherwise."""
        return entry

    def refuse_here(self, what: str) -> None:
        """Refuse what is for the lake itself, where this is an environment."""

    def whole_state(self, version: int | None = None) -> LakeState:
        """A state as it is stored: that of the lake, with all environments."""
        refuse_forked()
        with self._lock:
            latest = self._log.latest()
            if version is not None and version != latest:
                return self._older(version, latest)
            if self._state is None or self._state.version != latest:
                with suppress(OSError):
                    # Another process has named this commit, and may not have synced the name yet. It must stay once it is seen.
                    locations.sync_folder(deltalog.log_folder(self._log.folder))
                return self._settle(self._read(latest, latest))
            return self._settle(self._state) if self._unkept else self._state

    def recorded(self, version: int) -> LakeState:
        """A version as its catalog has it, with the promises that it made, whether they were kept or not."""
        return self._read(version, self._log.latest())

    def _older(self, version: int, latest: int) -> LakeState:
        """An earlier state. Promises that it made have been kept since, but for those that still stand."""
        now = self.whole_state().everything.values()
        waiting = {(p.path, p.version) for e in now for p in e.parts.values() if p.pending}
        found = self._read(version, latest)
        entries = {
            name: entry if any((p.path, p.version) in waiting for p in entry.parts.values()) else entry.settled
            for name, entry in found.everything.items()
        }
        return found.with_entries(entries)

    def commit(
        self,
        changes: Mapping[str, Entry | None],
        expected: LakeState,
        operation: str,
        info: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Reads = lambda state: (),
        transaction: str = "",
        cutoff: float | None = None,
    ) -> LakeState:
        """Put entries, or take (None) them away, in one step: the commit point of whatever the caller did before.

        `expected` is the state that the caller looked at. Where the lake has moved on, the commit is made on top of the
        new state if that has the same entries under all names in `changes` and those that `reads` finds there; else
        Conflict. `info` is kept for `history`, by object. `transaction` names the commit, for callers that want to find
        out later whether it was made (see `has`). With a `cutoff`, it is a fence (see `fence`).
        """
        transaction = transaction or new_transaction()
        signed = {name: None if entry is None else entry.promised(transaction) for name, entry in changes.items()}
        said = {name: dict((info or {}).get(name, {})) for name in changes}
        synced = False
        with self._lock:
            while True:
                base = self.whole_state()
                base.check_unchanged(expected, changes, reads(base))
                try:
                    self._check_parts(signed, base, newest_fence(self._log, expected.version, base.version))
                except NablaError:
                    if self._log.latest() == base.version:
                        raise
                    continue  # somebody else has just committed
                if not synced:
                    try:
                        locations.sync(self._new_files(signed))
                    except FileNotFoundError:
                        self._check_parts(signed, base)  # says which file a vacuum has taken
                        raise
                    synced = True
                try:
                    return self._attempt(base, signed, metadata_of_commit(operation, transaction, said, cutoff))
                except Conflict:
                    continue  # somebody else's commit came first: is it in the way?

    def fence(self, expected: LakeState, cutoff: float) -> LakeState:
        """Make a commit after which nobody can commit a file from before `cutoff` that no commit has named yet."""
        return self.commit({}, expected, "vacuum", cutoff=cutoff)

    def history(self, name: str | None = None, limit: int | None = None) -> Iterator[Record]:
        """The commits of the lake, or those that changed one object, newest first."""
        return records(self._log, name, limit)

    def has(self, transaction: str, after: int) -> bool:
        """Whether a commit of this name was made after a version of the lake."""
        versions = range(after + 1, self._log.latest() + 1)
        return any(self._log.metadata(version).get("transaction") == transaction for version in versions)

    def folder(self, part: Part | str) -> str:
        """The absolute path of a part."""
        path = part if isinstance(part, str) else part.path
        return path if locations.is_absolute(path) else os.path.join(self.path, path)

    def table(self, part: Part | str) -> StoredTable:
        """The Delta table of a part, the same object every time; with what is promised but not made yet, if anything is."""
        folder = self.folder(part)
        table = self._tables.get(folder) or self._tables.setdefault(folder, self._new_table(part, folder))
        if isinstance(part, str) or part.pending is None:
            return table
        return PreparedTable(table, part.version, part.pending)

    def _new_table(self, part: Part | str, folder: str) -> StoredTable:
        """The table of a part. A table that the lake made must have all files in its folder; others may have them anywhere."""
        own = not locations.is_absolute(part if isinstance(part, str) else part.path)
        if own:
            boundary.check_table(folder, self.path)
        return StoredTable(folder, closed=own)

    def snapshot(self, part: Part) -> Snapshot:
        """The table of a part at the version that counts."""
        return self.table(part).snapshot(part.version)

    def new_path(self, name: str) -> str:
        """A path for a new part that nobody else will choose: what a crash leaves there is in nobody's way."""
        readable = re.sub(r"[^A-Za-z0-9_]", "_", name)[:40]
        path = f"{TABLES}/{readable}-{uuid.uuid4().hex[:8]}"
        note(self.folder(path))
        return path

    def new_staging(self) -> str:
        """The absolute path of a new folder for files on their way into a table; it does not exist yet."""
        return os.path.join(self.path, STAGING, uuid.uuid4().hex)

    def _read(self, version: int, latest: int) -> LakeState:
        if not 0 <= version <= latest:
            raise no_version(self.path, version, latest)
        commit = deltalog.read_commit(self._log.folder, version)
        if commit is None and deltalog.was_cleaned(self._log.folder, version):
            raise trimmed(self.path, version)
        if commit is None or len(commit.adds) != 1:
            raise corrupt(self.path, f"version {version} of its log is missing or not Nabla's")
        check_format(commit.metadata.get("format"), self.path)
        path = os.path.join(self._log.folder, commit.adds[0])
        try:
            table = locations.read_parquet(path)
            file = files.DataFile(commit.adds[0], table.num_rows, locations.size(path))
            entries = from_table(reading.conform(table, SCHEMA), self.path)
            return LakeState(version, {}, file).with_entries(entries)
        except FileNotFoundError as error:
            if version < latest:
                raise NablaError("NABLA_VERSION_GONE", f"version {version} was vacuumed", place=self.path) from error
            raise corrupt(self.path, f"the file {path} is missing") from error
        except MachineFault as error:
            if not isinstance(error.__cause__, pa.ArrowException):
                raise
            raise corrupt(self.path, f"the file {path} cannot be read: {error.message}") from error
        except (pa.ArrowException, KeyError) as error:
            raise corrupt(self.path, f"the file {path} cannot be read: {error}") from error

    def _attempt(self, base: LakeState, changes: Mapping[str, Entry | None], metadata: Mapping[str, Any]) -> LakeState:
        entries = {name: entry for name, entry in base.everything.items() if name not in changes}
        entries |= {name: entry for name, entry in changes.items() if entry is not None}
        metadata = {**metadata, "format": format_of(entries)}
        file = write_catalog(self._log.folder, entries)
        locations.sync([os.path.join(self._log.folder, file.path)])
        machine.point("lake.commit")
        try:
            version = self._log.commit([file], [base.file], metadata, base.version)
        except Conflict:
            with suppress(FileNotFoundError):  # a vacuum was quicker
                locations.remove(os.path.join(self._log.folder, file.path))
            raise
        except OSError as error:
            version = base.version + 1
            if self._log.metadata(version).get("transaction") != metadata["transaction"]:
                raise
            try:
                locations.sync_folder(deltalog.log_folder(self._log.folder))  # everybody sees it already, so it stands
            except OSError:
                warn_unsure(version, self.path, error)
        machine.point("lake.committed")
        settled = self._settle(LakeState(version, {}, file).with_entries(entries))
        for unkept in self._unkept.values():
            warn_unkept(unkept)
        return settled

    def _settle(self, state: LakeState) -> LakeState:
        """Roll forward: make the Delta commits that the newest lake commit has promised and that are not there yet.

        Several processes may do so at once: each commit has one place, and only the first to take it gets it. A promise that
        cannot be kept now (the folder is not there, the disk is full, this user may only read) stands, in this and later
        commits, until it can: meanwhile everybody reads what it says.
        """
        settled: dict[str, Entry] = {}
        unkept: dict[str, NablaError] = {}
        for name, entry in state.everything.items():
            waiting = {part.path: error for part in entry.parts.values() if (error := self._try(part, state.version))}
            settled[name] = entry if waiting else entry.settled
            unkept |= waiting
            if "data" in entry.parts and isinstance(rows := entry.facts.get("rows"), int):
                self.table(entry.parts["data"].path).expect(entry.parts["data"].version, rows)
        machine.point("roll.done")
        self._state, self._unkept = state.with_entries(settled), unkept
        return self._state

    def _try(self, part: Part, lake_version: int) -> NablaError | None:
        """Keep the promise of a part, if there is one, or say why that is not possible now."""
        if part.pending is None:
            return None
        machine.point("roll.part")
        try:
            if not locations.is_folder(self.folder(part)):
                return unkept_promise(self.folder(part), "the folder is not there")
            self._keep_promise(part, part.pending, lake_version)
        except NablaError as error:
            if isinstance(error, MachineFault):
                return unkept_promise(self.folder(part), error.message)
            if error.code == "NABLA_CORRUPT":
                return unkept_promise(self.folder(part), error.message, error.remedy)
            raise
        return None

    def _keep_promise(self, part: Part, pending: Pending, lake_version: int) -> None:
        boundary.check_table(self.folder(part), self.path)  # however long ago the table was looked at first
        table = self.table(part.path)
        if table.latest() < part.version:
            metadata = {**pending.metadata, "transaction": pending.transaction, "lake_version": lake_version}
            try:
                table.commit(pending.adds, pending.removes, metadata, part.version - 1, pending.schema)
                return
            except Conflict:
                pass  # somebody else rolls forward at the same time
        actions = deltalog.read_actions(table.folder, part.version)
        locations.sync_folder(deltalog.log_folder(table.folder))  # the next lake commit will not repeat the promise
        if deltalog.metadata_of(actions or ()).get("transaction") != pending.transaction:
            raise foreign_write(table.folder, part.version)

    def _new_files(self, changes: Mapping[str, Entry | None]) -> Iterator[str]:
        """The files that promised commits name: they must not vanish after the lake commit."""
        for entry in changes.values():
            for part in entry.parts.values() if entry else ():
                yield from (os.path.join(self.folder(part), path) for path in named_files(part))

    def _check_parts(self, changes: Mapping[str, Entry | None], base: LakeState, cutoff: float | None = None) -> None:
        """Refuse promises that cannot be kept, because after the lake commit it would be too late."""
        known = {part.path for entry in base.everything.values() for part in entry.parts.values()} if cutoff else ()
        for part in (part for entry in changes.values() if entry for part in entry.parts.values()):
            if part.pending is not None and part.path in self._unkept:
                raise self._unkept[part.path]
            folder, latest = self.folder(part), self.table(part.path).latest()
            if part.pending is None and latest < part.version:
                raise corrupt(folder, f"version {part.version} does not exist")
            if part.pending is not None and latest != part.version - 1:
                raise foreign_write(folder, latest)
            named = named_files(part)
            for path in named:
                if not locations.exists(os.path.join(folder, path)):
                    raise vacuumed_too_early(folder, path)
            if cutoff is not None:
                check_after_fence(self.table(part), part, named, cutoff, is_new=part.path not in known)
