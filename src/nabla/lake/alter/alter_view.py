"""Another query for a view, in one commit, with the views that read it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from nabla.errors import NablaError
from nabla.frontends.nested.language import Nested
from nabla.lake.alter.follow_change import follow_change
from nabla.lake.alter.redefine import redefine, with_options
from nabla.lake.context import LakeContext
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.propagate import check_ahead
from nabla.lake.refresh.schedule import check_source_schedules
from nabla.lake.refresh.views import define_view
from nabla.lake.reports import AlterReport
from nabla.lake.write.commit import Commit, retry
from nabla.storage import locations
from nabla.storage.catalog import Entry


def alter_view(context: LakeContext, name: str, query: str | DataFrame | Nested) -> AlterReport:
    """Change the definition of a view, and keep what can be kept of it."""
    try:
        with context.events.run("alter", [name]):
            return retry(context, lambda: _attempt(context, name, query))
    finally:
        context.subscriptions.deliver()


def _attempt(context: LakeContext, name: str, query: str | DataFrame | Nested) -> AlterReport:
    state = context.log.state()
    names = context.names(state)
    entry = names.entry(name, "view")
    old = load_view(entry.name, entry.definition)
    _check_alterable(context, entry, old, bool(names.auxiliary_to(entry.name)))
    new = with_options(define_view(context, entry.name, query, state), old)
    names.check_view(new)
    names.check_replacement(new, entry)
    _check_options(new)
    with Commit(context, state) as commit:
        done = redefine(context, commit, entry.without_ahead, new)
        reports = {entry.name: done.report}
        if done.change is not None:
            reports |= follow_change(context, commit, done.change, None, {})
        commit.follow()
        commit.check()
        commit.publish("alter view", reads=new.sources)
        commit.end_views()
    return AlterReport(reports)


def _check_alterable(context: LakeContext, entry: Entry, old: View, has_auxiliaries: bool) -> None:
    if old.rules:
        why, remedy = "it is a predicate of rules", "Use create_rules with rebuild=True."
    elif old.serves or old.relies_on or has_auxiliaries:
        why, remedy = "it is detached from its sources", "Create it again with detached=True and rebuild=True."
    elif locations.is_url(context.path):
        why, remedy = "a lake at a URL cannot change the schema of a table yet", "Create it again with rebuild=True."
    else:
        return
    raise NablaError("NABLA_ALTER", f'view "{entry.name}" cannot be altered: {why}', place=entry.name, remedy=remedy)


def _check_options(view: View) -> None:
    """Refuse a query that does not go with what was said when the view was made."""
    if not isinstance(view.maintain, str):
        check_source_schedules(view.maintain, view.sources, False)
    if view.ahead and isinstance(view.maintain, str):
        check_ahead(view, view.maintain)
