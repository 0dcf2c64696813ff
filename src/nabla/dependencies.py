"""What depends on what in a lake: the views and constraints that read a table, and in what order they follow it."""

from __future__ import annotations

from collections.abc import Iterable, Set

from nabla.storage.catalog import Entry, LakeState
from nabla.views import load_view


def derived(entry: Entry) -> bool:
    """Whether something is computed from other things: a view, or the violations of a constraint."""
    return entry.kind in ("view", "constraint")


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


def layers(names: list[str], state: LakeState) -> list[list[str]]:
    """By how many others they come after."""
    depth: dict[str, int] = {}
    for name in names:  # sources come first
        sources = load_view(name, state.entries[name].definition).sources
        depth[name] = 1 + max((depth.get(s, -1) for s in sources), default=-1)
    return [[n for n in names if depth[n] == d] for d in sorted(set(depth.values()))]


def together(names: Iterable[str], state: LakeState) -> list[tuple[str, ...]]:
    """The views by what is refreshed together: those of a recursion."""
    return list(dict.fromkeys(load_view(name, state.entries[name].definition).group for name in names))


def units(names: Iterable[str], state: LakeState) -> list[tuple[str, ...]]:
    """What is refreshed together, sources first, with all views on the way."""
    return together(with_upstream(names, state), state)
