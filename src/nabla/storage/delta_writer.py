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

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
CAPTURED = "delta.enableChangeDataFeed"
"""The property of a table whose writers keep a change data feed."""
_CHECKPOINT_EVERY = 10
_LAST_CHECKPOINT = "_last_checkpoint"
_ENGINE = "nabla"


def create(
    folder: str,
    schema_json: str,
    adds: Sequence[DataFile],
    metadata: Mapping[str, Any],
    *,
    marks_rows: bool = False,
    captures: bool = False,
) -> None:
    """Make version 0 of a table, whose deleted rows may be marked or not, and which may have a change data feed.
    FileExistsError where there is a table."""
    locations.make_folder(deltalog.log_folder(folder))
    protocol = _protocol(schema_json, marks_rows, captures)
    description = _description(schema_json, {ENABLED: marks_rows, CAPTURED: captures})
    parameters = {"mode": "ErrorIfExists", "location": folder}
    _put(folder, 0, "CREATE TABLE", parameters, metadata, [protocol, description, *map(_add, adds)])


def commit(
    folder: str,
    version: int,
    adds: Iterable[DataFile],
    removes: Iterable[DataFile],
    metadata: Mapping[str, Any],
    schema_json: str = "",
) -> None:
    """Make a version out of the one before it, maybe with another schema. FileExistsError where somebody else made it."""
    moves = not metadata.get(deltalog.REARRANGED)
    operation = "UPDATE SCHEMA" if schema_json else "WRITE" if moves else "OPTIMIZE"
    parameters = {"mode": "Append", "partitionBy": "[]"} if moves else {}
    actions = [*(_add(file, moves) for file in adds), *(_remove(file, moves) for file in removes)]
    actions += map(_capture, metadata.get(deltalog.CAPTURED, ()))
    if schema_json:
        actions = [*_redescribe(folder, version - 1, schema_json), *actions]
    _put(folder, version, operation, parameters, metadata, actions)
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


def _protocol(schema_json: str, marks_rows: bool, captures: bool) -> Action:
    """The protocol that a table needs: timestamps without a zone and marked rows are features that readers must support. A
    feed is one for writers only."""
    zoneless = "timestamp_ntz" in json.dumps(_types(json.loads(schema_json)))
    features = [*([FEATURE] if marks_rows else ()), *(["timestampNtz"] if zoneless else ())]
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4 if captures else 2}}
    listed = {"readerFeatures": features, "writerFeatures": [*features, *(["changeDataFeed"] if captures else ())]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **listed}}


def _redescribe(folder: str, version: int, schema_json: str) -> list[Action]:
    """The description that a version of a table has, with another schema, and the protocol that this needs."""
    handle = DeltaTable(folder, version=version)
    known, protocol = handle.metadata(), handle.protocol()
    described = _description(schema_json, {})["metaData"]
    described |= {"id": known.id, "createdTime": known.created_time, "configuration": dict(known.configuration)}
    needed = _protocol(
        schema_json, FEATURE in (protocol.reader_features or ()), known.configuration.get(CAPTURED) == "true"
    )
    if needed["protocol"]["minReaderVersion"] <= protocol.min_reader_version and set(
        needed["protocol"].get("readerFeatures", ())
    ) <= set(protocol.reader_features or ()):
        return [{"metaData": described}]
    return [needed, {"metaData": described}]


def _types(kind: Any) -> Any:
    """A type without the names of its fields and what is said of them."""
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind:
        return [_types(field["type"]) for field in kind["fields"]]
    return [_types(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind]


def _description(schema_json: str, properties: Mapping[str, bool]) -> Action:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "name": None,
            "description": None,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json,
            "partitionColumns": [],
            "createdTime": _now(),
            "configuration": {**CONFIGURATION, **{name: "true" for name, is_set in properties.items() if is_set}},
        }
    }


def _add(file: DataFile, data_change: bool = True) -> Action:
    return {
        "add": {
            "path": quote(file.path),
            "partitionValues": {},
            "size": file.bytes,
            "modificationTime": _now(),
            "dataChange": data_change,
            "stats": file.delta_statistics,
            **_vector(file),
        }
    }


def _remove(file: DataFile, data_change: bool) -> Action:
    return {
        "remove": {
            "path": quote(file.path),
            "dataChange": data_change,
            "deletionTimestamp": _now(),
            "extendedFileMetadata": False,
            "size": file.bytes,
            **_vector(file),
        }
    }


def _capture(file: Mapping[str, Any]) -> Action:
    return {"cdc": {"path": quote(file["path"]), "partitionValues": {}, "size": file["bytes"], "dataChange": False}}


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
        kept = _without_tombstones(os.path.join(copy, name))
        locations.write(unnamed, lambda path: pq.write_table(kept, path, compression="snappy"))
        locations.sync([unnamed])
        locations.move(unnamed, target)
        last = json.dumps({"version": version, "size": kept.num_rows})
        locations.put_text(os.path.join(log, _LAST_CHECKPOINT), last, overwrite=True)


def _without_tombstones(path: str) -> pa.Table:
    """The actions of a checkpoint but for those of removed files. These are for the vacuums of others, which have no business
    in a lake, and a table that lives long has more of them than files."""
    actions = pq.read_table(path, partitioning=None)
    return actions.filter(pc.is_null(actions["remove"])) if "remove" in actions.column_names else actions


def _now() -> int:
    return int(current().now() * 1000)
