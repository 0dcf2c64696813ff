"""The files of a table's net change, and the entry with the commit that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabla.engine.apply import Replacement
from nabla.lake.write.generated import last_numbers
from nabla.lake.write.nested_checks import check_keys
from nabla.lake.write.table_change import TableChange, absent_rows
from nabla.storage import bags, capture, changes, files
from nabla.storage.bags import N
from nabla.storage.catalog import DELTA_FEED, Entry
from nabla.storage.changes import ChangeFile
from nabla.storage.files import DataFile
from nabla.storage.replace import replace_rows
from nabla.storage.rewrite import absent, rewrite
from nabla.storage.table import Snapshot

MOST_ON_DRIVER = 500_000
"""Rows that one operation may bring to the driver. Operations on more are left to Spark's executors."""

Capture = Callable[[Snapshot, Snapshot], Mapping[str, Any]]
"""Writes the change between two versions, which may be large, as Delta's change data feed."""


def write_change(change: TableChange, capture_large: Capture | None = None) -> tuple[Entry, Mapping[str, Any]] | None:
    """Write a table's net change: its entry and what the history says of it; None if nothing changed."""
    many = change.pieces and change.count_written() > MOST_ON_DRIVER and not change.by_driver
    if change.base is not None or many:
        return _advanced(change, change.base or change.snapshot, capture_large)
    if change.pieces or (change.written and change.replacement is not None):
        change.take_over_written()
    if change.nested and change.replacement is None:
        check_keys(change)
    recorded: tuple[ChangeFile, ...] | None
    if change.pieces or change.replacement is not None:
        adds, removes, net = _rewrite(change)
        net = _seen_by_readers(change, net)
        few = removes or net.num_rows <= changes.RECORDED_ROWS
        recorded = changes.record(change.snapshot.folder, net) if few else None
    else:
        adds = [file for path in change.written for file in files.adopt(path, change.snapshot.folder)]
        removes, recorded = [], None
    if not adds and not removes:
        return None
    # Without a record, the change is the files added.
    metadata: dict[str, Any] = {changes.KEY: [file.to_json() for file in recorded]} if recorded is not None else {}
    if removes and change.entry.definition.get(DELTA_FEED):
        metadata |= capture.capture(change.snapshot.folder, net)
    rows = change.snapshot.rows + sum(f.rows for f in adds) - sum(f.rows for f in removes)
    deleted = sum(f.deleted for f in recorded or ())
    facts = {**change.entry.facts, "rows": rows, **last_numbers(change)}
    part = change.entry.parts["data"].advanced(adds, removes, metadata)
    entry = Entry(change.entry.name, "table", change.entry.definition, {"data": part}, facts)
    return entry, {"inserted": rows - change.snapshot.rows + deleted, "deleted": deleted}


def take_over(change: TableChange) -> None:
    """Make the rows that Spark wrote known to operations that follow: few come to the driver, and many become files of the
    table that no commit names yet."""
    if change.count_written() > MOST_ON_DRIVER and not change.by_driver:
        settle(change)
    change.take_over_written()


def settle(change: TableChange) -> None:
    """Write what is not in files yet, so that operations which follow find all rows there."""
    waiting, located, needed, new = change.pieces, change.located, change.needed, change.replacement
    if change.written:  # these rows came after all that are to be deleted, so that it does not matter which copies go
        added = [file for path in change.written for file in files.adopt(path, change.snapshot.folder)]
        change.advance(added, (), sum(file.rows for file in added), 0)
        change.pieces, change.located, change.needed, change.replacement = waiting, located, needed, new
    if change.pieces or change.replacement is not None:
        adds, removes, net = _rewrite(change)
        deleted, inserted = bags.split(net)
        change.advance(adds, removes, bags.total(inserted), bags.total(deleted))


def _advanced(
    change: TableChange, base: Snapshot, capture_large: Capture | None
) -> tuple[Entry, Mapping[str, Any]] | None:
    """The entry of a table whose change is in files: the files that it gains and loses are its record. What is not in files
    yet is written into some that belong to this entry alone: there may be another one, as for a preview."""
    change = replace(change, pieces=[*change.pieces], written=[*change.written], located=[*change.located])
    settle(change)
    before, after = ({(file.path, file.hidden): file for file in one.files} for one in (base, change.snapshot))
    adds = [file for identity, file in after.items() if identity not in before]
    removes = [file for identity, file in before.items() if identity not in after]
    if not adds and not removes:
        return None
    facts = {**change.entry.facts, "rows": change.snapshot.rows, **last_numbers(change)}
    captures = capture_large is not None and removes and change.entry.definition.get(DELTA_FEED)
    captured = capture_large(base, change.snapshot) if capture_large and captures else {}
    part = change.entry.parts["data"].advanced(adds, removes, captured)
    inserted, deleted = change.moved
    return Entry(change.entry.name, "table", change.entry.definition, {"data": part}, facts), {
        "inserted": inserted,
        "deleted": deleted,
    }


def _rewrite(change: TableChange) -> tuple[list[DataFile], list[DataFile], pa.Table]:
    """Files to add and to remove, and the net change as signed rows."""
    if change.replacement is not None:
        return _replace(change.snapshot, change.replacement)
    net = change.net()
    deleted, inserted = bags.split(net)
    for needed in change.needed:
        _check_present(change, needed, deleted)
    key, known = change.entry.definition["key"], change.known_places()
    done = rewrite(change.snapshot, delete=deleted, insert=bags.repeat(inserted), key=key, known=known)
    if done.missing.num_rows:
        raise absent_rows(change.name, done.missing)
    return list(done.adds), list(done.removes), net


def _seen_by_readers(change: TableChange, net: pa.Table) -> pa.Table:
    """The net change of the columns that readers know."""
    hidden = change.hidden.intersection(net.column_names)
    return bags.consolidate(net.drop_columns(sorted(hidden))) if hidden else net


def _replace(snapshot: Snapshot, new: Replacement) -> tuple[list[DataFile], list[DataFile], pa.Table]:
    replaced = replace_rows(snapshot, new.key, new.touched, new.rows)
    net = pa.concat_tables([bags.negated(bags.counted(replaced.deleted)), bags.counted(replaced.inserted)])
    return list(replaced.adds), list(replaced.removes), net


def _check_present(change: TableChange, needed: pa.Table, deleted: pa.Table) -> None:
    """Refuse a deletion of rows that were not there, even if they were put back later: the net change does not show it."""
    beyond = bags.consolidate(pa.concat_tables([needed, bags.negated(deleted)]))
    if pc.any(pc.greater(beyond.column(N), 0)).as_py():
        missing = absent(change.snapshot, needed)
        if missing.num_rows:
            raise absent_rows(change.name, missing)
