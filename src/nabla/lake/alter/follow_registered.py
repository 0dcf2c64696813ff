"""Registered tables whose columns their writers have changed: the lake takes them over, and views that read them go on.

A column is the same one as long as its name in the files is, which Delta's column mapping keeps through renames. A column that
is gone, or has a type that does not hold all that it held, stays known to the lake while views read it: they are held at their
last good version, and others go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.alter.alteration import SchemaChange, is_wider
from nabla.lake.alter.follow import is_read, readers
from nabla.lake.alter.follow_change import follow_change
from nabla.lake.context import LakeContext
from nabla.lake.objects.view import View, load_view
from nabla.lake.write.commit import Commit
from nabla.storage.catalog import LOST_COLUMNS, REPLACED_COLUMNS, Entry, LakeState
from nabla.storage.schemas import physical_name, same_type


@dataclass(frozen=True)
class _Columns:
    """The columns of a registered table as they are to be known, and how that changes what was known."""

    fields: tuple[Mapping[str, Any], ...]
    change: SchemaChange
    lost: tuple[str, ...]
    replaced: tuple[str, ...]


def follow_registered(context: LakeContext, names: Iterable[str]) -> None:
    """Take over the columns of registered tables, of those that have changed. A table that cannot be read, or whose
    readers cannot follow, stays as it is known: whoever reads it says why."""
    for name in names:
        with suppress(NablaError, OSError):
            _follow(context, name)


def check_readable(view: View, state: LakeState) -> None:
    """NABLA_SCHEMA_CHANGED where a view reads a column of a registered table that is gone."""
    for source in view.sources:
        for column in state.entries[source].definition.get(LOST_COLUMNS, ()):
            if is_read(view, source, column):
                raise NablaError(
                    "NABLA_SCHEMA_CHANGED",
                    f'view "{view.name}" reads column "{column}" of "{source}", which is gone or has another type',
                    place=f'table "{source}"',
                    remedy=f'Take the column out with alter_view, or drop "{view.name}". It stays at its last good version.',
                )


def _follow(context: LakeContext, name: str) -> None:
    state = context.log.state()
    entry = state.entries[name]
    now = context.log.table(entry.parts["data"]).listed().schema_json
    if entry.kind != "registered" or (now == entry.definition["schema"] and not entry.definition.get(LOST_COLUMNS)):
        return
    columns = _compare(entry, json.loads(now)["fields"], state)
    definition = {
        **entry.definition,
        "schema": json.dumps({"type": "struct", "fields": list(columns.fields)}) if columns.lost else now,
        "key": [columns.change.renamed.get(c, c) for c in entry.definition["key"] if c not in columns.change.dropped],
        LOST_COLUMNS: list(columns.lost),
        REPLACED_COLUMNS: list(columns.replaced),
    }
    if definition == {LOST_COLUMNS: [], REPLACED_COLUMNS: [], **entry.definition}:
        return
    with Commit(context, state) as commit:
        said = {"altered": str(columns.change)}
        commit.put({name: replace(entry, definition=definition)}, {name: said})
        follow_change(context, commit, columns.change, None, {})
        commit.follow()
        commit.check()
        commit.publish("follow schema")
        commit.end_views()


def _compare(entry: Entry, present: list[Mapping[str, Any]], state: LakeState) -> _Columns:
    """Compare the columns that are known with those that are there."""
    known = json.loads(entry.definition["schema"])["fields"]
    there = {physical_name(field): field for field in present}
    views = [load_view(e.name, e.definition) for e in readers(state, entry.name)]
    renamed: dict[str, str] = {}
    widened: list[Mapping[str, Any]] = []
    gone: list[Mapping[str, Any]] = []
    other: list[Mapping[str, Any]] = []
    for field in known:
        name, found = field["name"], there.get(physical_name(field))
        if found is None:
            gone.append(field)
            continue
        if found["name"] != name:
            renamed[name] = found["name"]
        if not same_type(found["type"], field["type"]):
            (widened if _is_wider(field, found) else other).append(field)
    lost = [f for f in (*gone, *other) if any(is_read(view, entry.name, f["name"]) for view in views)]
    names = {field["name"] for field in present}
    waiting = [f for f in lost if f["name"] not in names]
    unread = [f["name"] for f in gone if f not in lost]
    before = {physical_name(field) for field in known}
    change = SchemaChange(
        entry.name,
        {field["name"]: _kind(field) for field in known},
        added=tuple(field["name"] for place, field in there.items() if place not in before),
        dropped=tuple(unread),
        renamed=renamed,
        widened=tuple(field["name"] for field in widened),
    )
    kept = [_lost_or_found(field, lost) for field in present] + waiting
    replaced = {*entry.definition.get(REPLACED_COLUMNS, ()), *(f["name"] for f in other if f not in lost)}
    return _Columns(tuple(kept), change, tuple(f["name"] for f in lost), tuple(sorted(replaced)))


def _lost_or_found(field: Mapping[str, Any], lost: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The field as it is there, or as it is known if views wait for it with its old type."""
    return next((old for old in lost if physical_name(old) == physical_name(field)), field)


def _is_wider(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = (types.from_json(json.dumps({"type": "struct", "fields": [f]})).fields[0] for f in (old, new))
    return is_wider(before.dataType, after.dataType)


def _kind(field: Mapping[str, Any]) -> str:
    return types.from_json(json.dumps({"type": "struct", "fields": [field]})).fields[0].dataType.simpleString()
