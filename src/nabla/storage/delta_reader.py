"""Versions of a table as the deltalake package reads them.

It knows tables at URLs and all features of Delta. For plain tables of this machine `log_replay` gives the same, and takes a
fraction of the time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError

from nabla.errors import NablaError
from nabla.storage import deltalog, locations, schemas, statistics
from nabla.storage.deletion_vectors import ENABLED, FEATURE, Hidden
from nabla.storage.files import DataFile, Snapshot

_TRUE = pa.scalar(True, pa.bool_())


class DeltaReader:
    """Reads one table. It keeps what it has read, since catching up is cheaper than loading anew."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._handle: DeltaTable | None = None

    def load(self, version: int, latest: int) -> DeltaTable:
        """A handle at exactly this version."""
        handle = self._handle
        try:
            if handle is not None and handle.version() < version == latest:
                handle = self._caught_up(handle, version)
            if handle is None or handle.version() != version:
                deltalog.check_whole(self._folder, deltalog.commits_needed(self._folder, version))
                handle = DeltaTable(self._folder, version=version)
        except DeltaError as error:
            raise self._unreadable(version, error) from error
        self._handle = handle
        return handle

    def _caught_up(self, handle: DeltaTable, version: int) -> DeltaTable | None:
        """A handle brought to a version, or None where the log was trimmed in between: then the version is loaded anew."""
        deltalog.check_whole(self._folder, range(handle.version() + 1, version + 1))
        try:
            handle.update_incremental()
        except DeltaError:
            if deltalog.oldest_version(self._folder) <= handle.version() + 1:
                raise
            return None
        return handle

    def snapshot(self, version: int, latest: int) -> Snapshot:
        """A version. FileNotFoundError where a file is gone that would have to be read for it."""
        handle = self.load(version, latest)
        schema_json = handle.schema().to_json()
        metadata = handle.metadata()
        mode = metadata.configuration.get("delta.columnMapping.mode", "none")
        stored = schemas.stored_names(schema_json, mode, self._folder)
        logical = {name: column for column, name in stored.items()}
        return Snapshot(
            folder=self._folder,
            version=handle.version(),
            schema_json=schema_json,
            stored=stored,
            partitioned_by=tuple(metadata.partition_columns),
            files=_files(self._folder, handle, schemas.arrow(schema_json), logical),
            marks_rows=metadata.configuration.get(ENABLED) == "true",
        )

    def _unreadable(self, version: int, error: DeltaError) -> NablaError:
        if isinstance(error, DeltaProtocolError) or "feature" in str(error).lower():
            return NablaError(
                "NABLA_DELTA_FEATURE",
                f"the table uses a feature of Delta that cannot be read: {_first_line(error)}",
                place=self._folder,
                remedy="Drop the feature, or copy the table into one without it.",
            )
        if deltalog.was_cleaned(self._folder, version):
            return deltalog.gone(self._folder, version, "its log was cleaned up")
        return deltalog.corrupt(self._folder, _first_line(error))


def _files(folder: str, handle: DeltaTable, schema: pa.Schema, logical: Mapping[str, str]) -> tuple[DataFile, ...]:
    actions = pa.table(handle.get_add_actions(flatten=False))
    known = statistics.from_log(actions, schema, logical)
    vectors = _deletion_vectors(folder, handle)
    partitions = actions["partition"].to_pylist() if "partition" in actions.column_names else [{}] * actions.num_rows
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    files = []
    for i, (encoded, size, rows) in enumerate(zip(*columns, strict=True)):
        path = deltalog.decoded(encoded)
        if rows is None:  # a writer that records no statistics
            rows = locations.parquet_footer(os.path.join(folder, path)).num_rows
        hidden = Hidden.masked(_filled(vectors[path], rows)) if path in vectors else None
        files.append(
            DataFile(
                path=path,
                rows=rows if hidden is None else rows - hidden.rows,
                bytes=size,
                minimum=known[i].minimum,
                maximum=known[i].maximum,
                nulls={} if hidden is not None else known[i].nulls,
                partition={logical.get(name, name): value for name, value in partitions[i].items()},
                hidden=hidden,
            )
        )
    return tuple(files)


def _deletion_vectors(folder: str, handle: DeltaTable) -> dict[str, pa.BooleanArray]:
    if FEATURE not in (handle.protocol().reader_features or ()):
        return {}
    try:
        table = pa.table(handle.deletion_vectors())
    except DeltaError as error:  # the files that hold them are vacuumed like others
        raise FileNotFoundError(_first_line(error)) from error
    real = os.path.realpath(deltalog.decoded(folder))
    paths = (os.path.relpath(os.path.realpath(deltalog.decoded(url)), real) for url in table["filepath"].to_pylist())
    return {path: mask.values for path, mask in zip(paths, table["selection_vector"], strict=True)}


def _filled(keep: pa.BooleanArray, rows: int) -> pa.BooleanArray:
    """A mask for every row: those after the last deleted one may be left out."""
    return pa.concat_arrays([pc.fill_null(keep, _TRUE), pa.repeat(_TRUE, rows - len(keep))])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
