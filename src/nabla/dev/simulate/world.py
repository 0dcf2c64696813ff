"""The lake of a simulation: a table, a view that follows it at once, and one that follows when it is refreshed.

All commits go through the same `Commit` as those of users, over the same storage. The maintenance itself is simple, since
both views are copies of the table: what the engine computes is the business of other tests.
"""

from __future__ import annotations

import datetime
import itertools
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import Schema

import nabla
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.compaction import Effort, compact_or_give_way
from nabla.lake.vacuum import vacuum_lake
from nabla.lake.write.commit import Commit, retry
from nabla.storage import bags, changes, files, reading
from nabla.storage.catalog import MARKS_ROWS, Entry, LakeState, Part
from nabla.storage.lakelog import LakeLog
from nabla.storage.rewrite import rewrite
from nabla.storage.table import StoredTable

TABLE, AT_ONCE, LATER = "a", "v", "d"
ROWS = pa.schema([("id", pa.int64())])
FEED = pa.schema([("id", pa.int64()), ("_change_type", pa.string()), ("_version", pa.int64())])
FIRST = (1, 2, 3)
GRACE = datetime.timedelta(seconds=20)


@dataclass(frozen=True)
class Attempt:
    """A transaction as it was tried once: rows that it inserts and deletes."""

    inserts: tuple[int, ...]
    deletes: tuple[int, ...]


