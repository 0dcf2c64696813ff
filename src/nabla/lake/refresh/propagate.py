"""Computing the changes of views ahead of their refresh, so that a refresh only applies them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.view import View
from nabla.lake.refresh.facts import PinnedVersions
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.refresh.schedule import Schedule
from nabla.lake.reports import RefreshReport, ViewReport
from nabla.lake.write.commit import Commit, retry
from nabla.storage.catalog import AHEAD, LakeState


def check_propagate(propagate: str | None) -> bool:
    """Whether changes are computed ahead. NABLA_PROPAGATE for a word that says something else."""
    if propagate not in (None, "ahead"):
        raise _refusal(f"a change cannot be computed {propagate!r}", 'Use "ahead", or leave it out.')
    return propagate == "ahead"


def check_ahead(view: View, maintain: Schedule) -> None:
    """Refuse a view whose change cannot be computed ahead: it never waits, or it is maintained in another way."""
    if maintain == "immediate" or not isinstance(maintain, str):
        raise _refusal(
            "a view that follows a source in the same commit, or each in its own time, leaves no change to compute ahead",
            'Use maintain="deferred", "manual", a time or a number of rows.',
        )
    if view.key:
        raise _refusal(
            "a nested view that is maintained key by key has no change that could be stored", "Leave propagate= out."
        )


def _refusal(what: str, remedy: str) -> NablaError:
    return NablaError("NABLA_PROPAGATE", what, place="propagate=", remedy=remedy)


def propagating_views(state: LakeState) -> list[str]:
    """The views that were made with `propagate="ahead"`."""
    return [name for name, entry in state.entries.items() if entry.kind == "view" and entry.definition.get(AHEAD)]


def propagate_views(context: LakeContext, names: Sequence[str]) -> RefreshReport:
    """Compute the changes of the views named, or of all that want it, up to the versions that their sources have now."""
    state = context.log.state()
    wanted = [context.names(state).entry(name, "view").name for name in names] or propagating_views(state)
    for name in wanted:
        if not state.entries[name].definition.get(AHEAD):
            raise _refusal(f'view "{name}" was not made with propagate="ahead"', "Create it again with rebuild=True.")
    with context.events.run("propagate", wanted), Maintenance(context) as maintenance:
        attempts = {name: partial(_attempt, context, maintenance, name) for name in wanted}
        return RefreshReport({name: retry(context, attempt) for name, attempt in attempts.items()})


def _attempt(context: LakeContext, maintenance: Maintenance, name: str) -> ViewReport:
    """Commit the change of one view beside it. The view itself does not move, so that nobody has to follow."""
    state = context.log.state()
    with Commit(context, state, maintenance) as commit:
        sources = PinnedVersions(context.log, state).sources(state.entries[name], state)
        done = maintenance.propagate(name, state, sources)
        if done.entries:
            report = done.reports[name]
            commit.put(done.entries, {name: {"reason": report.reason, "seconds": report.seconds}})
            commit.publish("propagate")
    maintenance.run.view_ended(done.reports[name])
    return done.reports[name]
