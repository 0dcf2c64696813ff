"""Files of tables and views compacted, as a commit of the lake that changes no row.

Views that reflect the version before the commit reflect the one after it from then on, in the same commit: nobody has anything
to refresh. Old files stay for readers until a vacuum takes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nabla.engine.feed import FEED_VERSION
from nabla.errors import Conflict
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.keep import known_versions
from nabla.lake.write.commit import Commit
from nabla.storage import changes, files
from nabla.storage.bags import N
from nabla.storage.catalog import AHEAD, CLUSTER_BY, SAME_AS, Entry, LakeState, Part
from nabla.storage.compact import UNCHANGED, Compaction, compact, sum_up, worn_files
from nabla.storage.files import DataFile
from nabla.storage.table import Snapshot

MOST_SUMMED = 2_000_000
"""Rows of a state that are added up in memory. A larger one is only merged."""


@dataclass(frozen=True)
class Effort:
    """How much is done: small files are merged from `least` of them on, and an object gets at most `most_rows` written."""

    least: int = 2
    most_rows: int | None = None


@dataclass(frozen=True)
class Compacted:
    """What a compaction did with the files of one object: how many were replaced, by how many, and what that saves."""

    replaced: int = 0
    written: int = 0
    saved_bytes: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(
            self.replaced + other.replaced, self.written + other.written, self.saved_bytes + other.saved_bytes
        )


def compact_objects(context: LakeContext, names: Collection[str], effort: Effort) -> Mapping[str, Compacted]:
    """Compact all of these objects for which it pays, in one commit. Conflict where another commit has changed one of them: it
    stands, and the files written here are deleted."""
    state = context.log.state()
    entries = [state.entries[name] for name in names if name in state.entries]
    chosen = {entry.name: worn for entry in entries if (worn := _choose(context, state, entry, effort))}
    if not chosen:
        return {}
    with Commit(context, state) as commit:
        found: dict[str, Compacted] = {}
        for name, worn in chosen.items():
            moved = {part: _write(state.entries[name], part, *files) for part, files in worn.items()}
            found[name] = sum(map(_outcome, moved.values()), Compacted())
            _put(commit, name, moved, found[name])
        commit.publish("optimize")
    return found


def compact_or_give_way(
    context: LakeContext, names: Collection[str], effort: Effort, attempts: int
) -> Mapping[str, Compacted] | None:
    """Compact objects, or give up (None) where other writers were quicker every time."""
    for _ in range(attempts):
        try:
            return compact_objects(context, names, effort)
        except Conflict:
            continue
    return None


def _put(commit: Commit, name: str, moved: Mapping[str, Compaction], done: Compacted) -> None:
    """Put an object with its new files into a commit, and with it the views that reflect its newest version."""
    entry = commit.state.entries[name]
    parts = {n: _advance(part, moved[n]) if n in moved else part for n, part in entry.parts.items()}
    facts = dict(entry.facts)
    old, new = entry.parts["data"].version, parts["data"].version
    if new != old:
        facts[SAME_AS] = [entry.content_version(old), new]
        if AHEAD in facts and facts[AHEAD]["version"] == old:
            facts[AHEAD] = {**facts[AHEAD], "version": new}
    said = _info(new, f"{done.replaced} files became {done.written}")
    commit.put({name: replace(entry, parts=parts, facts=facts)}, {name: said})
    if new != old:
        for reader in list(commit.state.entries.values()):
            if reader.facts.get("sources", {}).get(name) == old:
                said = _info(reader.parts["data"].version, f"{name}@{new} has the rows of {name}@{old}")
                commit.put({reader.name: _carry_on(reader, name, old, new)}, {reader.name: said})


def _advance(part: Part, done: Compaction) -> Part:
    return part.advanced(done.adds, done.removes, UNCHANGED if done.is_exact else {changes.KEY: []})


def _carry_on(reader: Entry, source: str, old: int, new: int) -> Entry:
    """A view that reflects a version of a source as one that reflects another version with the same rows."""

    def moved(versions: Mapping[str, int]) -> dict[str, int]:
        return {name: new if name == source and version == old else version for name, version in versions.items()}

    facts = {**reader.facts, "sources": moved(reader.facts["sources"])}
    if AHEAD in facts:
        known = facts[AHEAD]
        facts[AHEAD] = {**known, "from": moved(known["from"]), "sources": moved(known["sources"])}
    return replace(reader, facts=facts)


Groups = tuple[tuple[DataFile, ...], ...]
Worn = tuple[Snapshot, Groups]
"""A version of a part, and those of its files that are worth writing anew, in groups that are not mixed."""


def _choose(context: LakeContext, state: LakeState, entry: Entry, effort: Effort) -> dict[str, Worn]:
    """The parts of an object with files that are worth writing anew; none for a table of others, and none while a promise of
    the object stands."""
    if entry.kind == "registered" or any(part.pending for part in entry.parts.values()):
        return {}
    found: dict[str, Worn] = {}
    for name, part in entry.parts.items():
        if name.split(".")[0] != AHEAD:
            snapshot = context.log.snapshot(part)
            known = known_versions(context, state, entry) if name == "feed" else []
            if groups := _worn(name, snapshot, known, effort):
                found[name] = snapshot, groups
    return found


def _worn(name: str, snapshot: Snapshot, known: list[int], effort: Effort) -> Groups:
    """The files of a part to write anew. A file of a feed must not have changes that a reader knows beside others that it does
    not: it would be read for nothing. Of a state, equal rows may be anywhere, so that all of it is added up."""
    rows = _file_rows(name, snapshot)
    if name == "feed":
        groups = (worn_files(files, rows, effort.least, effort.most_rows) for files in _between_known(snapshot, known))
        return tuple(tuple(sorted(group, key=_last_version)) for group in groups if group)
    worn = worn_files(snapshot.files, rows, effort.least, effort.most_rows)
    if worn and _is_state(name, snapshot) and snapshot.rows <= min(MOST_SUMMED, effort.most_rows or MOST_SUMMED):
        return (snapshot.files,)
    return (worn,) if worn else ()


def _between_known(feed: Snapshot, known: list[int]) -> Iterator[list[DataFile]]:
    """The files of a feed whose changes lie between two versions that readers know."""
    groups: dict[int, list[DataFile]] = {}
    for file in feed.files:
        if (last := _last_version(file)) <= known[-1]:
            groups.setdefault(bisect_left(known, last), []).append(file)
    yield from groups.values()


def _write(entry: Entry, name: str, snapshot: Snapshot, groups: Groups) -> Compaction:
    key = (entry.definition.get(CLUSTER_BY) or entry.definition.get("key") or ()) if name == "data" else ()
    done = Compaction((), ())
    for worn in groups:
        if _is_state(name, snapshot) and sum(file.written for file in worn) <= MOST_SUMMED:
            done += sum_up(snapshot, worn)
        else:
            done += compact(snapshot, worn, _file_rows(name, snapshot), key)
    return done


def _is_state(name: str, snapshot: Snapshot) -> bool:
    """Whether a part is the state of a view, a log of signed rows."""
    return name not in ("data", "feed") and N in snapshot.schema.names


def _file_rows(name: str, snapshot: Snapshot) -> int:
    return files.target_rows(snapshot.rows) if name == "data" else files.TARGET_ROWS


def _last_version(file: DataFile) -> float:
    found = file.maximum.get(FEED_VERSION)
    return float(found) if isinstance(found, int) else float("inf")


def _outcome(done: Compaction) -> Compacted:
    return Compacted(len(done.removes), len(done.adds), done.saved_bytes)


def _info(version: int, reason: str) -> dict[str, Any]:
    return {"version": version, "inserted": 0, "deleted": 0, "reason": reason}
