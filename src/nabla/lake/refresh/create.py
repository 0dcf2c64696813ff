"""New views: from what a user says to an entry in the lake's log, with auxiliary views where it is to stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from nabla.errors import NablaError
from nabla.frontends.nested.language import Nested
from nabla.frontends.spark_sql.define import Note, define
from nabla.lake.context import LakeContext
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.build import build, outdated
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.refresh.schedule import check_upkeep
from nabla.lake.reports import ViewReport
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.commit import Proposal
from nabla.planner.self_maintenance import Auxiliary, SelfMaintenance, assess, detached
from nabla.rewrite.narrow_groups import narrowed
from nabla.rewrite.prune import pruned
from nabla.storage.catalog import Entry, LakeState


def create_view(
    context: LakeContext, name: str, query: str | DataFrame | Nested, rebuild: bool, maintain: str, detach: bool
) -> ViewReport:
    maintain = check_upkeep(maintain)
    state = context.log.state()
    declared = context.names(state)
    view = replace(_defined(context, name, query, state), maintain=maintain)
    existing = declared.find(name)
    if existing is None:
        declared.check_new(name)
    elif not rebuild:
        raise declared.exists(existing, view)
    declared.check_view(view, existing)
    auxiliary: list[View] = []
    if detach:
        view, auxiliary = _detached(view, state)
    with Maintenance(context) as maintenance:
        proposal = Proposal(context, state, maintenance)
        if existing is not None:
            proposal.outdate(outdated(state, [existing.name]))
            proposal.outdate(dict.fromkeys(declared.auxiliary_to(existing.name)))
        for own in auxiliary:
            context.names(proposal.state).check_new(own.name)
            _build(context, own, proposal)
        report = _build(context, view, proposal)
        proposal.follow()
        proposal.check()
        sources = {s for one in (view, *auxiliary) for s in one.sources}
        proposal.commit("create view", reads=sources - {own.name for own in auxiliary})
    return report


def _defined(context: LakeContext, name: str, query: str | DataFrame | Nested, state: LakeState) -> View:
    if isinstance(query, Nested):
        return nests.define(name, query, context, state)
    defined = define(context.spark.named_session, query, list(state.entries), name)
    plan, told = narrowed(defined.plan, lambda table, field: _is_key(state.entries[table], field))
    notes = (*defined.notes, *(Note("GROUPS_NARROWED", text) for text in told))
    view = View.of(name, pruned(plan), defined.outputs, defined.sql, tuple(map(str, notes)))
    return replace(view, functions=defined.functions)


def _is_key(entry: Entry, column: str) -> bool:
    return entry.kind == "table" and list(entry.definition["key"] or ()) == [column]


def _build(context: LakeContext, view: View, proposal: Proposal) -> ViewReport:
    try:
        entry, report = build(context, {view.name: view}, proposal.state)[view.name]
    except PySparkException as error:
        raise context.translate(error, f'view "{view.name}"') from None
    proposal.put({view.name: entry}, {view.name: report.brief()})
    return report


def _detached(view: View, state: LakeState) -> tuple[View, list[View]]:
    """A view that needs no source but what changes follows at once; any other reads auxiliary views, which do."""
    if view.opaque:
        raise NablaError(
            "NABLA_DETACHED",
            "there is no algebra for it, so that its sources cannot be told apart from it",
            place=f'view "{view.name}"',
            remedy="Create it without detached=True.",
        )
    if _assessed(view, state, frozenset()).maintainable:
        return replace(view, maintain="immediate"), []
    plan, auxiliaries = detached(view.name, view.plan, _widths(view, state))
    said = f"detached: {view.sql or view.nested or 'a DataFrame'}"
    return replace(view, plan=plan, sql=None, nested=None, key=(), notes=(*view.notes, said)), [
        _view(auxiliary, view.name) for auxiliary in auxiliaries
    ]


def _view(auxiliary: Auxiliary, serves: str) -> View:
    view = View.of(auxiliary.name, auxiliary.plan, auxiliary.outputs, None, (f"{auxiliary}",))
    return replace(view, maintain="immediate", serves=serves)


def self_maintenance(context: LakeContext, names: Sequence[str]) -> tuple[SelfMaintenance, ...]:
    state = context.log.state()
    entries = [context.names(state).entry(n, "view") for n in names] or [
        e for e in state.entries.values() if e.kind == "view"
    ]
    given = frozenset(entry.name for entry in entries)
    return tuple(_assessed(load_view(e.name, e.definition), state, given - {e.name}) for e in entries)


def _assessed(view: View, state: LakeState, given: frozenset[str]) -> SelfMaintenance:
    obstacle = str(view.obstacles[0]) if view.obstacles else ""
    if view.recursive:
        obstacle = "the rounds of a recursion read what it is made from"
    return assess(view.name, view.plan, view.staged, _widths(view, state), given, obstacle)


def _widths(view: View, state: LakeState) -> dict[str, int]:
    return {source: len(columns_of(state.entries[source])) for source in view.sources}
