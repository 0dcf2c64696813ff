"""Views made from other views: the plan of a new view over the views that the lake has, where that reads less."""

from __future__ import annotations

from dataclasses import replace

from nabla.answer.answers import ViewIndex, find_answer
from nabla.answer.facts import Sizes
from nabla.engine.spark.meaning import is_ansi, meaning
from nabla.errors import wrong_argument
from nabla.lake.answer.candidates import candidates_in
from nabla.lake.context import LakeContext
from nabla.lake.objects.view import View
from nabla.lake.refresh.schedule import Schedule
from nabla.storage.catalog import LakeState

MARGIN = 0.8
"""Views have to be so much smaller than the tables to be read in their place."""


def check_over(over: str | None) -> bool:
    """Whether a view is to be made from other views."""
    if over not in (None, "views"):
        raise wrong_argument("over", over, "'views' or None")
    return over is not None


def read_itself_instead(context: LakeContext, view: View, state: LakeState) -> View:
    """A view with a new query over its own rows, which the query before gave, if they are up to date and have all that is
    needed: a stronger filter, or fewer columns. Otherwise the view itself."""
    if view.opaque or view.obstacles or view.functions or view.nested or view.clock or view.staged.stages:
        return view
    candidates, settings = candidates_in(context, state), meaning(context.spark.session)
    usable = view.name in candidates.usable and candidates.is_current(view.name)
    if not usable or candidates.settings_differ(view.name, settings):
        return view
    names = {view.name, *view.sources, *candidates.usable[view.name].sources}
    sizes = Sizes({name: candidates.rows(name) for name in names})
    known = ViewIndex([candidates.stored(view.name)])
    found = find_answer(view.plan, known, sizes=sizes, ansi=is_ansi(settings))
    return replace(view, plan=found.plan, sql=None) if found.views and found.rows <= found.plain_rows else view


def read_views_instead(context: LakeContext, view: View, state: LakeState, maintain: Schedule) -> View:
    """The view over others that have what it needs, or the view itself. Nothing that may cease to hold is relied on: keys that
    are proved now may be wrong tomorrow."""
    if view.opaque or view.obstacles or view.functions or view.nested or view.clock:
        return view
    candidates = candidates_in(context, state)
    settings = meaning(context.spark.session)
    at_once = maintain == "immediate"
    others = [
        name
        for name in candidates.near(view.sources)
        if name != view.name
        and candidates.usable[name].serves is None
        and candidates.usable[name].maintain in (("immediate",) if at_once else ("immediate", "deferred"))
        and candidates.is_current(name)
        and not candidates.settings_differ(name, settings)
        and view.name not in candidates.usable[name].sources
    ]
    names = {*others, *view.sources, *(s for name in others for s in candidates.usable[name].sources)}
    sizes = Sizes({name: candidates.rows(name) for name in names})
    found = find_answer(view.plan, ViewIndex(map(candidates.stored, others)), sizes=sizes, ansi=is_ansi(settings))
    if not found.views or found.rows > MARGIN * found.plain_rows:
        return view
    note = f"OVER_VIEWS: it reads {', '.join(found.views)} in the place of tables: {view.sql or 'a DataFrame'}"
    return replace(view, plan=found.plan, sql=None, notes=(*view.notes, note))
