"""Commits of Delta logs on this machine, written as the protocol defines them: one JSON action a line.

The deltalake package could commit, too, but it does not sync: after a power cut a commit may be there without its content.
Here a commit is written and synced under another name first, and gets its real name if nobody else has taken that. Its
content is what deltalake writes, so that all readers see the same; `actions` in its information says how many lines there
are, so that a commit which lost some is told from a whole one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from nabla.storage import deltalog, locations
from nabla.storage.deletion_vectors import ENABLED, FEATURE
from nabla.storage.files import DataFile
from nabla.storage.machine import current

Action = dict[str, dict[str, Any]]

CONFIGURATION = {
    # A version must stay readable for as long as a view refers to it: only `vacuum` knows for how long that is.
    "delta.enableExpiredLogCleanup": "false",
    # Loading and committing read every commit since the last checkpoint, about 0.5 ms each.
    "delta.checkpointInterval": "10",
}
_CHECKPOINT_EVERY = 10
_LAST_CHECKPOINT = "_last_checkpoint"
_ENGINE = "nabla"


def create(
    folder: str, schema_json: str, adds: Sequence[DataFile], metadata: Mapping[str, Any], *, marks_rows: bool = False
) -> None:
    """Make version 0 of a table, whose deleted rows may be marked or not. FileExistsError where there is a table."""
    locations.make_folder(deltalog.log_folder(folder))
    protocol, description = _protocol(schema_json, marks_rows), _description(schema_json, marks_rows)
    parameters = {"mode": "ErrorIfExists", "location": folder}
    _put(folder, 0, "CREATE TABLE", parameters, metadata, [protocol, description, *map(_add, adds)])


def commit(
    folder: str, version: int, adds: Iterable[DataFile], removes: Iterable[DataFile], metadata: Mapping[str, Any]
) -> None:
    """Make a version out of the one before it. FileExistsError where somebody else made it."""
    parameters = {"mode": "Append", "partitionBy": "[]"}
    _put(folder, version, "WRITE", parameters, metadata, [*map(_add, adds), *map(_remove, removes)])
    if (version + 1) % _CHECKPOINT_EVERY == 0:
        with suppress(OSError, DeltaError):  # a checkpoint only saves time: the next one will come
            _make_checkpoint(folder, version)


def _put(
    folder: str,
    version: int,
    operation: str,
    parameters: Mapping[str, str],
    metadata: Mapping[str, Any],
    actions: Sequence[Action],
) -> None:
    information = {
        "timestamp": _now(),
        "operation": operation,
        "operationParameters": parameters,
        "engineInfo": _ENGINE,
        deltalog.SECTION: metadata,
        deltalog.ACTIONS: len(actions) + 1,
    }
    lines = [{"commitInfo": information}, *actions]
    text = "\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
    locations.put_text(deltalog.commit_path(folder, version), text + "\n")


def _protocol(schema_json: str, marks_rows: bool) -> Action:
    """The protocol that a table needs: timestamps without a zone and marked rows are features that readers must support."""
    zoneless = "timestamp_ntz" in json.dumps(_types(json.loads(schema_json)))
    features = [*([FEATURE] if marks_rows else ()), *(["timestampNtz"] if zoneless else ())]
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    listed = {"readerFeatures": features, "writerFeatures": features}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **listed}}


def _types(kind: Any) -> Any:
    """A type without the names of its fields and what is said of them."""
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind:
        return [_types(field["type"]) for field in kind["fields"]]
    return [_types(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind]


def _description(schema_json: str, marks_rows: bool) -> Action:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "name": None,
            "description": None,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json,
            "partitionColumns": [],
            "createdTime": _now(),
            "configuration": {**CONFIGURATION, **({ENABLED: "true"} if marks_rows else {})},
        }
    }


def _add(file: DataFile) -> Action:
    return {
        "add": {
            "path": quote(file.path),
            "partitionValues": {},
            "size": file.bytes,
            "modificationTime": _now(),
            "dataChange": True,
            "stats": file.delta_statistics,
            **_vector(file),
        }
    }


def _remove(file: DataFile) -> Action:
    return {
        "remove": {
            "path": quote(file.path),
            "dataChange": True,
            "deletionTimestamp": _now(),
            "extendedFileMetadata": False,
            "size": file.bytes,
            **_vector(file),
        }
    }


def _vector(file: DataFile) -> dict[str, Any]:
    """The deletion vector of a file, which belongs to its identity."""
    vector = None if file.hidden is None else file.hidden.vector
    return {} if vector is None else {"deletionVector": vector.to_json()}


def _make_checkpoint(folder: str, version: int) -> None:
    """Let deltalake sum up the log in a copy, because it does not sync; then put the result where it belongs."""
    log = deltalog.log_folder(folder)
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, deltalog.FOLDER)
        os.mkdir(copy)
        for name in deltalog.names_needed(folder, version):
            current().read(os.path.join(log, name), lambda path: shutil.copy(path, copy))
        DeltaTable(scratch, version=version).create_checkpoint()
        name = f"{version:020d}.checkpoint.parquet"
        target = os.path.join(log, name)
        unnamed = os.path.join(log, f"{locations.SCRATCH}{name}.{uuid.uuid4().hex}.tmp")
        locations.write(unnamed, lambda path: _copy(os.path.join(copy, name), path))
        locations.sync([unnamed])
        locations.move(unnamed, target)
        with open(os.path.join(copy, _LAST_CHECKPOINT), encoding="utf-8") as file:
            locations.put_text(os.path.join(log, _LAST_CHECKPOINT), file.read(), overwrite=True)


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)


def _now() -> int:
    return int(current().now() * 1000)
