"""A Delta table in a folder: its versions, the files of each, and commits that either get the next version or fail."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

from nabla._cached import cached_property
from nabla.errors import Conflict, MissingFile, NablaError
from nabla.storage import boundary, delta_writer, deltalog, locations, schemas, statistics, url_commits
from nabla.storage.files import DataFile
from nabla.storage.locations import Location

_CACHED = 8
_TRUE = pa.scalar(True, pa.bool_())


@dataclass(frozen=True)
class Snapshot:
    """A version of a table: its schema as JSON, the name in the files of each column, and its files."""

    folder: str
    version: int
    schema_json: str
    stored: Mapping[str, str]
    partitioned_by: tuple[str, ...]
    files: tuple[DataFile, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's terms."""
        return schemas.arrow(self.schema_json)

    @property
    def plain(self) -> bool:
        """Whether the files hold exactly the table: no partition values, hidden rows or other names to see to."""
        renamed = any(name != stored for name, stored in self.stored.items())
        return not (renamed or self.partitioned_by or any(file.keep is not None for file in self.files))

    @property
    def paths(self) -> list[str]:
        """The absolute paths of the files."""
        return [self.path(file) for file in self.files]

    def path(self, file: DataFile) -> str:
        """The absolute path of a file."""
        return file.path if locations.is_absolute(file.path) else os.path.join(self.folder, file.path)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


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
        self._lock = threading.RLock()
        self._latest = -1
        self._handle: DeltaTable | None = None
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
    ) -> StoredTable:
        """Make a table, with files that are already in its folder as its version 0. Conflict where there is one."""
        table = cls(folder)
        schema = schemas.storable(schema_json)
        locations.make_folder(table.folder)
        locations.sync(os.path.join(table.folder, file.path) for file in adds)
        try:
            if locations.is_url(table.folder):
                url_commits.create(table.folder, schema, adds, metadata or {})
            else:
                delta_writer.create(table.folder, schema.to_json(), adds, metadata or {})
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

    def snapshot(self, version: int | None = None) -> Snapshot:
        """A version, the newest unless one is given. NABLA_VERSION_GONE where its log or its files were cleaned up."""
        with self._lock:
            found = self.listed(version)
            if found.version not in self._seen:
                _check_files(found, newest=found.version == self._latest)
                if self.closed:
                    boundary.check_links((file.path for file in found.files), self.folder)
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
                found = _snapshot(self.folder, self._load(wanted), newest=wanted == latest)
                if self.closed:
                    boundary.check_files((file.path for file in found.files), self.folder)
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
    ) -> int:
        """Make version `expected` + 1 out of version `expected`, or raise Conflict where somebody else made it."""
        with self._lock:
            latest = self.latest()
            if latest > expected:
                raise _conflict(self.folder, expected)
            if latest < expected:
                raise deltalog.no_version(self.folder, expected, latest)
            try:
                if locations.is_url(self.folder):
                    url_commits.commit(self._load(expected), adds, removes, metadata)
                else:
                    delta_writer.commit(self.folder, expected + 1, adds, removes, metadata)
            except (FileExistsError, CommitFailedError) as error:
                if self.latest() > expected:
                    raise _conflict(self.folder, expected) from error
                raise _write_failed(self.folder, error) from error
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

    def _load(self, version: int) -> DeltaTable:
        """A handle at exactly this version. One that is behind catches up, which is cheaper than loading anew."""
        handle = self._handle
        try:
            if handle is not None and handle.version() < version == self.latest():
                deltalog.check_whole(self.folder, range(handle.version() + 1, version + 1))
                handle.update_incremental()
            if handle is None or handle.version() != version:
                deltalog.check_whole(self.folder, deltalog.commits_needed(self.folder, version))
                handle = DeltaTable(self.folder, version=version)
        except DeltaError as error:
            raise self._unreadable(version, error) from error
        self._handle = handle
        return handle

    def _unreadable(self, version: int, error: DeltaError) -> NablaError:
        if isinstance(error, DeltaProtocolError) or "feature" in str(error).lower():
            return NablaError(
                "NABLA_DELTA_FEATURE",
                f"the table uses a feature of Delta that cannot be read: {_first_line(error)}",
                place=self.folder,
                remedy="Drop the feature, or copy the table into one without it.",
            )
        if deltalog.was_cleaned(self.folder, version):
            return gone(self.folder, version, "its log was cleaned up")
        return deltalog.corrupt(self.folder, _first_line(error))


