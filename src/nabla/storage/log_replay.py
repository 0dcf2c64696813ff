"""Versions of a plain Delta table on this machine, from the actions of its log.

The newest checkpoint has all files of a version, and the commits after it add and remove some; a later version follows from an
earlier one that is at hand. Every commit is read once, and checked to be whole while it is read.

Only logs are replayed whose meaning is certain. Column mapping, partitions, checkpoints of other kinds, and whatever this
module does not know raise `Uncertain`: deltalake reads those tables (`delta_reader`). It also finds the words for a log that
has holes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.exceptions import DeltaError

from nabla.errors import MachineFault
from nabla.storage import deltalog, locations, log_statistics, schemas
from nabla.storage.deletion_vectors import ENABLED, FEATURE, Hidden, Vector
from nabla.storage.files import DataFile, Snapshot

CHECKPOINT = "checkpoint.parquet"
"""The kind of a checkpoint in one file."""
_READ_OF_ADDS = ("path", "size", "stats", "deletionVector")
_IRRELEVANT = frozenset(("commitInfo", "txn", "cdc", "domainMetadata"))
_READER_FEATURES = frozenset((FEATURE, "timestampNtz"))
_WRITER_FEATURES = frozenset(
    (
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        FEATURE,
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
    )
)
"""Features that say nothing about how files are read, but for deletion vectors, which are known here."""


class Uncertain(Exception):
    """The log has something that this module does not know for certain."""


class Incomplete(Uncertain):
    """A commit or a checkpoint is not there, because the log was trimmed or damaged."""


def replay(folder: str, version: int, known: Snapshot | None = None) -> Snapshot:
    """A version of a table. `known` is one that was replayed before.

    NABLA_CORRUPT where a commit is damaged, FileNotFoundError where a file is gone that would have to be read.
    """
    if known is not None and known.version == version:
        return known
    if known is not None and known.version < version:
        by_path = {file.path: file for file in known.files}
        later = _Actions(by_path, known.schema_json, has_protocol=True, marks_rows=known.marks_rows)
        if later.read_commits(folder, range(known.version + 1, version + 1)) and later.schema_json == known.schema_json:
            return later.result(folder, version)
    listed = [(v, kind) for v, kind in deltalog.log_files(folder) if v <= version]
    first = max((v for v, kind in listed if kind != "json"), default=-1)
    actions = _Actions({})
    if first >= 0:
        if any(v == first and kind not in ("json", CHECKPOINT) for v, kind in listed):
            raise Uncertain("a checkpoint of another kind")
        actions.read_checkpoint(folder, first)
    if not actions.read_commits(folder, range(first + 1, version + 1)):
        raise Incomplete("a commit is missing")
    return actions.result(folder, version)


def replay_after(folder: str, checkpoint: int, version: int) -> Snapshot:
    """A version as a certain checkpoint and the commits after it have it, whatever other checkpoints there are."""
    actions = _Actions({})
    actions.read_checkpoint(folder, checkpoint)
    if not actions.read_commits(folder, range(checkpoint + 1, version + 1)):
        raise Incomplete("a commit is missing")
    return actions.result(folder, version)


@dataclass
class _Actions:
    """The actions that were read so far, and what they add up to: by their paths files that are known, or add actions of files
    that are not described yet."""

    files: dict[str, Any]
    schema_json: str = ""
    has_protocol: bool = False
    marks_rows: bool = False

    def result(self, folder: str, version: int) -> Snapshot:
        if not self.schema_json or not self.has_protocol:
            raise Uncertain("no schema or no protocol")
        describe = _Describer(folder, self.schema_json)
        files = tuple(describe(path, body) for path, body in self.files.items())
        stored = schemas.stored_names(self.schema_json, "none", folder)
        return Snapshot(folder, version, self.schema_json, stored, (), files, self.marks_rows)

    def read_commits(self, folder: str, versions: range) -> bool:
        """Apply commits; False where one is not there."""
        for version in versions:
            actions = deltalog.read_actions(folder, version)
            if actions is None:
                return False
            self._apply(actions)
        return True

    def _apply(self, actions: Sequence[Mapping[str, Any]]) -> None:
        """Apply the actions of one commit, which have no order. A file that is removed and added gets another deletion
        vector."""
        added: dict[str, Mapping[str, Any]] = {}
        removed: dict[str, Mapping[str, Any]] = {}
        for kind, body in (pair for action in actions for pair in action.items()):
            if body is None or kind in _IRRELEVANT:
                continue
            if kind in ("add", "remove"):
                path, moved = _path(body), added if kind == "add" else removed
                if path in moved:
                    raise Uncertain("two actions of one file")
                moved[path] = body
            elif kind == "metaData":
                self._describe(body)
            elif kind == "protocol":
                self._check_protocol(body)
            else:
                raise Uncertain(kind)
        self._move(added, removed)

    def _move(self, added: Mapping[str, Mapping[str, Any]], removed: Mapping[str, Mapping[str, Any]]) -> None:
        """Remove files, then add others. Path and deletion vector together tell files apart, and a version has a path once."""
        for path, body in removed.items():
            if path in self.files and _vector_of(self.files[path]) != _vector_of(body):
                raise Uncertain("a file that was not there is removed")
            self.files.pop(path, None)
        for path, body in added.items():
            if path in removed and _vector_of(removed[path]) == _vector_of(body):
                raise Uncertain("two actions of one file")
            if path in self.files and _vector_of(self.files[path]) != _vector_of(body):
                raise Uncertain("a file is added twice")
            self.files.pop(path, None)
            self.files[path] = body

    def read_checkpoint(self, folder: str, version: int) -> None:
        path = os.path.join(deltalog.log_folder(folder), f"{version:020d}.{CHECKPOINT}")
        try:
            with locations.parquet_file(path) as file:
                table = file.read(columns=list(_checkpoint_columns(file.schema)), use_threads=False)
        except FileNotFoundError as error:
            raise Incomplete("a checkpoint is missing") from error
        except MachineFault as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno is not None:
                raise
            raise Uncertain("a checkpoint is damaged") from error
        for kind in table.column_names:
            bodies = table[kind].drop_null().to_pylist()
            if kind == "add":
                self.files = {_path(body): body for body in bodies}
                if len(self.files) != len(bodies):
                    raise Uncertain("two versions of one file")
                if any(body.get("stats") is None for body in bodies):
                    raise Uncertain("statistics in another form")
            elif bodies and (len(bodies) > 1 or kind not in ("metaData", "protocol")):
                raise Uncertain(kind)
            elif bodies and kind == "metaData":
                self._describe({**bodies[0], "configuration": dict(bodies[0].get("configuration") or ())})
            elif bodies:
                self._check_protocol(bodies[0])

    def _describe(self, body: Mapping[str, Any]) -> None:
        configuration = body.get("configuration") or {}
        if body.get("partitionColumns") or configuration.get("delta.columnMapping.mode", "none") != "none":
            raise Uncertain("partitions or column mapping")
        self.schema_json = _normalized(_text(body, "schemaString"))
        self.marks_rows = configuration.get(ENABLED) == "true"

    def _check_protocol(self, body: Mapping[str, Any]) -> None:
        reader, writer = body.get("minReaderVersion"), body.get("minWriterVersion")
        features = frozenset(body.get("readerFeatures") or ()), frozenset(body.get("writerFeatures") or ())
        without = reader == 1 and writer in range(1, 7) and not any(features)
        listed = (reader in (1, 3) and writer == 7) and (reader == 3 or not features[0])
        if not without and not (listed and features[0] <= _READER_FEATURES and features[1] <= _WRITER_FEATURES):
            raise Uncertain("features")
        self.has_protocol = True


class _Describer:
    """Makes data files of add actions."""

    def __init__(self, folder: str, schema_json: str) -> None:
        self._folder = folder
        self._read = log_statistics.reader(schema_json)

    def __call__(self, path: str, body: Any) -> DataFile:
        if isinstance(body, DataFile):
            return body
        size, stats = body.get("size"), body.get("stats")
        vector = _vector_of(body)
        if type(size) is not int or body.get("partitionValues"):
            raise Uncertain("an add action")
        try:
            rows, known = self._read(stats or "{}")
        except ValueError as error:
            raise Uncertain("statistics") from error
        if rows is None:  # a writer that records no statistics
            rows = locations.parquet_footer(os.path.join(self._folder, path)).num_rows
        file = DataFile(path, rows, size, known.minimum, known.maximum, known.nulls)
        return file if vector is None else file.hiding(Hidden(rows, vector))


def _vector_of(body: Any) -> Vector | None:
    """The deletion vector of a file that is known, or of an action."""
    if isinstance(body, DataFile):
        return None if body.hidden is None else body.hidden.vector
    descriptor = body.get("deletionVector")
    if descriptor is None:
        return None
    try:
        return Vector.from_json(descriptor)
    except (ValueError, AttributeError) as error:
        raise Uncertain("a deletion vector") from error


def _checkpoint_columns(schema: pq.ParquetSchema) -> Iterator[str]:
    """The leaves of a checkpoint that matter: of files their paths, sizes and statistics, and of other actions everything."""
    for i in range(len(schema)):
        path = schema.column(i).path
        kind, _, rest = path.partition(".")
        if kind in _IRRELEVANT or kind == "remove":
            continue
        if kind != "add" or rest.partition(".")[0] in _READ_OF_ADDS:
            yield path


@lru_cache(maxsize=256)
def _normalized(schema_text: str) -> str:
    """A schema in the form that deltalake gives it."""
    try:
        return Schema.from_json(schema_text).to_json()
    except (DeltaError, ValueError, TypeError) as error:
        raise Uncertain("the schema") from error


def _path(body: Mapping[str, Any]) -> str:
    return deltalog.decoded(_text(body, "path"))


def _text(body: Any, name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str):
        raise Uncertain(name)
    return found
