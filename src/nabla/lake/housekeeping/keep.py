"""The versions that somebody still needs: vacuum and trimming leave them alone."""

from __future__ import annotations

from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import LOST
from nabla.storage.catalog import PATHS, Entry, LakeState


def needed_versions(context: LakeContext, state: LakeState) -> dict[str, int]:
    """By the path of a part, the oldest version that a view reflects or a subscription of this process knows. Parts that are
    not named are needed as they are now."""
    keep: dict[str, int] = {}
    for entry in state.entries.values():
        for source, version in entry.facts.get("sources", {}).items():
            if version != LOST:
                _keep(keep, state.entries[source].parts["data"].path, version)
    for entry in state.environments.values():
        for source, path in entry.facts.get(PATHS, {}).items():
            if (version := entry.facts["sources"][source]) != LOST:
                _keep(keep, path, version)
    for name, version in _subscribed(context, state):
        _keep(keep, state.entries[name].parts["data"].path, version)
    return keep


def known_everywhere(context: LakeContext, state: LakeState, view: Entry) -> int:
    """The version of a view up to which all that read its feed know it: other views, and subscriptions of this process."""
    return min(known_versions(context, state, view))


def known_versions(context: LakeContext, state: LakeState, view: Entry) -> list[int]:
    """The versions of a view that others know, in order, with its own."""
    own = view.parts["data"].version
    reflected = [
        e.facts["sources"][view.name] for e in state.entries.values() if view.name in e.facts.get("sources", {})
    ]
    reflected += [
        e.facts["sources"][view.name]
        for e in state.environments.values()
        if e.facts.get(PATHS, {}).get(view.name) == view.parts["data"].path
    ]
    heard = [version for name, version in _subscribed(context, state) if name == view.name]
    return sorted({own, *(version for version in reflected if version != LOST), *heard})


def _subscribed(context: LakeContext, state: LakeState) -> list[tuple[str, int]]:
    return [(s.view, s.version) for s in context.subscriptions.active if s.view in state.entries]


def _keep(keep: dict[str, int], path: str, version: int) -> None:
    keep[path] = min(version, keep.get(path, version))