def _snapshot(folder: str, handle: DeltaTable, *, newest: bool) -> Snapshot:
    schema_json = handle.schema().to_json()
    metadata = handle.metadata()
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    stored = schemas.stored_names(schema_json, mode, folder)
    logical = {name: column for column, name in stored.items()}
    try:
        files = _files(folder, handle, schemas.arrow(schema_json), logical)
    except FileNotFoundError as error:
        path = error.place if isinstance(error, MissingFile) else error.filename or str(error)
        raise _missing(folder, handle.version(), path, newest=newest) from error
    return Snapshot(
        folder=folder,
        version=handle.version(),
        schema_json=schema_json,
        stored=stored,
        partitioned_by=tuple(metadata.partition_columns),
        files=files,
    )


def _files(folder: str, handle: DeltaTable, schema: pa.Schema, logical: Mapping[str, str]) -> tuple[DataFile, ...]:
    actions = pa.table(handle.get_add_actions(flatten=False))
    known = statistics.from_log(actions, schema, logical)
    hidden = _deletion_vectors(folder, handle)
    partitions = actions["partition"].to_pylist() if "partition" in actions.column_names else [{}] * actions.num_rows
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    files = []
    for i, (encoded, size, rows) in enumerate(zip(*columns, strict=True)):
        path = deltalog.decoded(encoded)
        if rows is None:  # a writer that records no statistics
            rows = locations.parquet_footer(os.path.join(folder, path)).num_rows
        keep = _filled(hidden.get(path), rows)
        files.append(
            DataFile(
                path=path,
                rows=rows if keep is None else keep.true_count,
                bytes=size,
                minimum=known[i].minimum,
                maximum=known[i].maximum,
                nulls=known[i].nulls if keep is None else {},
                partition={logical.get(name, name): value for name, value in partitions[i].items()},
                keep=keep,
            )
        )
    return tuple(files)


def _deletion_vectors(folder: str, handle: DeltaTable) -> dict[str, pa.BooleanArray]:
    if "deletionVectors" not in (handle.protocol().reader_features or ()):
        return {}
    try:
        table = pa.table(handle.deletion_vectors())
    except DeltaError as error:  # the files that hold them are vacuumed like others
        raise FileNotFoundError(_first_line(error)) from error
    real = os.path.realpath(deltalog.decoded(folder))
    paths = (os.path.relpath(os.path.realpath(deltalog.decoded(url)), real) for url in table["filepath"].to_pylist())
    return {path: mask.values for path, mask in zip(paths, table["selection_vector"], strict=True)}


def _filled(keep: pa.BooleanArray | None, rows: int) -> pa.BooleanArray | None:
    """A mask for every row: those after the last deleted one may be left out."""
    if keep is None:
        return None
    return pa.concat_arrays([pc.fill_null(keep, _TRUE), pa.repeat(_TRUE, rows - len(keep))])


def _check_files(snapshot: Snapshot, *, newest: bool) -> None:
    missing = next((path for path in snapshot.paths if not locations.exists(path)), None)
    if missing is not None:
        raise _missing(snapshot.folder, snapshot.version, missing, newest=newest)


def _missing(folder: str, version: int, path: str, *, newest: bool) -> NablaError:
    if newest:
        return deltalog.corrupt(folder, f"the file {path} is missing")
    return gone(folder, version, "its files were vacuumed")


def _conflict(folder: str, expected: int) -> Conflict:
    return Conflict(
        "NABLA_CONFLICT", f"somebody else made version {expected + 1}", place=folder, remedy="Repeat the operation."
    )


def gone(folder: str, version: int, why: str) -> NablaError:
    return NablaError(
        "NABLA_VERSION_GONE",
        f"version {version} cannot be read any more: {why}",
        place=folder,
        remedy="Refresh the views that read this table in full.",
    )


def _write_failed(folder: str, error: Exception) -> NablaError:
    return NablaError("NABLA_WRITE_FAILED", f"cannot commit: {_first_line(error)}", place=folder)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
