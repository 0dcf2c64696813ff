"""A table with a commit on top that nobody has made yet: its files are written, and the log does not know of them.

So the outcome of a transaction can be read like any other version, before it is decided whether to commit it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nabla._cached import cached_property
from nabla.storage import locations
from nabla.storage.catalog import Pending
from nabla.storage.deltalog import REARRANGED, Commit
from nabla.storage.files import with_schema
from nabla.storage.table import Snapshot, StoredTable


class PreparedTable(StoredTable):
    """The versions of a table, and after them the one that a promised commit would make."""

    def __init__(self, table: StoredTable, version: int, pending: Pending) -> None:
        super().__init__(table.folder, closed=table.closed)
        self._table = table
        self._version = version
        self._pending = pending

    def latest(self) -> int:
        return self._version

    def snapshot(self, version: int | None = None) -> Snapshot:
        return self._prepared if version in (None, self._version) else self._table.snapshot(version)

    def listed(self, version: int | None = None) -> Snapshot:
        return self._prepared if version in (None, self._version) else self._table.listed(version)

    @cached_property
    def _prepared(self) -> Snapshot:
        before = self._table.snapshot(self._version - 1)
        gone = {file.path for file in self._pending.removes}
        files = (*(file for file in before.files if file.path not in gone), *self._pending.adds)
        after = replace(before, version=self._version, files=files)
        return with_schema(after, self._pending.schema) if self._pending.schema else after

    def metadata(self, version: int) -> Mapping[str, Any]:
        return self._pending.metadata if version == self._version else self._table.metadata(version)

    def timestamp(self, version: int) -> int:
        """The time of the newest file for a promised version, because it has no time of its own yet."""
        if version != self._version:
            return self._table.timestamp(version)
        times = [locations.modified(os.path.join(self.folder, file.path)) for file in self._pending.adds]
        return int(max(times) * 1000) if times else self._table.timestamp(version - 1)

    def commits(self, after: int, upto: int) -> Iterator[Commit | None]:
        yield from self._table.commits(after, min(upto, self._version - 1))
        if after < self._version <= upto:
            adds = tuple(file.path for file in self._pending.adds)
            moves = not self._pending.metadata.get(REARRANGED)
            yield Commit(self._version, 0, "", self._pending.metadata, adds, data_change=moves)

    def identity(self, version: int) -> Hashable:
        """The number and the files of a promised version, because another transaction may make a version of the same number."""
        if version != self._version:
            return version
        moved = (*self._pending.adds, *self._pending.removes)
        return (version, self._pending.schema, *((file.path, file.hidden) for file in moved))

    def is_made(self, version: int) -> bool:
        return version != self._version
