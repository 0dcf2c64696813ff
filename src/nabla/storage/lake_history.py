"""The history of a lake: its commits, and what they say of the objects that they changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nabla.storage import deltalog
from nabla.storage.table import StoredTable


@dataclass(frozen=True)
class Record:
    """A commit of the lake: when (milliseconds since 1970), by what operation, and what it says of what it changed."""

    version: int
    timestamp: int
    operation: str
    transaction: str
    objects: Mapping[str, Mapping[str, Any]]


def records(log: StoredTable, name: str | None, limit: int | None) -> Iterator[Record]:
    """The commits of a lake's log, or those that changed one object, newest first."""
    found = 0
    oldest = deltalog.oldest_version(log.folder)
    for version in (*range(log.latest(), max(oldest - 2, 0), -1), 0):
        if limit is not None and found >= limit:
            return
        said = log.metadata(version)
        if said and (name is None or name in said["objects"]):
            found += 1
            yield Record(version, said["timestamp"], said["operation"], said["transaction"], said["objects"])
