"""Views: from a query to a definition, with auxiliary views where it is to be maintained without its sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from nabla.algebra.nodes import Node, Project, Scan
from nabla.algebra.shape import shape
from nabla.algebra.traverse import map_nodes
from nabla.errors import NablaError
from nabla.frontends.nested.language import Nested
from nabla.frontends.spark_sql.define import define
from nabla.lake.answer.over_views import check_over, read_views_instead
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import followed_at_once, sources_of
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import View, enforced_key, is_declared_key, load_view
from nabla.lake.refresh.create import Built, ViewDefinition, create
from nabla.lake.refresh.propagate import check_ahead
from nabla.lake.refresh.schedule import Schedule, check_schedule, check_source_schedules
from nabla.lake.reports import ViewReport
from nabla.lake.write import nested_tables as nests
from nabla.planner.auxiliary_views import Auxiliary, detach
from nabla.planner.self_maintenance import SelfMaintenance, assess, readable_from_itself
from nabla.rewrite.drop_redundant import drop_redundant
from nabla.storage.catalog import LakeState

Make = Callable[[], DataFrame]
"""A function that makes the DataFrame of a view."""


def create_view(
    context: LakeContext,
    name: str,
    query: str | DataFrame | Nested,
    rebuild: bool,
    maintain: Schedule,
    detach: bool,
    ahead: bool = False,
    captures: bool = False,
    over: str | None = None,
    notes: tuple[str, ...] = (),
    follow: bool = False,
) -> ViewReport:
    """Define a view, build it and commit it; with `rebuild`, in the place of one of the same name, and with `over` from
    other views where that reads less. `notes` are stored with it."""
    if isinstance(maintain, str):
        check_schedule(maintain)
    state = context.log.state()
    names = context.names(state)
    existing = names.find(name)
    name = existing.name if existing is not None else name
    view = define_view(context, name, query, state)
    if check_over(over):
        view = read_views_instead(context, view, state, maintain)
    if not isinstance(maintain, str):
        maintain = check_source_schedules(maintain, view.sources, detach)
    if ahead:
        check_ahead(view, maintain)
    view = replace(
        view, maintain=maintain, ahead=ahead, delta_feed=captures, notes=(*view.notes, *notes), follow=follow
    )
    if existing is None:
        names.check_new(name)
    elif not rebuild:
        raise names.exists(existing, view)
    names.check_view(view)
    if existing is not None:
        names.check_replacement(view, existing)
    views = _detach(view, state) if detach else [view]
    definitions = [ViewDefinition((one,), f'view "{one.name}"') for one in views]
    replaced, auxiliary = ({existing.name}, set(names.auxiliary_to(existing.name))) if existing else (set(), set())
    report = create(context, state, "create view", definitions, replaced, auxiliary)[name]
    note = next((note for note in view.notes if over and note.startswith("OVER_VIEWS")), None)
    return replace(report, reason=f"built; {note.removeprefix('OVER_VIEWS: ')}") if note else report


def decorator(context: LakeContext, rebuild: bool, maintain: Schedule) -> Callable[[Make], Make]:
    """The decorator that makes a view of a function, named after it."""

    def make(function: Make) -> Make:
        context.spark.show_names()
        create_view(context, function.__name__, function(), rebuild, maintain, False)
        return function

    return make


def create_views(
    context: LakeContext, queries: Mapping[str, str | DataFrame | Nested], maintain: str
) -> dict[str, ViewReport]:
    """Define and build new views in the order of the mapping, and commit all of them or none."""
    check_schedule(maintain)
    if not queries:
        return {}
    new = frozenset(name.lower() for name in queries)
    definitions = [QueryDefinition(name, query, maintain, new) for name, query in queries.items()]
    return create(context, context.log.state(), "create views", definitions)


@dataclass(frozen=True)
class QueryDefinition:
    """A view that is made together with `others`, from a query that may read those before it."""

    name: str
    query: str | DataFrame | Nested
    maintain: str
    others: frozenset[str]

    def build(self, context: LakeContext, state: LakeState) -> Built:
        names = context.names(state)
        names.check_new(self.name)
        view = replace(self._define(context, state), maintain=self.maintain)
        names.check_view(view)
        return ViewDefinition((view,), f'view "{self.name}"').build(context, state)

    def _define(self, context: LakeContext, state: LakeState) -> View:
        """The definition over a state with views that are not committed yet. A session takes milliseconds to learn a name, so
        it learns these only for a query that may read one."""
        if isinstance(self.query, str) and self.others.isdisjoint(re.findall(r"\w+", self.query.lower())):
            return define_view(context, self.name, self.query, state)
        with context.spark.named_session_at(state):
            return define_view(context, self.name, self.query, state)


def define_view(context: LakeContext, name: str, query: str | DataFrame | Nested, state: LakeState) -> View:
    if isinstance(query, Nested):
        return nests.define(name, query, context, state)
    session, tables = context.spark.named_session, list(state.entries)
    defined = define(session, query, tables, name, lambda table, field: is_declared_key(state.entries[table], field))
    view = View.of(name, defined.plan, defined.outputs, defined.sql, tuple(map(str, defined.notes)))
    return replace(view, functions=defined.functions)


def _detach(view: View, state: LakeState) -> list[View]:
    """The view in a form that is maintained without its sources, after the auxiliary views that it then reads.

    A view that needs nothing but the changes of its sources follows them at once, and so do auxiliary views.
    """
    if view.opaque:
        raise NablaError(
            "NABLA_DETACHED",
            "there is no algebra for it, so that its sources cannot be told apart from it",
            place=f'view "{view.name}"',
            remedy="Create it without detached=True.",
        )
    simpler = drop_redundant(view.plan) if not view.obstacles else view.plan
    note = f"detached: {view.sql or view.nested or 'a DataFrame'}"
    plain = replace(view, sql=None, nested=None, key=(), notes=(*view.notes, note))
    if _assess(view, state, {}, by_definition=False).maintainable:
        return [replace(view if simpler is view.plan else replace(plain, plan=simpler), maintain="immediate")]
    keys = _enforced_keys(view, state)
    if not view.obstacles and readable_from_itself(simpler, keys):
        own = view if simpler is view.plan else replace(plain, plan=simpler)
        return [replace(own, maintain="immediate", relies_on=tuple(keys.items()))]
    plan, auxiliaries = _reuse(view.name, *detach(view.name, simpler, _widths(view, state)), state)
    return [*(_auxiliary_view(auxiliary, view.name) for auxiliary in auxiliaries), replace(plain, plan=plan)]


def _reuse(name: str, plan: Node, auxiliaries: Sequence[Auxiliary], state: LakeState) -> tuple[Node, list[Auxiliary]]:
    """The view over immediate views of the lake that have what an auxiliary view would have, and the auxiliary views that are
    left to make. Those that serve another view go with it, so they are not relied on."""
    immediate = [e for e in state.entries.values() if e.kind == "view" and followed_at_once(e) == sources_of(e)]
    views = (load_view(entry.name, entry.definition) for entry in immediate)
    known = {
        shape(_unnamed(own.plan)): own for own in views if not own.rules and own.serves is None and own.name != name
    }
    shapes = {a.name: shape(_unnamed(a.plan)) for a in auxiliaries}
    there = {a.name: (a, known[shapes[a.name]]) for a in auxiliaries if shapes[a.name] in known}

    def read_instead(node: Node) -> Node:
        if not isinstance(node, Scan) or node.table not in there:
            return node
        auxiliary, own = there[node.table]
        names = dict(zip(auxiliary.outputs, own.outputs, strict=True))
        return replace(node, table=own.name, fields=tuple(names[field] for field in node.fields))

    return map_nodes(plan, read_instead), [a for a in auxiliaries if a.name not in there]


def _unnamed(plan: Node) -> Node:
    """The query without a projection that only gives its columns other names."""
    if isinstance(plan, Project) and [named.expr.column for named in plan.outputs] == [
        c.name for c in plan.input.columns
    ]:
        return _unnamed(plan.input)
    return plan


def _auxiliary_view(auxiliary: Auxiliary, serves: str) -> View:
    view = View.of(auxiliary.name, auxiliary.plan, auxiliary.outputs, None, (f"{auxiliary}",))
    return replace(view, maintain="immediate", serves=serves)


def self_maintenance(context: LakeContext, names: Sequence[str]) -> tuple[SelfMaintenance, ...]:
    """For each of the views named, or of all: can they be maintained together without other sources?"""
    state = context.log.state()
    entries = [context.names(state).entry(n, "view") for n in names] or [
        e for e in state.entries.values() if e.kind == "view"
    ]
    views = [load_view(entry.name, entry.definition) for entry in entries]
    plans = {view.name: view.plan for view in views}
    return tuple(_assess(view, state, {n: p for n, p in plans.items() if n != view.name}) for view in views)


def _assess(view: View, state: LakeState, given: Mapping[str, Node], by_definition: bool = True) -> SelfMaintenance:
    obstacle = str(view.obstacles[0]) if view.obstacles else ""
    if view.recursive:
        obstacle = "the rounds of a recursion read what it is made from"
    keys = _enforced_keys(view, state)
    return assess(view.name, view.plan, view.staged, _widths(view, state), given, obstacle, keys, by_definition)


def _enforced_keys(view: View, state: LakeState) -> dict[str, tuple[str, ...]]:
    return {source: found for source in view.sources if (found := enforced_key(state, source))}


def _widths(view: View, state: LakeState) -> dict[str, int]:
    return {source: len(columns_of(state.entries[source])) for source in view.sources}
