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
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake import Schema

from nabla.errors import Conflict, NablaError
from nabla.storage import deltalog, faults, files, locations, reading
from nabla.storage.catalog import FORMAT, SCHEMA, Entry, LakeState, Part, Pending, from_table, to_table
from nabla.storage.deltalog import corrupt, no_version
from nabla.storage.locations import Location
from nabla.storage.pending_table import PreparedTable
from nabla.storage.table import Snapshot, StoredTable
from nabla.storage.uncommitted import note

Reads = Callable[[LakeState], Collection[str]]
"""What a commit depends on beside what it changes, as the newest state tells."""

LOG = "_nabla/log"
STAGING = "_nabla/staging"
TABLES = "tables"


@dataclass(frozen=True)
class Record:
    """A commit of the lake: when (milliseconds since 1970), by what operation, and what it says of what it changed."""

    version: int
    timestamp: int
    operation: str
    transaction: str
    objects: Mapping[str, Mapping[str, Any]]


class LakeLog:
    """The log of the lake in a folder. Safe to share between threads; other processes may use the same lake."""

    def __init__(self, path: Location) -> None:
        """Use `open` or `create`."""
        self.path = locations.named(path)
        self._log = StoredTable(os.path.join(self.path, LOG))
        self._lock = threading.RLock()
        self._state: LakeState | None = None
        self._waits = False  # for a table that is away
        self._tables: dict[str, StoredTable] = {}

    @staticmethod
    def exists(path: Location) -> bool:
        """Whether there is a lake, however damaged."""
        return deltalog.is_delta(os.path.join(path, LOG))

    @classmethod
    def create(cls, path: Location) -> LakeLog:
        """Make an empty lake in a new or empty folder; open it where somebody else was faster."""
        log = cls(path)
        if not cls.exists(path):
            _check_vacant(log.path)
            locations.make_folder(os.path.join(log.path, TABLES))
            locations.make_folder(os.path.join(log.path, STAGING))
            file = _write_catalog(log._log.folder, {})
            schema_json = Schema.from_arrow(SCHEMA).to_json()
            faults.point("lake.create")
            try:
                StoredTable.create(log._log.folder, schema_json, [file], _metadata("create", new_transaction(), {}))
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
            raise _not_a_lake(log.path)
        log.state()
        return log

    def state(self, version: int | None = None) -> LakeState:
        """The newest state, with its tables in place, or an older one as it was. Microseconds if nothing is new."""
        with self._lock:
            latest = self._log.latest()
            if version is not None and version != latest:
                return self._read(version, latest).settled
            if self._state is None or self._state.version != latest or self._waits:
                return self._settle(self._read(latest, latest))
            return self._state

    def commit(
        self,
        changes: Mapping[str, Entry | None],
        expected: LakeState,
        operation: str,
        info: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Reads = lambda state: (),
        transaction: str = "",
    ) -> LakeState:
        """Put entries, or take (None) them away, in one step: the commit point of whatever the caller did before.

        `expected` is the state that the caller looked at. Where the lake has moved on, the commit is made on top of the
        new state if that has the same entries under all names in `changes` and those that `reads` finds there; else
        Conflict. `info` is kept for `history`, by object. `transaction` names the commit, for callers that want to find
        out later whether it was made (see `has`).
        """
        transaction = transaction or new_transaction()
        signed = {name: None if entry is None else entry.promised(transaction) for name, entry in changes.items()}
        said = {name: dict((info or {}).get(name, {})) for name in changes}
        with self._lock:
            while True:
                base = self.state()
                _check_unchanged(expected, base, {*changes, *reads(base)})
                try:
                    self._check_parts(signed)
                except NablaError:
                    if self._log.latest() == base.version:
                        raise
                    continue  # somebody else has just committed, and made the versions that were promised here
                try:
                    return self._attempt(base, signed, _metadata(operation, transaction, said))
                except Conflict:
                    continue  # somebody else's commit came first: is it in the way?

    def history(self, name: str | None = None, limit: int | None = None) -> Iterator[Record]:
        """The commits of the lake, or those that changed one object, newest first."""
        found = 0
        for version in range(self._log.latest(), -1, -1):
            if limit is not None and found >= limit:
                return
            said = self._log.metadata(version)
            if said and (name is None or name in said["objects"]):
                found += 1
                yield Record(version, said["timestamp"], said["operation"], said["transaction"], said["objects"])

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
        table = self._tables.setdefault(folder, StoredTable(folder))
        if isinstance(part, str) or part.pending is None:
            return table
        return PreparedTable(table, part.version, part.pending)

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
        if commit is None or len(commit.adds) != 1:
            raise corrupt(self.path, f"version {version} of its log is missing or not Nabla's")
        _check_format(commit.metadata.get("format"), self.path)
        path = os.path.join(self._log.folder, commit.adds[0])
        try:
            table = locations.read_parquet(path)
            file = files.DataFile(commit.adds[0], table.num_rows, locations.size(path))
            return LakeState(version, from_table(reading.conform(table, SCHEMA), self.path), file)
        except FileNotFoundError as error:
            if version < latest:
                raise NablaError("NABLA_VERSION_GONE", f"version {version} was vacuumed", place=self.path) from error
            raise corrupt(self.path, f"the file {path} is missing") from error
        except (pa.ArrowException, KeyError) as error:
            raise corrupt(self.path, f"the file {path} cannot be read: {error}") from error

    def _attempt(self, base: LakeState, changes: Mapping[str, Entry | None], metadata: Mapping[str, Any]) -> LakeState:
        entries = base.changed(changes)
        file = _write_catalog(self._log.folder, entries)
        faults.point("lake.commit")
        try:
            version = self._log.commit([file], [base.file], metadata, base.version)
        except Conflict:
            locations.remove(os.path.join(self._log.folder, file.path))
            raise
        faults.point("lake.committed")
        return self._settle(LakeState(version, entries, file))

    def _settle(self, state: LakeState) -> LakeState:
        """Roll forward: make the Delta commits that the newest lake commit has promised and that are not there yet.

        Several processes may do so at once: each commit has one place, and only the first to take it gets it. Where the
        folder of a table is not there, its promise stands, in this and later commits, until it is.
        """
        settled = {}
        for entry in state.entries.values():
            for part in entry.parts.values():
                if part.pending is not None and not self._is_away(part):
                    faults.point("roll.part")
                    self._keep_promise(part, part.pending, state.version)
            settled[entry.name] = entry if any(map(self._is_away, entry.parts.values())) else entry.settled
        faults.point("roll.done")
        self._state = replace(state, entries=settled)
        self._waits = any(part.pending for entry in settled.values() for part in entry.parts.values())
        return self._state

    def _is_away(self, part: Part) -> bool:
        """Whether a promise cannot be kept now."""
        return part.pending is not None and not locations.is_folder(self.folder(part))

    def _keep_promise(self, part: Part, pending: Pending, lake_version: int) -> None:
        table = self.table(part.path)
        if table.latest() < part.version:
            metadata = {**pending.metadata, "transaction": pending.transaction, "lake_version": lake_version}
            try:
                table.commit(pending.adds, pending.removes, metadata, part.version - 1)
                return
            except Conflict:
                pass  # somebody else rolls forward at the same time
        if table.metadata(part.version).get("transaction") != pending.transaction:
            raise _foreign_write(table.folder, part.version)

    def _check_parts(self, changes: Mapping[str, Entry | None]) -> None:
        """After the lake commit it would be too late to find that a promise cannot be kept."""
        for entry in changes.values():
            for part in entry.parts.values() if entry else ():
                folder, latest = self.folder(part), self.table(part.path).latest()
                if part.pending is None and latest < part.version:
                    raise corrupt(folder, f"version {part.version} does not exist")
                if part.pending is not None and latest != part.version - 1:
                    raise _foreign_write(folder, latest)
                for file in part.pending.adds if part.pending else ():
                    if not locations.exists(os.path.join(folder, file.path)):
                        raise _vacuumed_too_early(folder, file.path)


