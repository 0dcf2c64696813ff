"""What a commit of a lake consists of: the file with its catalog, what it says of itself, and the files that it names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from nabla.storage import files, locations
from nabla.storage.catalog import Entry, Part, format_of, to_table
from nabla.storage.changes import KEY
from nabla.storage.deltalog import CAPTURED
from nabla.storage.machine import current
from nabla.storage.uncommitted import note

_LARGE = 1 << 16
"""Bytes of a catalog above which the better compression is worth its time."""


def named_files(part: Part) -> list[str]:
    """The files that a promised commit names, recorded changes and deletion vectors among them."""
    if part.pending is None:
        return []
    beside = named_beside(part.pending.metadata)
    return list(dict.fromkeys((*(path for file in part.pending.adds for path in file.paths), *beside)))


def named_beside(metadata: Mapping[str, Any]) -> list[str]:
    """The files that the metadata of a commit names beside those of the table: recorded changes, and those of the feed."""
    return [file["path"] for key in (KEY, CAPTURED) for file in metadata.get(key, ())]


def write_catalog(folder: str, entries: Mapping[str, Entry]) -> files.DataFile:
    path = f"{uuid.uuid4().hex}.parquet"
    locations.make_folder(folder)
    table = to_table(entries)
    whole = os.path.join(folder, path)
    note(whole)
    compression = "zstd" if table.nbytes > _LARGE else "snappy"
    locations.write_parquet(table, whole, compression=compression, use_dictionary=False, write_statistics=False)
    return files.DataFile(path, table.num_rows, locations.size(whole))


def metadata_of_commit(
    operation: str, transaction: str, objects: Mapping[str, Mapping[str, Any]], cutoff: float | None = None
) -> dict[str, Any]:
    return {
        "format": format_of({}),
        "operation": operation,
        "transaction": transaction,
        "timestamp": int(current().now() * 1000),
        "objects": dict(objects),
        **({} if cutoff is None else {"cutoff": cutoff}),
    }


def new_transaction() -> str:
    """A name for a commit that no other has."""
    return uuid.uuid4().hex
