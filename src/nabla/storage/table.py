"""A Delta table in a folder: its versions, the files of each, and commits that either get the next version or fail."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltalake.exceptions import CommitFailedError, DeltaError

from nabla.errors import Conflict, MissingFile, NablaError
from nabla.storage import boundary, delta_writer, deltalog, locations, log_replay, schemas, url_commits
from nabla.storage.delta_reader import DeltaReader
from nabla.storage.files import DataFile
from nabla.storage.files import Snapshot as Snapshot
from nabla.storage.locations import Location

_CACHED = 8


class StoredTable:
    """The Delta table in a folder, whoever writes it. Safe to share between threads."""

    def __init__(self, folder: Location, *, closed: bool = False) -> None:
        """Reads nothing yet. NABLA_PATH for a folder that cannot hold a table whatever is in it.

        All files of a `closed` table have to be in its folder: NABLA_OUTSIDE where its log names others.
        """
        self.folder = locations.named(folder)
        if re.search("%[0-9A-Fa-f]{2}", self.folder):  # deltalake writes such a path, and then reads another one
            raise NablaError("NABLA_PATH", "a folder's name contains a % code", place=self.folder, remedy="Rename it.")
        self.closed = closed
        self.schema_since = 0
        """The first version that has the columns of the newest one."""
        self._lock = threading.RLock()
        self._latest = -1
        self._is_plain = not locations.is_url(self.folder)
        self._reader = DeltaReader(self.folder)
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._seen: set[int] = set()
        self._expected = (-1, 0)

    @classmethod
    def create(
        cls,
        folder: Location,
        schema_json: str,
        adds: Sequence[DataFile] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        marks_rows: bool = False,
        captures: bool = False,
    ) -> StoredTable:
        """Make a table, with files that are already in its folder as its version 0. Conflict where there is one.

        With `marks_rows` its deleted rows are marked by deletion vectors, but for a table at a URL: deltalake commits there,
        and cannot write them. With `captures` it has a change data feed, with the same exception.
        """
        table = cls(folder)
        schema = schemas.storable(schema_json)
        locations.make_folder(table.folder)
        locations.sync(os.path.join(table.folder, file.path) for file in adds)
        try:
            if locations.is_url(table.folder):
                url_commits.create(table.folder, schema, adds, metadata or {})
            else:
                delta_writer.create(
                    table.folder, schema.to_json(), adds, metadata or {}, marks_rows=marks_rows, captures=captures
                )
        except (FileExistsError, DeltaError) as error:
            if table.exists():
                raise Conflict("NABLA_CONFLICT", "there is a table already", place=table.folder) from error
            raise _write_failed(table.folder, error) from error
        return table

    def exists(self) -> bool:
        return deltalog.is_delta(self.folder)

    def latest(self) -> int:
        """The newest version, looked up afresh. NABLA_NOT_DELTA where there is no table."""
        with self._lock:
            self._latest = deltalog.latest_version(self.folder, self._latest)
            return self._latest

    def forget(self) -> None:
        """Forget what was read: there is another table in the folder."""
        with self._lock:
            self._latest = -1
            self._reader = DeltaReader(self.folder)
            self._is_plain = not locations.is_url(self.folder)
            self._snapshots.clear()
            self._seen.clear()

    def snapshot(self, version: int | None = None) -> Snapshot:
        """A version, the newest unless one is given. NABLA_VERSION_GONE where its log or its files were cleaned up."""
        with self._lock:
            found = self.listed(version)
            if found.version not in self._seen:
                _check_files(found, newest=found.version == self._latest)
                if self.closed:
                    boundary.check_links((path for file in found.files for path in file.paths), self.folder)
                self._check_rows(found)
                self._seen.add(found.version)
            return found

    def listed(self, version: int | None = None) -> Snapshot:
        """A version as its log describes it; its files may be gone. NABLA_VERSION_GONE if its log was cleaned up."""
        with self._lock:
            latest = self.latest()
            wanted = latest if version is None else version
            if not 0 <= wanted <= latest:
                raise deltalog.no_version(self.folder, wanted, latest)
            found = self._snapshots.get(wanted)
            if found is None:
                found = self._read(wanted, latest)
                if self.closed:
                    boundary.check_files((path for file in found.files for path in file.paths), self.folder)
                self._seen.discard(wanted)
            self._remember(found)
            return found

    def expect(self, version: int, rows: int) -> None:
        """Say how many rows a version has, as a catalog knows it: a log or a file that lost some is noticed when it is read."""
        with self._lock:
            self._expected = (version, rows)

    def _check_rows(self, found: Snapshot) -> None:
        version, rows = self._expected
        if found.version == version and found.rows != rows:
            raise deltalog.corrupt(self.folder, f"version {version} has {found.rows} rows instead of {rows}")

    def metadata(self, version: int) -> Mapping[str, Any]:
        """Nabla's section of a version's commit metadata; empty where somebody else wrote it."""
        return deltalog.read_metadata(self.folder, version)

    def commits(self, after: int, upto: int) -> Iterator[deltalog.Commit | None]:
        """The commits of the versions `after` < v <= `upto`, in order; None where one is gone."""
        return deltalog.commits(self.folder, after, upto)

    def identity(self, version: int) -> Hashable:
        """An identity of a version that no other version of this table has, nor one that was promised and never made."""
        return version

    def is_made(self, version: int) -> bool:
        """Whether a version is there for everybody, and to stay."""
        return True

    def timestamp(self, version: int) -> int:
        """The time when a version was made, in milliseconds since 1970."""
        commit = deltalog.read_commit(self.folder, version)
        return commit.timestamp if commit is not None else 0

    def commit(
        self,
        adds: Sequence[DataFile],
        removes: Sequence[DataFile],
        metadata: Mapping[str, Any],
        expected: int,
        schema_json: str = "",
    ) -> int:
        """Make version `expected` + 1 out of version `expected`, with another schema if one is given, or raise Conflict where
        somebody else made it."""
        with self._lock:
            latest = self.latest()
            if latest > expected:
                raise _conflict(self.folder, expected)
            if latest < expected:
                raise deltalog.no_version(self.folder, expected, latest)
            try:
                if locations.is_url(self.folder):
                    url_commits.commit(self._reader.load(expected, latest), adds, removes, metadata)
                else:
                    delta_writer.commit(self.folder, expected + 1, adds, removes, metadata, schema_json)
            except (FileExistsError, CommitFailedError) as error:
                if self.latest() > expected:
                    raise _conflict(self.folder, expected) from error
                raise _write_failed(self.folder, error) from error
            if schema_json:  # the next reader takes it from the log
                self._latest = max(self._latest, expected + 1)
            else:
                self._advance(expected, adds, removes)
            return expected + 1

    def _advance(self, expected: int, adds: Sequence[DataFile], removes: Sequence[DataFile]) -> None:
        """Know the version just made without reading it back."""
        before = self._snapshots.get(expected)
        if before is not None:
            gone = {file.path for file in removes}
            files = (*(file for file in before.files if file.path not in gone), *adds)
            self._remember(replace(before, version=expected + 1, files=files))
            if expected in self._seen:
                self._seen.add(expected + 1)
        self._latest = max(self._latest, expected + 1)

    def _remember(self, snapshot: Snapshot) -> None:
        self._snapshots[snapshot.version] = snapshot
        self._snapshots.move_to_end(snapshot.version)
        while len(self._snapshots) > _CACHED:
            self._snapshots.popitem(last=False)

    def _read(self, version: int, latest: int) -> Snapshot:
        """A version from its log, by whoever is certain to understand it."""
        try:
            if self._is_plain:
                try:
                    earlier = max((v for v in self._snapshots if v < version), default=None)
                    return log_replay.replay(
                        self.folder, version, None if earlier is None else self._snapshots[earlier]
                    )
                except log_replay.Incomplete:
                    pass  # deltalake finds the words for it; other versions of the table are as plain as before
                except log_replay.Uncertain:
                    self._is_plain = False
            return self._reader.snapshot(version, latest)
        except FileNotFoundError as error:
            path = error.place if isinstance(error, MissingFile) else error.filename or str(error)
            raise _missing(self.folder, version, path, newest=version == latest) from error


def _check_files(snapshot: Snapshot, *, newest: bool) -> None:
    vectors = {os.path.join(snapshot.folder, path) for file in snapshot.files for path in file.paths[1:]}
    missing = next((path for path in (*snapshot.paths, *sorted(vectors)) if not locations.exists(path)), None)
    if missing is not None:
        raise _missing(snapshot.folder, snapshot.version, missing, newest=newest)


def _missing(folder: str, version: int, path: str, *, newest: bool) -> NablaError:
    if newest:
        return deltalog.corrupt(folder, f"the file {path} is missing")
    return deltalog.gone(folder, version, "its files were vacuumed")


def _conflict(folder: str, expected: int) -> Conflict:
    return Conflict(
        "NABLA_CONFLICT", f"somebody else made version {expected + 1}", place=folder, remedy="Repeat the operation."
    )


def _write_failed(folder: str, error: Exception) -> NablaError:
    return NablaError("NABLA_WRITE_FAILED", f"cannot commit: {_first_line(error)}", place=folder)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