@dataclass
class Diary:
    """What the actors tried, and what they were told. The lake has no part in it."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    acknowledged: list[str] = field(default_factory=list)
    refused: dict[str, NablaError] = field(default_factory=dict)
    unsure: bool = False
    """Whether somebody was warned that the disk has not confirmed a commit."""


def open_context(path: str) -> LakeContext:
    """A handle of the lake, as a process gets one."""
    return nabla.open(path).context


def found(path: str) -> None:
    """A lake with three rows, and views that show them."""
    log = LakeLog.create(path)
    state = log.state()
    parts = {name: _create(log, name, ROWS, FIRST, marks_rows=name == TABLE) for name in (TABLE, AT_ONCE, LATER)}
    table = Entry(TABLE, "table", {"key": ["id"], MARKS_ROWS: True}, {"data": parts[TABLE]})
    views = {
        name: Entry(
            name,
            "view",
            {"maintain": maintain},
            {"data": parts[name], "feed": _create(log, f"{name}-feed", FEED)},
            {"sources": {TABLE: 0}},
        )
        for name, maintain in ((AT_ONCE, "immediate"), (LATER, "deferred"))
    }
    log.commit({TABLE: table, **views}, state, "create")


def transact(context: LakeContext, name: str, diary: Diary, inserts: int) -> None:
    """Insert a row and, every other time, delete the smallest one; repeat it after a conflict as transactions do."""
    numbers = itertools.count()

    def attempt() -> None:
        attempted = f"{name}.{next(numbers)}"
        try:
            state = context.log.state()
            rows = read(context.log, state, TABLE)
            diary.attempts[attempted] = Attempt((inserts,), (min(rows),) if inserts % 2 else ())
            with Commit(context, state) as commit:
                _put_change(context.log, state, commit, attempted, diary.attempts[attempted])
                commit.publish("transaction")
        except NablaError as error:
            diary.refused[attempted] = error
            raise
        diary.acknowledged.append(attempted)

    with suppress(NablaError):
        retry(context, attempt)


def _put_change(log: LakeLog, state: LakeState, commit: Commit, name: str, attempt: Attempt) -> None:
    delete, insert = _table(attempt.deletes), _table(attempt.inserts)
    table, view = state.entries[TABLE], state.entries[AT_ONCE]
    signed = bags.consolidate(pa.concat_tables([bags.negated(bags.counted(delete)), bags.counted(insert)]))
    recorded = changes.record(log.folder(table.parts["data"]), signed)
    said = {changes.KEY: [file.to_json() for file in recorded]}
    data = _rewrite(log, table.parts["data"], delete, insert, said)
    commit.put({TABLE: Entry(TABLE, "table", table.definition, {"data": data})}, {TABLE: {"attempt": name}})
    moved = _move_view(log, view, delete, insert, data.version)
    commit.put({AT_ONCE: moved}, {AT_ONCE: {"attempt": name}})


def refresh(context: LakeContext) -> None:
    """Bring the other view to the newest version of the table, from the change since the one that it reflects."""

    def attempt() -> None:
        state = context.log.state()
        view, part = state.entries[LATER], state.entries[TABLE].parts["data"]
        reflected = view.facts["sources"][TABLE]
        if reflected == part.version:
            return
        change = changes.signed(changes.between(context.log.table(part), reflected, part.version))
        deleted, inserted = bags.split(change)
        with Commit(context, state) as commit:
            moved = _move_view(context.log, view, bags.repeat(deleted), bags.repeat(inserted), part.version)
            commit.put({LATER: moved}, {LATER: {}})
            commit.publish("refresh")

    retry(context, attempt)


def clean(context: LakeContext) -> None:
    vacuum_lake(context, False, GRACE)


def keep_house(context: LakeContext) -> None:
    """Merge whatever files can be merged, unless others write."""
    compact_or_give_way(context, (TABLE, AT_ONCE, LATER), Effort(), attempts=2)


def _move_view(log: LakeLog, view: Entry, delete: pa.Table, insert: pa.Table, reflects: int) -> Entry:
    version = view.parts["data"].version + 1
    kinds = ["delete"] * delete.num_rows + ["insert"] * insert.num_rows
    ids = [*delete["id"].to_pylist(), *insert["id"].to_pylist()]
    fed = pa.table({"id": ids, "_change_type": kinds, "_version": [version] * len(ids)}, schema=FEED)
    parts = {
        "data": _rewrite(log, view.parts["data"], delete, insert, {}),
        "feed": view.parts["feed"].advanced(files.write(log.folder(view.parts["feed"]), fed)),
    }
    return Entry(view.name, "view", view.definition, parts, {"sources": {TABLE: reflects}})


def _rewrite(log: LakeLog, part: Part, delete: pa.Table, insert: pa.Table, said: Mapping[str, Any]) -> Part:
    done = rewrite(log.snapshot(part), delete, insert)
    if done.missing.num_rows:
        raise AssertionError(f"rows to delete are missing: {done.missing.to_pylist()}")
    return part.advanced(done.adds, done.removes, said)


def _create(log: LakeLog, name: str, schema: pa.Schema, ids: tuple[int, ...] = (), *, marks_rows: bool = False) -> Part:
    path = log.new_path(name)
    adds = files.write(log.folder(path), _table(ids)) if ids else ()
    StoredTable.create(log.folder(path), Schema.from_arrow(schema).to_json(), adds, marks_rows=marks_rows)
    return Part(path, 0)


def _table(ids: tuple[int, ...]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())}, schema=ROWS)


def read(log: LakeLog, state: LakeState, name: str, version: int | None = None) -> Counter[int]:
    """The rows of an object at the version that counts, or at another one."""
    part = state.entries[name].parts["data"]
    snapshot = log.table(part).snapshot(part.version if version is None else version)
    return Counter(reading.read(snapshot)["id"].to_pylist())


def read_feed(log: LakeLog, state: LakeState, name: str) -> Counter[int]:
    """What the first rows of a view and all that its feed says since add up to."""
    feed = reading.read(log.snapshot(state.entries[name].parts["feed"]))
    found = Counter(FIRST)
    for row, kind in zip(feed["id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True):
        found[row] += 1 if kind == "insert" else -1
    return +found if min(found.values(), default=0) >= 0 else found


def log_folder(path: str) -> str:
    return os.path.join(path, "_nabla", "log", "_delta_log")
