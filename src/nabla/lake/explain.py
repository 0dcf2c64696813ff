"""`lake.explain`: gives the planner the facts that the logs have about a view. Starts no Spark and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nabla.algebra.clock import Instant
from nabla.algebra.expressions import Column
from nabla.engine import types
from nabla.engine.relations import Source
from nabla.explain.explanation import Explanation, Subject, explain
from nabla.explain.notes import Stored
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.origins import is_copy, last_copied
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.ahead import leads_to
from nabla.lake.refresh.facts import PinnedVersions, RefreshInputs, StaleViews, moments_of, state_snapshots
from nabla.papers.forms import FormName, check_form
from nabla.planner.choose import costs
from nabla.planner.steps import Mode, Plan, check_mode
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.table import Snapshot


def explain_view(context: LakeContext, name: str, mode: Mode, form: FormName | None = None) -> Explanation:
    """The definition and maintenance of a view or constraint, and the plan of its next refresh; nothing is run."""
    check_mode(mode)
    if form is not None:
        check_form(form)
    state = context.log.state()
    entry = context.names(state).entry(name, "view", "constraint")
    view = load_view(entry.name, entry.definition)
    versions = PinnedVersions(context.log, state)
    sources = versions.sources(entry, state)
    inputs = RefreshInputs(view, entry, sources, moments_of(view, entry, Instant.now), context.is_cold(view.name))
    stale = StaleViews(versions)
    upstream = tuple(s for s in view.sources if is_derived(state.entries[s]) and s in stale)
    subject = Subject(
        plan=_after(upstream, _with_ahead(entry, inputs.plan(mode))),
        staged=view.staged,
        view=view.plan,
        definition=_definition(view),
        obstacles=view.obstacles,
        notes=(*view.notes, *_copies(state, view)),
        last=last_refresh(entry),
        rows=entry.facts.get("rows", 0),
        version=entry.parts["data"].version,
        sources=view.sources,
        stored=_sources(state, sources) | _states(view, state_snapshots(context.log, view, entry)),
        costs=costs(inputs.facts, view.staged),
        tables={name: _columns(source) for name, source in sources.items()},
        upstream=upstream,
        form=form,
    )
    return explain(subject)


def _copies(state: LakeState, view: View) -> tuple[str, ...]:
    """What it takes to bring the copies of sources up to date that a view reads."""
    entries = (state.entries[name] for name in sorted(view.sources))
    return tuple(
        f"{e.name} is the lake's copy of a source, brought up to date first; the last time: {last_copied(e)}"
        for e in entries
        if is_copy(e)
    )


def _definition(view: View) -> str:
    """The view as it was written, as far as that is known."""
    return view.sql or view.nested or (view.denied.program.text if view.denied else "(a DataFrame)")


def last_refresh(entry: Entry) -> str:
    last = entry.facts.get("last")
    return f"{last['mode']}: {last['reason']}" if last else ""


def _with_ahead(entry: Entry, plan: Plan) -> Plan:
    """Add to the reason up to where the change was computed ahead: the refresh need not compute that part."""
    versions = leads_to(entry) if plan.mode == "incremental" else None
    if versions is None:
        return plan
    said = ", ".join(f"{name}@{version}" for name, version in versions.items())
    return replace(plan, reason=f"{plan.reason}; its change was computed ahead up to {said}")


def _after(upstream: tuple[str, ...], plan: Plan) -> Plan:
    """Add to the reason that views upstream come first: their changes are not known before they are refreshed."""
    if not upstream:
        return plan
    return replace(plan, reason=f"{plan.reason}; {', '.join(upstream)} would be refreshed first and may change")


def _sources(state: LakeState, sources: Mapping[str, Source]) -> dict[str, Stored]:
    return {
        name: Stored(
            name,
            state.entries[name].kind,
            source.old,
            source.new,
            source.after.rows,
            source.after.bytes,
            len(source.after.files),
            source.changed_rows,
        )
        for name, source in sources.items()
    }


def _columns(source: Source) -> tuple[Column, ...]:
    schema = types.from_json(source.after.schema_json)
    return tuple(Column(n, f.dataType.simpleString()) for n, f in zip(source.names, schema.fields, strict=True))


def _states(view: View, snapshots: Mapping[str, Snapshot]) -> dict[str, Stored]:
    return {
        name: Stored(name, "state", log.version, log.version, log.rows, log.bytes, len(log.files))
        for name, log in snapshots.items()
    }
