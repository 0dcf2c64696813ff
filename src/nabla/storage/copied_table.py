"""The lake's copy of a table of others: its rows, and beside each the number of the piece that it came from.

A piece is a part of the source that changes only as a whole, such as a file. The number is for Nabla alone: whoever reads the
copy sees the columns of the source.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nabla.storage.deltalog import Commit
from nabla.storage.table import Snapshot, StoredTable

PIECE = "_nabla_piece"
"""The column of a copy that says from which piece of the source a row came."""
PIECES = "pieces"
"""The part of an object that lists the pieces its copy was made from."""


class CopiedTable(StoredTable):
    """The versions of a copy without the numbers of pieces."""

    def __init__(self, table: StoredTable) -> None:
        super().__init__(table.folder, closed=table.closed)
        self._table = table

    def latest(self) -> int:
        return self._table.latest()

    def snapshot(self, version: int | None = None) -> Snapshot:
        return without_pieces(self._table.snapshot(version))

    def listed(self, version: int | None = None) -> Snapshot:
        return without_pieces(self._table.listed(version))

    def metadata(self, version: int) -> Mapping[str, Any]:
        return self._table.metadata(version)

    def timestamp(self, version: int) -> int:
        return self._table.timestamp(version)

    def commits(self, after: int, upto: int) -> Iterator[Commit | None]:
        return self._table.commits(after, upto)

    def identity(self, version: int) -> Hashable:
        return self._table.identity(version)

    def is_made(self, version: int) -> bool:
        return self._table.is_made(version)


def without_pieces(snapshot: Snapshot) -> Snapshot:
    """A version of a copy as its readers see it. Files are read by the names of columns, so only the schema differs."""
    schema = json.loads(snapshot.schema_json)
    shown = [field for field in schema["fields"] if field["name"] != PIECE]
    stored = {name: physical for name, physical in snapshot.stored.items() if name != PIECE}
    return replace(snapshot, schema_json=json.dumps({**schema, "fields": shown}), stored=stored)
