"""One table, view or constraint in all detail: how it is kept, what the next refresh would do, its past, its last changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from nabla.algebra.lineage import Origin
from nabla.console.cells import cells
from nabla.console.commits import Commits, PastRefresh
from nabla.console.overview import LakeObject, Overview
from nabla.engine import types
from nabla.errors import NablaError
from nabla.explain.explanation import Explanation
from nabla.lake.context import LakeContext
from nabla.lake.explain import explain_view
from nabla.lake.lineage import lineage_of
from nabla.lake.objects.graph import is_derived, read_through
from nabla.lake.objects.sources import columns_of, current_version, make_source, table_of
from nabla.lake.objects.view import load_view
from nabla.storage import bags, reading
from nabla.storage.catalog import Entry, LakeState

MOST_CHANGES = 5_000
"""Changed rows that are read to show some of them."""
SHOWN_CHANGES, SHOWN_ROWS = 40, 20
LARGEST_FILE = 16 << 20
"""Bytes of a file that is read to show its first rows."""


@dataclass(frozen=True)
class ColumnDetail:
    """A column: `origins` are the columns that its values come from, `conditions` those that decide about it alone."""

    name: str
    type: str
    is_key: bool
    origins: tuple[Origin, ...] = ()
    conditions: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class ShownRows:
    """Some rows as texts, and a word about those that are not shown."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | None]] = ()
    signs: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Details:
    """An object with everything that its page shows. `deciding` are the columns that decide which rows there are. What
    cannot be read has an error in its place."""

    object: LakeObject
    definition: str
    language: str
    bytes: int | None
    files: int | None
    columns: tuple[ColumnDetail, ...]
    deciding: tuple[Origin, ...]
    readers: tuple[str, ...]
    constraints: tuple[LakeObject, ...]
    refreshes: tuple[PastRefresh, ...]
    explanation: Explanation | None
    changes: ShownRows | None
    sample: ShownRows | None
    error: str = ""

    @property
    def fallbacks(self) -> tuple[PastRefresh, ...]:
        """Refreshes that recomputed the view, with their reasons, the newest first."""
        return tuple(one for one in self.refreshes if one.mode == "full" and not one.is_build)[:8]


def details(context: LakeContext, overview: Overview, commits: Commits, name: str) -> Details | None:
    """All about an object, or None if there is none of that name."""
    state = context.log.state()
    entry, shown = state.entries.get(name), overview.objects.get(name)
    if entry is None or shown is None:
        return None
    explanation, error = _explain(context, entry)
    snapshot, problem = None, ""
    try:
        snapshot = table_of(context.log, entry).snapshot(current_version(context.log, entry))
    except NablaError as failed:
        problem = str(failed)
    definition, language = _definition(entry)
    columns, deciding = _columns(context, entry)
    return Details(
        object=shown,
        definition=definition,
        language=language,
        bytes=snapshot.bytes if snapshot else None,
        files=len(snapshot.files) if snapshot else None,
        columns=columns,
        deciding=deciding,
        readers=tuple(reader for reader in overview.readers(name) if overview.objects[reader].kind != "constraint"),
        constraints=tuple(overview.objects[one] for one in _constraints(state, name) if one in overview.objects),
        refreshes=tuple(commits.refreshes(name)) if is_derived(entry) else (),
        explanation=explanation,
        changes=_changes(context, state, entry) if snapshot else None,
        sample=_sample(context, entry) if snapshot else None,
        error=error or problem,
    )


def _explain(context: LakeContext, entry: Entry) -> tuple[Explanation | None, str]:
    if not is_derived(entry):
        return None, ""
    try:
        return explain_view(context, entry.name, "auto"), ""
    except NablaError as error:
        return None, str(error)


def _definition(entry: Entry) -> tuple[str, str]:
    """The text that an object was made from, and its language."""
    if not is_derived(entry):
        return "", ""
    view = load_view(entry.name, entry.definition)
    if view.rules is not None:
        return view.rules.program.text, "rules"
    if view.denied is not None:
        return view.denied.program.text, "rules"
    if view.sql:
        return view.sql, "SQL"
    return (view.nested, "nested") if view.nested else ("", "DataFrame")


def _columns(context: LakeContext, entry: Entry) -> tuple[tuple[ColumnDetail, ...], tuple[Origin, ...]]:
    """The columns with their lineage, and the columns of tables that decide which rows there are."""
    keys = set(entry.definition.get("key") or ())
    if not is_derived(entry):
        fields = types.from_json(entry.definition["schema"]).fields
        return tuple(ColumnDetail(f.name, f.dataType.simpleString(), f.name in keys) for f in fields), ()
    view = load_view(entry.name, entry.definition)
    kinds = dict(zip(view.outputs, (column.type for column in view.plan.columns), strict=True))
    try:
        lineage = lineage_of(context, entry.name)
    except NablaError:
        return tuple(ColumnDetail(name, kind, name in keys) for name, kind in kinds.items()), ()
    found = []
    for name, kind in kinds.items():
        own = lineage.columns[name]
        conditions = tuple(origin for origin in own.conditions if origin not in lineage.rows)
        found.append(ColumnDetail(name, kind, name in keys, tuple(own.direct), conditions))
    return tuple(found), tuple(lineage.rows)


def _constraints(state: LakeState, name: str) -> list[str]:
    """The constraints that read an object, directly or through views."""
    found = (entry for entry in state.entries.values() if entry.kind == "constraint" and entry.name != name)
    return [entry.name for entry in found if name in read_through([entry.name], state)]


def _changes(context: LakeContext, state: LakeState, entry: Entry) -> ShownRows | None:
    """The rows that the newest version of an object deleted and inserted, read without Spark."""
    columns = columns_of(entry)
    try:
        version = current_version(context.log, entry)
        if version == 0:
            return None
        source = make_source(context.log, entry.name, state, version - 1, version)
        count = source.changed_rows
        if count > MOST_CHANGES:
            return ShownRows(columns, note=f"The last change has {count:,} rows: see `nabla changes {entry.name}`.")
        deleted, inserted = bags.split(source.change_rows())
        pieces = [(sign, bags.repeat(rows)) for sign, rows in (("−", deleted), ("+", inserted))]
    except (NablaError, pa.ArrowException, OSError) as error:
        return ShownRows(columns, note=f"The last change cannot be read: {error}")
    rows, signs = [], []
    for sign, table in pieces:
        found = cells(table.slice(0, SHOWN_CHANGES))
        rows += found
        signs += [sign] * len(found)
    hidden = sum(table.num_rows for _, table in pieces) - len(rows)
    return ShownRows(columns, rows, signs, f"and {hidden:,} more" if hidden else "")


def _sample(context: LakeContext, entry: Entry) -> ShownRows | None:
    """The first rows of a file of the object, if that is small enough to look into."""
    columns = columns_of(entry)
    try:
        snapshot = table_of(context.log, entry).snapshot(current_version(context.log, entry))
        file = next((file for file in snapshot.files if file.bytes <= LARGEST_FILE), None)
        if file is None:
            return None
        found = reading.read_file(snapshot, file)
    except (NablaError, pa.ArrowException, OSError) as error:
        return ShownRows(columns, note=f"Its rows cannot be read: {error}")
    rows = cells(found.slice(0, SHOWN_ROWS))
    return ShownRows(columns, rows, note=f"{len(rows)} of {snapshot.rows:,} rows" if snapshot.rows > len(rows) else "")
