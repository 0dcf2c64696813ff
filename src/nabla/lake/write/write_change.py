"""The files of a table's net change, and the entry with the commit that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabla.engine.apply import Replacement
from nabla.lake.write.nested_checks import check_keys
from nabla.lake.write.table_change import TableChange, absent_rows
from nabla.storage import bags, changes, files
from nabla.storage.bags import N
from nabla.storage.catalog import Entry
from nabla.storage.changes import ChangeFile
from nabla.storage.files import DataFile
from nabla.storage.replace import replace_rows
from nabla.storage.rewrite import absent, rewrite
from nabla.storage.table import Snapshot


def write_change(change: TableChange) -> tuple[Entry, Mapping[str, Any]] | None:
    """Write a table's net change: its entry and what the history says of it; None if nothing changed."""
    if change.pieces or (change.written and change.replacement is not None):
        change.take_over_written()
    if change.nested and change.replacement is None:
        check_keys(change)
    recorded: tuple[ChangeFile, ...] | None
    if change.pieces or change.replacement is not None:
        adds, removes, net = _rewrite(change)
        few = removes or net.num_rows <= changes.RECORDED_ROWS
        recorded = changes.record(change.snapshot.folder, net) if few else None
    else:
        adds = [file for path in change.written for file in files.adopt(path, change.snapshot.folder)]
        removes, recorded = [], None
    if not adds and not removes:
        return None
    # Without a record, the change is the files added.
    metadata = {changes.KEY: [file.to_json() for file in recorded]} if recorded is not None else {}
    rows = change.snapshot.rows + sum(f.rows for f in adds) - sum(f.rows for f in removes)
    deleted = sum(f.deleted for f in recorded or ())
    facts = {**change.entry.facts, "rows": rows}
    part = change.entry.parts["data"].advanced(adds, removes, metadata)
    entry = Entry(change.entry.name, "table", change.entry.definition, {"data": part}, facts)
    return entry, {"inserted": rows - change.snapshot.rows + deleted, "deleted": deleted}


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
