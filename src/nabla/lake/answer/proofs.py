"""What holds in a state of the lake, for matching: keys and references that a constraint enforces or that counted keys show,
and columns without NULLs by the statistics of files. Declarations that nobody enforces prove nothing."""

from __future__ import annotations

from functools import lru_cache

from nabla.answer.facts import Columns, Proofs
from nabla.constraints import foreign_key
from nabla.engine import types
from nabla.lake.objects.sources import table_of
from nabla.lake.objects.view import enforced_key, load_view
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.key_counts import countable, key_counts, subset_of_keys
from nabla.storage.lakelog import LakeLog
from nabla.storage.names import safe
from nabla.storage.table import Snapshot


class _LakeProofs:
    """Proofs in one state; each is made once."""

    def __init__(self, log: LakeLog, state: LakeState) -> None:
        self._log = log
        self._state = state
        self.unique = lru_cache(maxsize=None)(self._unique)
        self.refers = lru_cache(maxsize=None)(self._refers)
        self.has_values = lru_cache(maxsize=None)(self._has_values)

    def _table(self, name: str) -> Entry | None:
        entry = self._state.entries.get(name)
        return entry if entry is not None and entry.kind == "table" else None

    def _unique(self, table: str, fields: Columns) -> bool:
        entry = self._table(table)
        if entry is None:
            return False
        key = enforced_key(self._state, table)
        if key and set(key) <= set(fields):
            return True
        declared = tuple(entry.definition.get("key") or ())
        return len(declared) == 1 and declared[0] in fields and self._counted_once(entry, declared[0])

    def _counted_once(self, entry: Entry, field: str) -> bool:
        """Whether counted keys show that no value occurs twice, and there is no NULL."""
        stored, snapshot = self._stored(entry, field)
        if not countable(snapshot.schema.field(stored).type) or not self.has_values(entry.name, field):
            return False
        counts = key_counts(table_of(self._log, entry), stored, snapshot.version)
        return counts is not None and counts.at_most_once(snapshot.version)

    def _refers(self, table: str, field: str, other: str, its: str) -> bool:
        child, parent = self._table(table), self._table(other)
        if child is None or parent is None:
            return False
        query = foreign_key(table, field, f"{other}.{its}")
        rules = (load_view(e.name, e.definition) for e in self._state.entries.values() if e.kind == "constraint")
        if any(rule.sql == query and rule.on_violation == "reject" for rule in rules):
            return True
        if (child.definition.get("foreign_keys") or {}).get(field, "").casefold() != f"{other}.{its}".casefold():
            return False
        found = []
        for entry, name in ((child, field), (parent, its)):
            stored, snapshot = self._stored(entry, name)
            if not countable(snapshot.schema.field(stored).type):
                return False
            counts = key_counts(table_of(self._log, entry), stored, snapshot.version)
            if counts is None or counts.version != snapshot.version:
                return False
            found.append(counts)
        return subset_of_keys(*found)

    def _has_values(self, table: str, field: str) -> bool:
        entry = self._table(table)
        if entry is None:
            return False
        stored, snapshot = self._stored(entry, field)
        return stored in snapshot.schema.names and all(
            file.nulls.get(stored) == 0 for file in snapshot.files if file.rows
        )

    def _stored(self, entry: Entry, field: str) -> tuple[str, Snapshot]:
        shown = types.from_json(entry.definition["schema"]).names
        stored = dict(zip(shown, safe(shown), strict=True)).get(field, field)
        return stored, table_of(self._log, entry).snapshot(entry.parts["data"].version)


def proofs_in(log: LakeLog, state: LakeState) -> Proofs:
    """What matching may rely on in a state of the lake."""
    own = _LakeProofs(log, state)
    return Proofs(own.unique, own.refers, own.has_values)
