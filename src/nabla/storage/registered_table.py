"""A table that others write, as the lake has registered it: with the columns that it had by then, as long as it has them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nabla.errors import NablaError
from nabla.storage import deltalog, schemas
from nabla.storage.altered_table import absent
from nabla.storage.files import with_names
from nabla.storage.table import Snapshot, StoredTable


@dataclass(frozen=True)
class RegisteredColumns:
    """The columns of a table of others as the lake knows them. Those that are `lost` were dropped, or got another type, and
    are kept for views that read them and wait; with `shows_lost` they are NULL, else it is an error to read the table. Those
    that are `replaced` had another type once: their older values are NULL, since nobody can read them any more."""

    schema_json: str
    lost: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    shows_lost: bool = False


class RegisteredTable(StoredTable):
    """The versions of a table of others. A column that they have added since is left out, and one that they have renamed by
    Delta's column mapping is found; NABLA_SCHEMA_CHANGED where one is gone or has another type, NABLA_AWAY where the table
    cannot be found."""

    def __init__(self, table: StoredTable, name: str, columns: RegisteredColumns) -> None:
        super().__init__(table.folder)
        self._table = table
        self._name = name
        self._columns = columns

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
        """A version with the registered columns only; one that is older than a column has NULLs there. Columns are found by
        their names in the files, which a column mapping keeps."""
        known = self._columns
        if snapshot.schema_json == known.schema_json:
            return snapshot
        newest = snapshot.version == self._table.latest()
        present = {schemas.physical_name(field): field for field in json.loads(snapshot.schema_json)["fields"]}
        fields, stays, stored, lost = [], {}, {}, []
        for field in json.loads(known.schema_json)["fields"]:
            name, found = field["name"], present.get(schemas.physical_name(field))
            alike = found is not None and schemas.same_type(found["type"], field["type"])
            if found is not None and (alike or not (newest or name in known.replaced)):
                stays[found["name"]] = name
                stored[name] = snapshot.stored[found["name"]]
                fields.append({**found, "name": name, "type": found["type"] if alike else field["type"]})
                continue
            if newest and not (known.shows_lost and name in known.lost):
                lost.append((name, found is None))
            fields.append(field)
            stored[name] = absent(name)
        if lost:
            raise _schema_changed(self._name, lost)
        return with_names(snapshot, json.dumps({"type": "struct", "fields": fields}), stays, stored)

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


def _schema_changed(name: str, lost: list[tuple[str, bool]]) -> NablaError:
    gone, other = ([column for column, is_gone in lost if is_gone is wanted] for wanted in (True, False))
    words = [
        f"have lost {', '.join(gone)}" if gone else "",
        f"have another type in {', '.join(other)}" if other else "",
    ]
    return NablaError(
        "NABLA_SCHEMA_CHANGED",
        f'the columns of "{name}" {" and ".join(filter(None, words))} since it was registered',
        place=f'table "{name}"',
        remedy="Alter or drop the views that read these columns, and refresh: the table is then as it is now.",
    )
