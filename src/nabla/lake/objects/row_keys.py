"""The columns that identify the rows of a table or view, by which its feed pairs the old and the new values of a row."""

from __future__ import annotations

from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.view import load_view
from nabla.rewrite.drop_redundant import UniqueColumns
from nabla.storage.catalog import Entry, LakeState


def row_key(entry: Entry, state: LakeState) -> tuple[str, ...] | None:
    """The declared key of a table, or the columns that tell the rows of a view apart: those that it groups by, or the keys of
    the tables that it joins. None where nothing does. A view of one row needs no column."""
    if not is_derived(entry):
        return tuple(entry.definition.get("key") or ()) or None
    view = load_view(entry.name, entry.definition)
    if view.key:
        return view.key
    if view.rules is not None:  # the facts of a predicate are a set
        return view.outputs
    keys = {source: key for source in view.sources if (key := row_key(state.entries[source], state))}
    found = UniqueColumns(keys).of(view.plan)
    if found is None:
        return None
    return tuple(shown for shown, column in zip(view.outputs, view.plan.columns, strict=True) if column.name in found)
