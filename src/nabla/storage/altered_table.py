"""A table of the lake whose schema was changed: its older versions with the columns that it has now."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from nabla.storage.catalog import ERAS
from nabla.storage.deltalog import Commit
from nabla.storage.files import with_names
from nabla.storage.statistics import Value, decode, encode
from nabla.storage.table import Snapshot, StoredTable

ADDED = "nabla.added"
"""The metadata of a column that older files of its table may not have. It is NULL there."""


@dataclass(frozen=True)
class Era:
    """The columns of an object before its schema was changed: the new ones came with the version `since`. `names` are those
    that users saw, `stored` those of the Delta table. `origin` has, by their new names, the old name of each column that
    stayed, and `defaults` the values that all rows got in columns that were added."""

    since: int
    names: tuple[str, ...]
    stored: tuple[str, ...]
    origin: Mapping[str, str]
    defaults: Mapping[str, Value]

    def to_json(self) -> dict[str, Any]:
        return {
            "since": self.since,
            "names": list(self.names),
            "stored": list(self.stored),
            "origin": dict(self.origin),
            "defaults": {name: encode(value) for name, value in self.defaults.items()},
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        return cls(
            json["since"],
            tuple(json["names"]),
            tuple(json["stored"]),
            json["origin"],
            {name: decode(value) for name, value in json["defaults"].items()},
        )


def eras_of(definition: Mapping[str, Any]) -> tuple[Era, ...]:
    """The eras of an object that are over, oldest first."""
    return tuple(map(Era.from_json, definition.get(ERAS, ())))


def eras_after(definition: Mapping[str, Any], version: int) -> tuple[Era, ...]:
    """The changes of the schema that a version of an object does not have yet, oldest first."""
    return tuple(era for era in eras_of(definition) if era.since > version)


def marked_as_added(schema_json: str, names: Sequence[str]) -> str:
    """The schema with a mark at columns that older files may not have."""
    schema = json.loads(schema_json)
    for field in schema["fields"]:
        if field["name"] in names:
            field["metadata"] = {**(field.get("metadata") or {}), ADDED: True}
    return json.dumps(schema)


def added_columns(schema_json: str) -> frozenset[str]:
    """The columns that older files of a table may not have."""
    if ADDED not in schema_json:
        return frozenset()
    return frozenset(f["name"] for f in json.loads(schema_json)["fields"] if ADDED in (f.get("metadata") or {}))


def absent(name: str) -> str:
    """A name that no file has, for a column that is NULL in a version."""
    return f"{name} was not there"


class AlteredTable(StoredTable):
    """The versions of a table, all with the newest columns: those that a version does not have are NULL."""

    def __init__(self, table: StoredTable, eras: Sequence[Era], names: Sequence[str], stored: Sequence[str]) -> None:
        super().__init__(table.folder, closed=table.closed)
        self._table = table
        self._eras = tuple(eras)
        self._names = tuple(names)
        self._stored_names = tuple(stored)
        self.schema_since = self._eras[-1].since

    def latest(self) -> int:
        return self._table.latest()

    def snapshot(self, version: int | None = None) -> Snapshot:
        return self._widen(self._table.snapshot(version))

    def listed(self, version: int | None = None) -> Snapshot:
        return self._widen(self._table.listed(version))

    def _widen(self, snapshot: Snapshot) -> Snapshot:
        missed = [era for era in self._eras if era.since > snapshot.version]
        if not missed:
            return snapshot
        then, stored, stays = dict(zip(missed[0].names, missed[0].stored, strict=True)), {}, {}
        for name, new in zip(self._names, self._stored_names, strict=True):
            old: str | None = name
            for era in reversed(missed):
                old = era.origin.get(old) if old is not None else None
            stored[new] = absent(new) if old is None else snapshot.stored[then[old]]
            if old is not None:
                stays[then[old]] = new
        return with_names(snapshot, self._newest_schema(self._table.listed()), stays, stored)

    def _newest_schema(self, newest: Snapshot) -> str:
        """The newest schema, of which older files may lack anything."""
        return marked_as_added(newest.schema_json, self._stored_names)

    def expect(self, version: int, rows: int) -> None:
        self._table.expect(version, rows)

    def metadata(self, version: int) -> Mapping[str, Any]:
        return self._table.metadata(version)

    def commits(self, after: int, upto: int) -> Iterator[Commit | None]:
        return self._table.commits(after, upto)

    def identity(self, version: int) -> Hashable:
        return self._table.identity(version)

    def is_made(self, version: int) -> bool:
        return self._table.is_made(version)

    def timestamp(self, version: int) -> int:
        return self._table.timestamp(version)