def _write_catalog(folder: str, entries: Mapping[str, Entry]) -> files.DataFile:
    path = f"{uuid.uuid4().hex}.parquet"
    locations.make_folder(folder)
    table = to_table(entries)
    whole = os.path.join(folder, path)
    note(whole)
    locations.write_parquet(table, whole, compression="zstd", use_dictionary=False, write_statistics=False)
    return files.DataFile(path, table.num_rows, locations.size(whole))


def _metadata(operation: str, transaction: str, objects: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "operation": operation,
        "transaction": transaction,
        "timestamp": int(time.time() * 1000),
        "objects": dict(objects),
    }


def new_transaction() -> str:
    """A name for a commit that no other has."""
    return uuid.uuid4().hex


def _check_vacant(path: str) -> None:
    if not locations.exists(path):
        return
    tables = os.path.join(path, TABLES)
    if not locations.is_folder(path) or set(locations.names(path)) - {"_nabla", TABLES}:
        raise _not_a_lake(path)
    if locations.exists(tables) and locations.names(tables):
        raise _not_a_lake(path)  # a lake that died at birth has no tables


def _check_format(found: object, path: str) -> None:
    if not isinstance(found, int):
        raise corrupt(path, "the lake's log does not say its format")
    if found > FORMAT:
        known = f"the lake has format {found}; this Nabla knows up to {FORMAT}"
        raise NablaError("NABLA_FORMAT", known, place=path, remedy="Upgrade Nabla.")


def _check_unchanged(expected: LakeState, base: LakeState, names: Collection[str]) -> None:
    if expected.version == base.version:
        return
    for name in sorted(names):
        if expected.entries.get(name) != base.entries.get(name):
            raise Conflict("NABLA_CONFLICT", f'"{name}" was changed in the meantime', remedy="Repeat the operation.")


def _not_a_lake(path: str) -> NablaError:
    return NablaError(
        "NABLA_NOT_A_LAKE",
        "this folder is not a Nabla lake" if locations.exists(path) else "there is no such folder",
        place=path,
        remedy="Choose a new or empty folder.",
    )


def _vacuumed_too_early(folder: str, path: str) -> NablaError:
    return NablaError(
        "NABLA_VACUUMED",
        f"the file {path} was deleted before it could be committed",
        place=folder,
        remedy="Repeat the operation; give vacuum a grace period that is longer than any operation takes.",
    )


def _foreign_write(folder: str, version: int) -> NablaError:
    return NablaError(
        "NABLA_FOREIGN_WRITE",
        f"version {version} of a table that belongs to a lake was written by something else",
        place=folder,
        remedy=f"Delete {version:020d}.json and later ones from its _delta_log, and write through the lake.",
    )
