"""`lake.maintenance_limit`: from which size of a change on is recomputing a view cheaper than maintaining it?

The answer comes from the planner's estimates, which know the past refreshes of the view. On request it is measured: rows of the
tables are deleted in transactions that are never committed, and the view is brought to that state in both ways.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from nabla.algebra.clock import Instant
from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import upstream_units
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.facts import PinnedVersions, RefreshInputs, moments_of
from nabla.lake.write.commit import Commit
from nabla.lake.write.transaction import Transaction
from nabla.planner.estimates import ViewFacts
from nabla.planner.limit import CostPoint, crossing, estimated_points
from nabla.planner.steps import Mode
from nabla.storage.catalog import Entry, LakeState

MEASURED_SHARES = (0.001, 0.01, 0.1, 0.3)
"""The shares of rows that are deleted to measure. Measuring ends with the first one at which recomputing is cheaper."""
_IN_TURNS: tuple[Mode, ...] = ("incremental", "full", "full", "incremental")
_PARTS = 100_000
_UNHASHED = ("map", "variant", "geography", "geometry", "void")
"""Types of which Spark computes no hash."""


@dataclass(frozen=True)
class MaintenanceLimit:
    """Where recomputing becomes cheaper: at a `share` of changed rows of `tables`, 0 to 1; 1 if never, 0 if always. `points`
    are the costs that were compared."""

    view: str
    share: float
    tables: tuple[str, ...]
    measured: bool
    reason: str
    points: tuple[CostPoint, ...] = ()

    def __str__(self) -> str:
        how = "measured" if self.measured else "estimated"
        lines = [f"{self.view}: {self.reason}" if not self.points else f"{self.view}: {self.reason} ({how})"]
        for point in self.points:
            lines.append(
                f"  {point.share:8.3%} of {', '.join(self.tables)}: maintaining {point.maintain:.2f} s, "
                f"recomputing {point.recompute:.2f} s"
            )
        return "\n".join(lines)


def maintenance_limit(context: LakeContext, name: str, tables: Collection[str], measure: bool) -> MaintenanceLimit:
    """The limit of a view under changes of some of its sources: those given, or those that have changed before, or all."""
    state = context.log.state()
    names = context.names(state)
    entry = names.entry(name, "view", "constraint")
    view = load_view(entry.name, entry.definition)
    inputs = _inputs(context, view, entry, state)
    facts = inputs.facts
    if facts.obstacles or facts.must_rebuild:
        why = str(facts.obstacles[0]) if facts.obstacles else facts.must_rebuild
        return MaintenanceLimit(view.name, 0.0, view.sources, False, f"it is always recomputed: {why}")
    changed = tuple(sorted({names.entry(table).name for table in tables} if tables else _that_change(facts)))
    if not measure:
        _check_sources(view, changed, view.sources)
        points = estimated_points(facts, view.staged, changed)
    else:
        upstream = _upstream_tables(view, state)
        changed = changed if tables else tuple(sorted(upstream))
        _check_sources(view, changed, upstream)
        points = _measured_points(context, view, changed)
    share = crossing(points)
    return MaintenanceLimit(view.name, share, changed, measure, _in_words(share), tuple(points))


def _inputs(context: LakeContext, view: View, entry: Entry, state: LakeState) -> RefreshInputs:
    """The view as it is before its next refresh, in a process that has computed it already."""
    sources = PinnedVersions(context.log, state).sources(entry, state)
    return RefreshInputs(view, entry, sources, moments_of(view, entry, Instant.now), cold=False)


def _that_change(facts: ViewFacts) -> set[str]:
    return {name for past in facts.past for name in past.changed} or {source.name for source in facts.sources}


def _upstream_tables(view: View, state: LakeState) -> set[str]:
    """The lake's own tables that a view is computed from, through other views."""
    read = {view.name, *view.sources}
    for unit in upstream_units([view.name], state):
        read |= {source for name in unit for source in load_view(name, state.entries[name].definition).sources}
    return {name for name in read if state.entries[name].kind == "table"}


def _check_sources(view: View, changed: Collection[str], known: Collection[str]) -> None:
    unknown = sorted(set(changed) - set(known))
    if unknown or not changed:
        raise NablaError(
            "NABLA_ARGUMENT",
            f"it does not read {', '.join(unknown)}"
            if unknown
            else "it reads no table whose rows could be deleted to measure",
            place=f'maintenance_limit("{view.name}")',
            remedy=f"Name some of {', '.join(sorted(known))}." if known else "Ask for the estimate: measure=False.",
        )


def _in_words(share: float) -> str:
    if share >= 1.0:
        return "maintaining is cheaper, however much changes"
    if share <= 0.0:
        return "recomputing is cheaper, however little changes"
    return f"recomputing is cheaper from {share:.2%} of changed rows on"


# ---------------------------------------------------------------- measured


def _measured_points(context: LakeContext, view: View, changed: Collection[str]) -> list[CostPoint]:
    points: list[CostPoint] = []
    for share in MEASURED_SHARES:
        points.append(_measure(context, view, changed, share))
        if not points[-1].pays:
            break
    return points


class _NotCommitted(Exception):
    """Leaves a transaction, so that nothing of it is committed."""


def _measure(context: LakeContext, view: View, changed: Collection[str], share: float) -> CostPoint:
    """Both ways after a share of the rows is deleted. Each is done twice, since the first time finds everything cold."""
    rows = 0
    seconds: dict[Mode, float] = {}
    with suppress(_NotCommitted), Transaction(context) as transaction:
        for table in changed:
            transaction.delete(table, where=_a_share(context, table, share))
        changes = transaction.changes
        changes.take_over_written()
        for mode in _IN_TURNS:
            with Commit(context, changes.state) as commit:  # it is never published
                changes.put_into(commit)
                rows = _changed_rows(context, changes.state, commit.state, changed)
                taken = _bring_up_to_date(context, commit, view, mode)
            seconds[mode] = min(taken, seconds.get(mode, taken))
        raise _NotCommitted
    return CostPoint(share, rows, seconds["incremental"], seconds["full"])


def _bring_up_to_date(context: LakeContext, commit: Commit, view: View, mode: Mode) -> float:
    """The seconds of the view's own refresh; the views that it reads come first, and do not count."""
    versions = PinnedVersions(context.log, commit.state)
    taken = 0.0
    for unit in upstream_units([view.name], commit.state):
        now = commit.state
        own = view.name in unit
        done = commit.maintain(unit, versions.sources(now.entries[unit[0]], now), mode if own else "auto")
        taken = done[view.name].seconds if own else taken
    return taken


def _changed_rows(context: LakeContext, before: LakeState, after: LakeState, changed: Collection[str]) -> int:
    def rows(state: LakeState, table: str) -> int:
        return context.log.snapshot(state.entries[table].parts["data"]).rows

    return sum(rows(before, table) - rows(after, table) for table in changed)


def _a_share(context: LakeContext, table: str, share: float) -> str:
    """A condition that a share of a table's rows meets, the same ones every time."""
    entry = context.log.state().entries[table]
    snapshot = context.log.snapshot(entry.parts["data"])
    fields = types.from_json(snapshot.schema_json).fields
    plain = [
        quote(name)
        for name, field in zip(columns_of(entry), fields, strict=True)
        if not any(word in field.dataType.simpleString() for word in _UNHASHED)
    ]
    hashed = f"xxhash64({', '.join(plain)})" if plain else "0"
    return f"pmod({hashed}, {_PARTS}) < {max(1, round(share * _PARTS))}"
