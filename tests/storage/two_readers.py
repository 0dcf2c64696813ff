"""Versions as deltalake reads them, in a form that can be compared with those of another reader."""

from __future__ import annotations

import json
from dataclasses import replace

from nabla.storage.deletion_vectors import Hidden
from nabla.storage.delta_reader import DeltaReader
from nabla.storage.files import DataFile, Snapshot


def ordered(snapshot: Snapshot) -> Snapshot:
    """The files of a version have no order: deltalake begins with the newest, a replay with the oldest. The metadata of a
    column have none in deltalake either. It gives hidden rows as such, and no counts of NULLs beside them."""
    schema = json.dumps(json.loads(snapshot.schema_json), sort_keys=True)
    files = sorted((_shown(snapshot.folder, file) for file in snapshot.files), key=lambda file: file.path)
    return replace(snapshot, schema_json=schema, files=tuple(files))


def _shown(folder: str, file: DataFile) -> DataFile:
    if file.hidden is None:
        return file
    return replace(file, nulls={}, hidden=Hidden(file.written, bitmap=file.hidden.marked(folder)))


def expected(folder: str, version: int) -> Snapshot:
    return ordered(DeltaReader(folder).snapshot(version, version))
