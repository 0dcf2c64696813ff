"""What depends on what in a lake: the views and constraints that read a table, and in what order they follow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from nabla.lake.objects.view import load_view
from nabla.storage.catalog import Entry, LakeState

Unit = tuple[str, ...]
"""Views that are computed together: one, or those of a recursion."""
Job = tuple[Unit, ...]
"""Units that are committed together, sources first."""


def derived(entry: Entry) -> bool:
    """Whether something is computed from other things: a view, or the violations of a constraint."""
    return entry.kind in ("view", "constraint")


def moves_at_once(entry: Entry) -> bool:
    """Whether an object moves in the same commit as its sources: constraints and immediate views do."""
    return entry.kind == "constraint" or (entry.kind == "view" and entry.definition.get("maintain") == "immediate")


def sources_of(entry: Entry) -> Set[str]:
    """What an entry was computed from; nothing for a table."""
    return frozenset(entry.facts.get("sources", ()))


def with_upstream(names: Iterable[str], state: LakeState) -> list[str]:
    """Views and constraints and all views they read, sources first. Views that are refreshed by hand are as they are,
    unless they are named."""
    order: dict[str, None] = {}
    named = dict.fromkeys(names)

    def visit(name: str) -> None:
        entry = state.entries[name]
        if not derived(entry) or name in order:
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


def together(names: Iterable[str], state: LakeState) -> list[Unit]:
    """The views by what is computed together: those of a recursion."""
    return list(dict.fromkeys(load_view(name, state.entries[name].definition).group for name in names))


def units(names: Iterable[str], state: LakeState) -> list[Unit]:
    """What is computed together, sources first, with all views on the way."""
    return together(with_upstream(names, state), state)


def layers(names: list[str], state: LakeState) -> list[list[Job]]:
    """What is committed together, by how many others it comes after. `names` have sources first."""
    below = _jobs(together(names, state), state)
    depth: dict[Job, int] = {}
    while len(depth) < len(below):
        for job, others in below.items():
            if job not in depth and others <= depth.keys():
                depth[job] = 1 + max((depth[other] for other in others), default=-1)
    return [[job for job in below if depth[job] == d] for d in sorted(set(depth.values()))]


def _jobs(own: list[Unit], state: LakeState) -> dict[Job, set[Job]]:
    """What is committed together, and which of it reads which.

    Views that a constraint relates change together, or none could without the other; so does what lies between them.
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
