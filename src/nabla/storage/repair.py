"""Repairs of a damaged lake, from what its own catalogs say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from nabla._cached import cached_property
from nabla.errors import NablaError
from nabla.storage import delta_writer, deltalog, locations, reading
from nabla.storage.catalog import SCHEMA, Entry, Part, Pending, format_of, from_table
from nabla.storage.files import DataFile
from nabla.storage.lakelog import LakeLog
from nabla.storage.machine import current
from nabla.storage.table import StoredTable

ASIDE = "damaged-"
"""The beginning of the names of files that were taken out of a log."""


@dataclass(frozen=True)
class Evidence:
    """The catalog of a lake commit whose own file is damaged, and the transaction that it is known by."""

    file: DataFile
    entries: Mapping[str, Entry]
    transaction: str


class Repairs:
    """Finds the content of damaged commits in the catalogs of a lake, and makes these commits again."""

    def __init__(self, lake: LakeLog, log: StoredTable) -> None:
        self._lake = lake
        self._log = log

    def promise(self, path: str, version: int) -> tuple[Pending, int] | None:
        """The commit that a catalog promised for a version of a table, and the version of the lake that has the catalog."""
        return self._promises.get((path, version))

    def remake_commit(self, path: str, version: int) -> None:
        """Make the commit of a table again."""
        pending, lake_version = self._promises[path, version]
        folder = self._lake.folder(path)
        place = deltalog.commit_path(folder, version)
        if locations.exists(place):
            set_aside(place)
        metadata = {**pending.metadata, "transaction": pending.transaction, "lake_version": lake_version}
        delta_writer.commit(folder, version, pending.adds, pending.removes, metadata, pending.schema)

    def evidence(self, version: int) -> Evidence | None:
        """The catalog that belongs to a damaged version of the lake. Only one that a table's commit refers to is believed:
        others may be those of commits that were never made."""
        named = {name for v in range(version) for name in self._catalogs(v)}
        for name in sorted(set(locations.names(self._log.folder)) - named):
            with suppress(NablaError, pa.ArrowException, KeyError):
                whole = os.path.join(self._log.folder, name)
                if not name.endswith(".parquet"):
                    continue
                table = locations.read_parquet(whole)
                entries = from_table(reading.conform(table, SCHEMA), self._lake.path)
                parts = [part for entry in entries.values() for part in entry.parts.values()]
                if (transaction := self._confirmed(parts, version)) is not None:
                    return Evidence(DataFile(name, table.num_rows, locations.size(whole)), entries, transaction)
        return None

    def remake_lake_commit(self, version: int) -> None:
        """Make the newest commit of the lake again, from its catalog."""
        found = self.evidence(version)
        assert found is not None
        set_aside(deltalog.commit_path(self._log.folder, version))
        before = self._lake.recorded(version - 1)
        changed = [name for name, entry in found.entries.items() if entry != before.settled.everything.get(name)]
        metadata = {
            "format": format_of(found.entries),
            "operation": "repair",
            "transaction": found.transaction,
            "timestamp": int(current().now() * 1000),
            "objects": {name: {} for name in changed},
        }
        delta_writer.commit(self._log.folder, version, [found.file], [before.file], metadata)

    def is_lost(self, folder: str, version: int, lake_version: int) -> bool:
        """Whether a commit of a table belongs to a commit of the lake that is not there (any more)."""
        try:
            said = deltalog.read_metadata(folder, version).get("lake_version")
        except NablaError:
            return True  # it has no content at all
        return isinstance(said, int) and said > lake_version

    def drop_commits(self, folder: str, first: int) -> None:
        """Take a commit and all after it out of the log of a table, newest first."""
        for name in sorted(deltalog.names_from(folder, first), reverse=True):
            set_aside(os.path.join(deltalog.log_folder(folder), name))

    def _catalogs(self, version: int) -> tuple[str, ...]:
        try:
            commit = deltalog.read_commit(self._log.folder, version)
        except NablaError:
            return ()
        return commit.adds if commit is not None else ()

    def _confirmed(self, parts: list[Part], version: int) -> str | None:
        for part in parts:
            if part.pending is not None and not locations.is_absolute(part.path):
                with suppress(NablaError):
                    said = deltalog.read_metadata(self._lake.folder(part), part.version)
                    if (said.get("transaction"), said.get("lake_version")) == (part.pending.transaction, version):
                        return part.pending.transaction
        return None

    @cached_property
    def _promises(self) -> dict[tuple[str, int], tuple[Pending, int]]:
        found: dict[tuple[str, int], tuple[Pending, int]] = {}
        for version in range(self._log.latest() + 1):
            with suppress(NablaError):  # vacuumed, or damaged as well
                for entry in self._lake.recorded(version).everything.values():
                    for part in entry.parts.values():
                        if part.pending is not None:
                            found.setdefault((part.path, part.version), (part.pending, version))
        return found


def set_aside(path: str) -> None:
    """Give a file of a log another name, under which nobody looks for it."""
    folder, name = os.path.split(path)
    locations.move(path, os.path.join(folder, f"{ASIDE}{name}"))
    locations.sync_folder(folder)
