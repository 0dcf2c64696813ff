"""The catalog of a lake at a version: its objects and the versions of their tables."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa

from nabla.errors import Conflict
from nabla.storage import boundary
from nabla.storage.deltalog import corrupt
from nabla.storage.files import DataFile

FORMAT = 6
"""The newest format that this module writes. A lake with a higher one was made by a newer Nabla."""
AHEAD = "ahead"
"""The key of a definition under which a view says that its change may be computed before it is refreshed. Its facts have
the change under the same key, and its parts the tables of it under names that begin with it."""
MARKS_ROWS = "deletion_vectors"
"""The key of a definition under which a table or view says that its deleted rows are marked by deletion vectors."""
CLUSTER_BY = "cluster_by"
"""The key of a definition under which a table names the columns that rows of DataFrames are sorted by."""
DELTA_FEED = "delta_feed"
"""The key of a definition under which a table or view says that its commits keep Delta's change data feed."""
SAME_AS = "same_as"
"""The fact of an object whose newest versions only have its rows in other files: the first version with these rows, and the
last one. It says nothing of later versions."""
STREAMS = "streams"
"""The fact of a table that streams are loaded into: for each stream by name its generation and the last batch that the table
has."""
FEED_FROM = "feed_from"
"""The fact of a view whose feed was shortened: the feed has all changes after this version of the view, and no earlier ones."""
RELIES_ON = "relies_on"
"""The enforced keys, by table, by which a view reads the rows of its sources from its own."""
AS_SET = "as_set"
"""Set in the definition of a constraint whose recursion carries every row on once."""
ORIGIN = "origin"
"""The key of a definition under which a table has the source that it is a copy of: nobody else may write to it. Its facts say
under the same key where the source stood."""
LISTED = "listed"
"""The key of a definition under which a Delta table of others has its name in a catalog."""
HISTORIES = "histories"
"""The fact of a view with the fingerprints of the commits that made the versions of others' tables which it reflects."""
ERAS = "eras"
"""The key of a definition under which an object says how its columns were called before each change of its schema."""
FOLLOW = "follow"
"""Set in the definition of a view whose text is read anew when its tables get other columns."""
REDEFINED = "redefined"
"""The key of a definition under which a view has the first of its versions that its present query gave."""
LOST_COLUMNS = "lost_columns"
"""The key of a definition under which a registered table has the columns that are gone, and that views read."""
REPLACED_COLUMNS = "replaced_columns"
"""The key of a definition under which a registered table has the columns that had a type which does not fit the new one."""
DENIED = "denied"
"""The key of a definition under which a constraint has the rules of the denial that it was made from."""

ENVIRONMENT = "environment"
"""The kind of the entry that an environment has itself, under its name and a slash. Its objects have names as `dev/revenue`."""
PATHS = "paths"
"""The fact of an object in an environment that has the paths of the tables that it was computed from, by their names."""
GONE = "gone"
"""The kind of an entry of an environment that says that it lacks an object of the lake."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of objects are identifiers: they are shown in terminals and written into queries."""

SCHEMA = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("name", "kind", "definition", "parts", "facts")]
)


