"""A table that others write, as the lake has registered it: with the columns that it had by then, as long as it has them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from nabla.errors import NablaError
from nabla.storage import deltalog, schemas
from nabla.storage.table import Snapshot, StoredTable


class RegisteredTable(StoredTable):
    """The versions of a table of others. A column that they have added since is left out; NABLA_SCHEMA_CHANGED where one is
    gone or has another type, NABLA_AWAY where the table cannot be found."""

    def __init__(self, table: StoredTable, name: str, schema_json: str) -> None:
        super().__init__(table.folder)
        self._table = table
        self._name = name
        self._schema_json = schema_json

    def latest(self) -> int:
        with self._found():
            return self._table.latest()

    def identity(self, version: int) -> Hashable:
        """The number of a version and the commit that made it: another table may be made in the same folder."""
        return (version, self.fingerprint(version))

    def forget(self) -> None:
        self._table.forget()

    def snapshot(self, version: int | None = None) -> Snapshot:
        with self._found():
            return self._narrow(self._table.snapshot(version))

    def listed(self, version: int | None = None) -> Snapshot:
        with self._found():
            return self._narrow(self._table.listed(version))

    def was_replaced(self, version: int, fingerprint: str) -> bool:
        """Whether the table is not the one any more whose version had this fingerprint: it was created again, or put back to
        an older version without a trace. Of a version whose log was cleaned up nobody can tell."""
        if version > self.latest():
            return True
        return deltalog.fingerprint(self.folder, version) not in (None, fingerprint)

    def fingerprint(self, version: int) -> str | None:
        return deltalog.fingerprint(self.folder, version)

    def _narrow(self, snapshot: Snapshot) -> Snapshot:
        """A version with the registered columns only; one that is older than a column has NULLs there. Files are read by the
        names of columns, so nothing else changes."""
        if snapshot.schema_json == self._schema_json:
            return snapshot
        present = {field["name"]: field for field in json.loads(snapshot.schema_json)["fields"]}
        registered = {field["name"]: field for field in json.loads(self._schema_json)["fields"]}
        lost = [name for name in registered if name not in present]
        fields = [present.get(name, field) for name, field in registered.items()]
        narrow = json.dumps({"type": "struct", "fields": fields})
        if (lost and snapshot.version == self._table.latest()) or not schemas.same_shape(narrow, self._schema_json):
            raise _schema_changed(self._name, lost)
        return replace(snapshot, schema_json=narrow, stored={n: snapshot.stored.get(n, n) for n in registered})

    @contextmanager
    def _found(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _away(self._name, self.folder, str(error)) from error
        except NablaError as error:
            if error.code != "NABLA_NOT_DELTA":
                raise
            raise _away(self._name, self.folder, "there is no Delta table in its folder") from error


def _away(name: str, folder: str, why: str) -> NablaError:
    return NablaError(
        "NABLA_AWAY",
        f'the registered table "{name}" is away: {why}',
        place=folder,
        remedy="Bring it back, or drop what reads it and then the table. Other tables and views are not concerned.",
    )


def _schema_changed(name: str, lost: list[str]) -> NablaError:
    what = f"have lost {', '.join(lost)}" if lost else "have other types"
    return NablaError(
        "NABLA_SCHEMA_CHANGED",
        f'the columns of "{name}" {what} since it was registered',
        place=f'table "{name}"',
        remedy="Drop the views that read it and the table, register it again, and create the views again.",
    )
