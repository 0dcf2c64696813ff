"""The graph of a lake: views and constraints read tables and other views, and follow them in an order that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from nabla.lake.objects.view import load_view
from nabla.storage.catalog import ORIGIN, Entry, LakeState

Unit = tuple[str, ...]
"""Views that are computed together: one, or those of a recursion."""
Job = tuple[Unit, ...]
"""Units that are committed together, sources first."""


def is_derived(entry: Entry) -> bool:
    """Whether an object is computed from others: a view, or the violations of a constraint."""
    return entry.kind in ("view", "constraint")


LOST = -1
"""The version of a source that was built again: whoever reads it must be recomputed."""


def reads_others(state: LakeState) -> bool:
    """Whether a lake has tables of others, in place or as copies."""
    return any(entry.kind == "registered" or ORIGIN in entry.definition for entry in state.entries.values())


def sources_of(entry: Entry) -> Set[str]:
    """The tables and views that an object was computed from; none for a table."""
    return frozenset(entry.facts.get("sources", ()))


def followed_at_once(entry: Entry) -> Set[str]:
    """The sources whose changes an object follows in the same commit: constraints and immediate views follow all of theirs,
    and a view with a schedule for each source those that are immediate."""
    maintain = entry.definition.get("maintain", "deferred")
    if entry.kind == "view" and not isinstance(maintain, str):
        return frozenset(source for source, schedule in maintain.items() if schedule == "immediate")
    at_once = entry.kind == "constraint" or (entry.kind == "view" and maintain == "immediate")
    return sources_of(entry) if at_once else frozenset()


def moved_with(entry: Entry, followed: Set[str]) -> Set[str]:
    """The sources that an object is brought to the newest versions of when it follows some: these, and those that were built
    again, whose old versions are no more."""
    return followed | {source for source, version in entry.facts.get("sources", {}).items() if version == LOST}


def with_upstream(names: Iterable[str], state: LakeState) -> list[str]:
    """Views and constraints and all views they read, sources first. Views that are refreshed by hand are as they are,
    unless they are named."""
    order: dict[str, None] = {}
    named = dict.fromkeys(names)

    def visit(name: str) -> None:
        entry = state.entries[name]
        if not is_derived(entry) or name in order:
            return
        if entry.definition.get("maintain") == "manual" and name not in named:
            return
        view = load_view(name, entry.definition)
        for source in view.sources:
            visit(source)
        order.update(dict.fromkeys(view.group))

    for name in named:
        visit(name)
    return list(order)


def read_through(names: Iterable[str], state: LakeState) -> set[str]:
    """Objects, and everything that they read, directly or through others."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += sources_of(state.entries[name])
    return found


def group_into_units(names: Iterable[str], state: LakeState) -> list[Unit]:
    """The units that views belong to: the views of a recursion are computed together."""
    return list(dict.fromkeys(load_view(name, state.entries[name].definition).group for name in names))


def upstream_units(names: Iterable[str], state: LakeState) -> list[Unit]:
    """The units of views and of all views that they read, sources first."""
    return group_into_units(with_upstream(names, state), state)


def layers(names: list[str], state: LakeState) -> list[list[Job]]:
    """Jobs in layers: a job comes after all that it reads, and jobs of one layer do not read each other. `names` have
    sources first."""
    below = _jobs(group_into_units(names, state), state)
    depth: dict[Job, int] = {}
    while len(depth) < len(below):
        for job, others in below.items():
            if job not in depth and others <= depth.keys():
                depth[job] = 1 + max((depth[other] for other in others), default=-1)
    return [[job for job in below if depth[job] == d] for d in sorted(set(depth.values()))]


def _jobs(own: list[Unit], state: LakeState) -> dict[Job, set[Job]]:
    """The jobs, each with those that it reads.

    Views that one constraint reads change together, since none might change without the other; so do views between them.
    """
    job_of: dict[Unit, Job] = {unit: (unit,) for unit in own}

    def join(related: Iterable[Unit]) -> None:
        members = {u for unit in related for u in job_of[unit]}
        job = tuple(unit for unit in own if unit in members)
        job_of.update(dict.fromkeys(job, job))

    for entry in state.entries.values():
        if entry.kind == "constraint" and entry.definition["on_violation"] != "warn":
            join([unit for unit in own if sources_of(entry) & set(unit)])
    read = {unit: load_view(unit[0], state.entries[unit[0]].definition).sources for unit in own}
    upstream = {unit: [u for u in own if u != unit and not set(u).isdisjoint(read[unit])] for unit in own}
    while True:
        below = {job: {job_of[u] for unit in job for u in upstream[unit]} - {job} for job in job_of.values()}
        circle = next((job for job in below if job in _reached(job, below)), None)
        if circle is None:
            return below
        join(unit for job in _reached(circle, below) if circle in _reached(job, below) for unit in job)


def _reached(job: Job, below: Mapping[Job, set[Job]]) -> set[Job]:
    found: set[Job] = set()
    waiting = [job]
    while waiting:
        new = below[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def quarantined_tables(state: LakeState) -> set[str]:
    """The tables whose changes a constraint may set aside."""
    quarantining = (e for e in state.entries.values() if e.definition.get("on_violation") == "quarantine")
    return {source for entry in quarantining for source in entry.facts["sources"]}
