"""Versions as deltalake reads them, in a form that can be compared with those of another reader."""

from __future__ import annotations

import json
from dataclasses import replace

from nabla.storage.delta_reader import DeltaReader
from nabla.storage.files import Snapshot


def ordered(snapshot: Snapshot) -> Snapshot:
    """The files of a version have no order: deltalake begins with the newest, a replay with the oldest. The metadata of a
    column have none in deltalake either."""
    schema = json.dumps(json.loads(snapshot.schema_json), sort_keys=True)
    return replace(snapshot, schema_json=schema, files=tuple(sorted(snapshot.files, key=lambda file: file.path)))


def expected(folder: str, version: int) -> Snapshot:
    return ordered(DeltaReader(folder).snapshot(version, version))