@dataclass(frozen=True)
class Pending:
    """The Delta commit that a lake commit has promised to make on a table: what to add, what to remove, what to say.

    `transaction` names the lake commit; the Delta commit carries it, so that whoever finds the promise knows whether it
    was kept. `schema` is the schema that the table gets by it, as JSON, if it gets another one.
    """

    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    transaction: str = ""
    schema: str = ""

    def to_json(self) -> dict[str, Any]:
        altered = {"schema": self.schema} if self.schema else {}
        return {
            "adds": [file.to_json() for file in self.adds],
            "removes": [file.named() for file in self.removes],
            "metadata": dict(self.metadata),
            "transaction": self.transaction,
            **altered,
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        return cls(
            adds=tuple(map(DataFile.from_json, json["adds"])),
            removes=tuple(map(DataFile.from_json, json["removes"])),
            metadata=json["metadata"],
            transaction=json["transaction"],
            schema=json.get("schema", ""),
        )


@dataclass(frozen=True)
class Part:
    """A Delta table that belongs to an object, at the version that counts.

    `path` is relative to the lake's folder, or absolute for a table that the lake only reads. With `pending`, `version`
    is the one that the promised commit makes.
    """

    path: str
    version: int
    pending: Pending | None = None

    def advanced(
        self,
        adds: Sequence[DataFile] = (),
        removes: Sequence[DataFile] = (),
        metadata: Mapping[str, Any] | None = None,
        schema: str = "",
    ) -> Part:
        """This part one version later, with the commit that makes it."""
        pending = Pending(tuple(adds), tuple(removes), metadata or {}, schema=schema)
        return Part(self.path, self.version + 1, pending)

    @property
    def settled(self) -> Part:
        """This part once its promise has been kept."""
        return self if self.pending is None else replace(self, pending=None)

    def to_json(self) -> dict[str, Any]:
        pending = None if self.pending is None else self.pending.to_json()
        return {"path": self.path, "version": self.version, "pending": pending}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        pending = None if json["pending"] is None else Pending.from_json(json["pending"])
        return cls(json["path"], json["version"], pending)


@dataclass(frozen=True)
class Entry:
    """An object of the lake. `kind` is "table", "view" or "registered".

    `definition` and `facts` are JSON that others understand: a definition is large and stays, facts are small and may
    change with every commit.
    """

    name: str
    kind: str
    definition: Mapping[str, Any]
    parts: Mapping[str, Part]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settled(self) -> Entry:
        """This entry once all promises have been kept."""
        return replace(self, parts={name: part.settled for name, part in self.parts.items()})

    @property
    def without_ahead(self) -> Entry:
        """This entry without a change that was computed ahead."""
        if AHEAD not in self.facts and AHEAD not in self.parts:
            return self
        parts = {name: part for name, part in self.parts.items() if name.split(".")[0] != AHEAD}
        return replace(self, parts=parts, facts={fact: value for fact, value in self.facts.items() if fact != AHEAD})

    def content_version(self, version: int) -> int:
        """The first version of this object that has the rows of a version, as far as is known."""
        first, last = self.facts.get(SAME_AS, (version, version))
        return int(first) if first <= version <= last else version

    def promised(self, transaction: str) -> Entry:
        """This entry with its promises made in the name of a transaction."""
        return replace(self, parts={name: _signed(part, transaction) for name, part in self.parts.items()})


@dataclass(frozen=True)
class LakeState:
    """A version of the lake. `file` is where its content is stored. `environments` are the entries of all environments, under
    names as `dev/revenue`. A state as an environment shows it has the lake's own `beneath`."""

    version: int
    entries: Mapping[str, Entry]
    file: DataFile
    environments: Mapping[str, Entry] = field(default_factory=dict)
    beneath: LakeState | None = None

    @property
    def everything(self) -> dict[str, Entry]:
        """All entries, those of environments among them."""
        return {**self.entries, **self.environments}

    def with_entries(self, entries: Mapping[str, Entry]) -> LakeState:
        """This state with other entries, those of environments among them."""
        own = {name: entry for name, entry in entries.items() if not is_in_environment(name)}
        return replace(self, entries=own, environments={n: e for n, e in entries.items() if n not in own})

    @property
    def settled(self) -> LakeState:
        """This state once all promises have been kept: how callers see it."""
        return self.with_entries({name: entry.settled for name, entry in self.everything.items()})

    def changed(self, changes: Mapping[str, Entry | None]) -> dict[str, Entry]:
        """The entries after some were put or (None) taken away."""
        kept = {name: entry for name, entry in self.entries.items() if name not in changes}
        return kept | {name: entry for name, entry in changes.items() if entry is not None}

    def check_unchanged(self, expected: LakeState, changes: Collection[str], reads: Collection[str] = ()) -> None:
        """Conflict where an object is another here than in the state that a commit expects: one that the commit changes in any
        way, one that it only reads in its content."""
        if expected.version == self.version:
            return
        for name in sorted({*changes, *reads}):
            alike = expected.find(name) == self.find(name)
            if not alike and (name in changes or not self.has_same_content(expected, name)):
                raise Conflict(
                    "NABLA_CONFLICT", f'"{name}" was changed in the meantime', remedy="Repeat the operation."
                )

    def find(self, name: str) -> Entry | None:
        """The entry of this name, which may be that of an object in an environment."""
        return (self.environments if is_in_environment(name) else self.entries).get(name)

    def has_same_content(self, other: LakeState, name: str) -> bool:
        """Whether an object is the same in another state, or was only compacted in between."""
        return self._content(name) == other._content(name)

    def _content(self, name: str) -> object:
        entry = self.find(name)
        if entry is None or "data" not in entry.parts:
            return entry
        facts = {fact: value for fact, value in entry.facts.items() if fact not in (SAME_AS, AHEAD)}
        if "sources" in facts:
            there = self.entries
            facts["sources"] = {
                s: there[s].content_version(v) if s in there else v for s, v in facts["sources"].items()
            }
        data = entry.parts["data"]
        return entry.kind, entry.definition, data.path, entry.content_version(data.version), facts


def is_in_environment(name: str) -> bool:
    """Whether the name of an entry is that of an object in an environment, or of an environment."""
    return "/" in name


def format_of(entries: Mapping[str, Entry]) -> int:
    """The oldest format that has all of a catalog. A Nabla that knows no deletion vectors would break tables that have some,
    one that knows no schedules of single sources would not let a view follow them, one that knows no denials would check
    none, one that knows no recursion of sets could not load it, one that does not know that a view relies on a key would let
    the key be dropped, and one that does not know that a feed was shortened would take what is left for all changes. One that
    knows no change data feed would leave changes out of it, and one that knows no eras would take an older version's columns
    for those of the newest. One that knows no environments would take the names of their objects for damage, and
    one that knows no sources would let users write to a copy."""
    return max((6 if is_in_environment(name) else _format_of(entry) for name, entry in entries.items()), default=1)


def _format_of(entry: Entry) -> int:
    definition = entry.definition
    if definition.get(ERAS) or definition.get(ORIGIN):
        return 6
    if definition.get(DELTA_FEED) or FEED_FROM in entry.facts:
        return 5
    if definition.get(RELIES_ON) or definition.get(AS_SET):
        return 4
    if definition.get(AHEAD) or definition.get(DENIED) or not isinstance(definition.get("maintain", ""), str):
        return 3
    return 2 if definition.get(MARKS_ROWS) else 1


def to_table(entries: Mapping[str, Entry]) -> pa.Table:
    """The entries as the lake log stores them, a row each."""
    rows = [
        {
            "name": name,
            "kind": entry.kind,
            "definition": _definition_text(entry),
            "parts": json.dumps({name: part.to_json() for name, part in entry.parts.items()}),
            "facts": json.dumps(entry.facts),
        }
        for name, entry in entries.items()
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def from_table(table: pa.Table, place: str) -> dict[str, Entry]:
    """The inverse of `to_table`. NABLA_CORRUPT where the rows are not what it writes, and NABLA_OUTSIDE where they call a
    table that lies elsewhere the lake's own: whoever opens the lake would write to it."""
    try:
        entries = {row["name"]: _entry(row) for row in table.to_pylist()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise corrupt(place, f"the lake's catalog cannot be understood: {error!r}") from error
    for name, entry in entries.items():
        parts = [part for part in name.split("/") if part or entry.kind != ENVIRONMENT]
        misplaced = entry.kind in (ENVIRONMENT, GONE) and not is_in_environment(name)
        if misplaced or len(parts) > 2 or not all(map(_NAME.fullmatch, parts)):
            raise corrupt(place, f"{name!r} cannot be a name")
        _check_places(entry, place)
    return entries


def _check_places(entry: Entry, lake: str) -> None:
    """Refuse tables outside of the lake's folder, unless they are registered: a lake writes to its own ones."""
    for part in entry.parts.values():
        if entry.kind != "registered" or part.pending is not None:
            boundary.check_path(part.path, lake, f"{entry.kind} {entry.name!r}")
            added = part.pending.adds if part.pending else ()
            boundary.check_files((path for file in added for path in file.paths), lake)


def _entry(row: Mapping[str, str]) -> Entry:
    parts = {name: Part.from_json(part) for name, part in json.loads(row["parts"]).items()}
    return Entry(
        row["name"].rpartition("/")[2], row["kind"], _parsed(row["definition"]), parts, json.loads(row["facts"])
    )


_MOST_TEXTS = 1024
_TEXTS: dict[int, tuple[Mapping[str, Any], str]] = {}
"""The text of each definition at hand, by identity: turning dozens of plans into JSON would dominate a small commit."""


@lru_cache(maxsize=_MOST_TEXTS)
def _parsed(text: str) -> Mapping[str, Any]:
    """Parse a definition once, because it is large and rarely changes."""
    return json.loads(text)  # type: ignore[no-any-return]


def _definition_text(entry: Entry) -> str:
    known = _TEXTS.get(id(entry.definition))
    if known is None or known[0] is not entry.definition:
        if len(_TEXTS) >= _MOST_TEXTS:
            _TEXTS.clear()
        known = _TEXTS[id(entry.definition)] = (entry.definition, json.dumps(entry.definition))
    return known[1]


def _signed(part: Part, transaction: str) -> Part:
    return part if part.pending is None else replace(part, pending=replace(part.pending, transaction=transaction))
