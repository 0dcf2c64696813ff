"""Changes that are computed ahead: the change of a view and of its states is stored beside the view before it is refreshed.

It is tied to the versions of the sources that it leads to. A refresh that goes to these versions only applies it; one that goes
further computes the rest, from there on, and applies both as one. A change that does not fit, or cannot be read, is left
aside: then the refresh computes all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nabla.engine import types
from nabla.engine.apply import Change, Computed, Result, Whole, difference
from nabla.engine.relations import ComputedRows, Source, hidden_schema
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.view import View
from nabla.lake.refresh.build import new_part
from nabla.storage import bags, locations, reading
from nabla.storage.catalog import AHEAD, Entry, Part
from nabla.storage.lakelog import LakeLog
from nabla.storage.table import Snapshot

MOST_ROWS = 1_000_000
"""A change of more rows stays in files and is applied by Spark. It is not continued: the next one begins where the view is."""

_LOG = logging.getLogger("nabla")


@dataclass(frozen=True)
class Ahead:
    """The change of a view from the versions that it reflects to the versions `sources`. `entry` is the view as it would be
    then, as far as the computation of later changes needs it: its states, and the versions."""

    sources: Mapping[str, int]
    change: Change
    entry: Entry

    @property
    def continues(self) -> bool:
        """Whether a later change can be added to it on the driver."""
        return self.change.rows.table is not None

    def then(self, later: Computed) -> Computed | None:
        """This change and a later one as one change. A view that was computed anew needs no earlier change. None if that is
        too much for the driver."""
        if not isinstance(later.result, Change):
            return later
        rows = _sum(self.change.rows, later.result.rows)
        stages = dict.fromkeys((*self.change.states, *later.result.states))
        states = {stage: _sum(self.change.states.get(stage), later.result.states.get(stage)) for stage in stages}
        if rows is None or any(state is None for state in states.values()):
            return None
        return replace(
            later, result=Change(rows, {stage: state for stage, state in states.items() if state is not None})
        )


def _sum(first: ComputedRows | None, second: ComputedRows | None) -> ComputedRows | None:
    """The sum of two signed changes, on the driver; None if it is too large for it."""
    both = [rows for rows in (first, second) if rows is not None]
    if sum(rows.count for rows in both) > MOST_ROWS:
        return None
    schema = both[0].schema
    pieces = [reading.conform(rows.read(), types.arrow_schema(schema)) for rows in both]
    return ComputedRows(schema, table=bags.consolidate(pa.concat_tables(pieces)))


def leads_to(entry: Entry) -> Mapping[str, int] | None:
    """The versions of the sources that the change of a view was computed up to; None if there is no such change, or the view
    has moved since."""
    known = entry.facts.get(AHEAD)
    if known is None or known["from"] != entry.facts["sources"] or known["version"] != entry.parts["data"].version:
        return None
    return known["sources"]  # type: ignore[no-any-return]


def load_ahead(log: LakeLog, view: View, entry: Entry, sources: Mapping[str, Source]) -> Ahead | None:
    """The change of a view that was computed ahead, if it helps to bring the view to the new versions of its sources."""
    versions = leads_to(entry)
    if versions is None or any(sources[name].new < version for name, version in versions.items()):
        return None
    exact = all(sources[name].new == version for name, version in versions.items())
    try:
        found = _read(log, view, entry, versions)
    except (NablaError, OSError, pa.ArrowException) as error:
        _LOG.warning(
            'the change of "%s" that was computed ahead cannot be read, and is computed again: %s', view.name, error
        )
        return None
    # Files elsewhere are named by their absolute paths, which a URL does not have.
    return found if exact or (found.continues and not locations.is_url(log.path)) else None


def _read(log: LakeLog, view: View, entry: Entry, versions: Mapping[str, int]) -> Ahead:
    snapshot = log.snapshot(entry.parts[AHEAD])
    schema = types.with_weight(view.schema)
    if snapshot.rows <= MOST_ROWS:
        rows = ComputedRows(schema, table=reading.conform(reading.read(snapshot), types.arrow_schema(schema)))
    else:
        rows = ComputedRows(schema, folder=snapshot.folder)
    states, parts = {}, dict(entry.parts)
    for stage in view.staged.stages:
        if (name := part_of(stage.table)) in entry.parts:
            change = log.snapshot(entry.parts[name])
            own = types.with_weight(hidden_schema(stage.state))
            states[stage.table] = ComputedRows(
                own, table=reading.conform(reading.read(change), types.arrow_schema(own))
            )
            files = tuple(replace(file, path=change.path(file)) for file in change.files)
            parts[stage.table] = entry.parts[stage.table].advanced(files)
    known = entry.facts[AHEAD]
    facts = {**entry.facts, "sources": versions, **({"clock": known["clock"]} if "clock" in known else {})}
    return Ahead(versions, Change(rows, states), replace(entry, parts=parts, facts=facts))


def part_of(stage: str = "") -> str:
    """The name of the part with the change of a view, or of one of its states."""
    return f"{AHEAD}.{stage}" if stage else AHEAD


def as_change(result: Result, data: Snapshot) -> Change | None:
    """A result as a change that can be stored. A view without states that was computed anew is compared with its rows, if the
    driver has them. None for other results."""
    if isinstance(result, Change):
        return result
    if isinstance(result, Whole) and not result.states and result.rows.table is not None:
        schema = types.with_weight(result.rows.schema)
        return Change(ComputedRows(schema, table=difference(data, result.rows.table)))
    return None


def store_ahead(
    context: LakeContext,
    view: View,
    entry: Entry,
    change: Change,
    versions: Mapping[str, int],
    clock: Mapping[str, Any],
) -> Entry:
    """The entry of a view with its change beside it: tables of their own, that go when it is applied or computed again."""
    parts: dict[str, Part] = {AHEAD: new_part(context, f"{view.name}_ahead", change.rows)}
    for stage, rows in change.states.items():
        parts[part_of(stage)] = new_part(context, f"{view.name}_ahead", rows)
    known = {"from": entry.facts["sources"], "version": entry.parts["data"].version, "sources": dict(versions), **clock}
    kept = entry.without_ahead
    return replace(kept, parts={**kept.parts, **parts}, facts={**kept.facts, AHEAD: known})
