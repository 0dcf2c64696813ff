"""Promotion: the views of an environment take the places of the lake's, in one commit.

Nothing is computed again and no file is moved: the entries of the environment become the lake's under the same names, with
their tables, states, feeds and the versions of the sources that they reflect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nabla.algebra.nodes import Scan
from nabla.errors import Conflict, NablaError
from nabla.lake.context import LakeContext
from nabla.lake.environments.environments import changed_since, lost_sources
from nabla.lake.environments.log import header_of, own_entries
from nabla.lake.objects.graph import followed_at_once, sources_of
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.build import outdate_readers
from nabla.lake.write.commit import Commit, retry
from nabla.storage.catalog import GONE, PATHS, Entry, LakeState


@dataclass(frozen=True)
class Promoted:
    """The outcome: the version of the lake that has the views, those that are new in it, those that took the place of others,
    and objects that went."""

    environment: str
    version: int
    new: tuple[str, ...]
    replaced: tuple[str, ...]
    dropped: tuple[str, ...]


def promote(context: LakeContext, name: str, refresh: Callable[[], None]) -> Promoted:
    """Make the views of an environment those of the lake, which `context` has open. `refresh` brings the environment up to
    date; it is called before, and again whenever somebody else's commit came first.

    NABLA_ENVIRONMENT_STALE where the lake's definitions have changed since the environment was made.
    """
    header_of(context.log.whole_state(), name, context.path)
    _check_current(context.log.whole_state(), name, context.path)
    refresh()
    try:
        with context.events.run("promote"):
            return retry(context, lambda: _attempt(context, name), refresh)
    finally:
        context.subscriptions.deliver()


def _attempt(context: LakeContext, name: str) -> Promoted:
    state = context.log.whole_state()
    _check_current(state, name, context.path)
    _check_sources(state, name)
    stored = own_entries(state, name)
    own = {n: _without_paths(entry) for n, entry in stored.items() if entry.kind != GONE}
    dropped = {n for n, entry in stored.items() if entry.kind == GONE and n in state.entries}
    dropped |= _left_rules(state, own)
    replaced = {n for n in own if n in state.entries}
    _check_readers(state, own, dropped)
    with Commit(context, state) as commit:
        commit.drop([*replaced, *dropped])
        commit.outdate(outdate_readers(commit.state, replaced | dropped))
        commit.put(own, {n: _said(entry, name) for n, entry in own.items()})
        _check_followed(commit.state, own)
        commit.follow()
        commit.check()
        inside = [stored_name for stored_name in state.environments if stored_name.startswith(f"{name}/")]
        commit.drop(inside)
        read = {source for entry in own.values() for source in sources_of(entry)}
        commit.publish(f"promote {name}", reads=read - own.keys())
        commit.end_views()
    version = context.log.state().version
    new = sorted(own.keys() - replaced)
    return Promoted(name, version, tuple(new), tuple(sorted(replaced)), tuple(sorted(dropped)))


def _left_rules(state: LakeState, own: Mapping[str, Entry]) -> set[str]:
    """Predicates that the new rules of a program do not define any more."""
    programs = {_program(entry) for entry in own.values()} - {None}
    return {name for name, entry in state.entries.items() if name not in own and _program(entry) in programs}


def _program(entry: Entry) -> str | None:
    rules = entry.definition.get("rules")
    return rules["name"] if rules else None


def _said(entry: Entry, environment: str) -> Mapping[str, object]:
    rows = entry.facts.get("rows")
    version = entry.parts["data"].version
    return {
        "version": version,
        "reason": f"promoted from {environment}",
        **({"rows": rows} if rows is not None else {}),
    }


def _check_current(state: LakeState, name: str, path: str) -> None:
    """NABLA_ENVIRONMENT_STALE where the environment was not completed, or the lake's definitions are others by now."""
    header = header_of(state, name, path)
    why = ""
    if not header.facts["complete"]:
        why = "its last run did not get to its end"
    elif changed := changed_since(state, header):
        why = f"the lake's definitions of {', '.join(changed)} have changed since"
    if why:
        raise NablaError(
            "NABLA_ENVIRONMENT_STALE",
            f'the environment "{name}" is not what a run would make now: {why}',
            place=f"lake {path}",
            remedy=f"Bring it up to date with `nabla run --env {name}`, look at it again, and repeat the promotion.",
        )


def _check_sources(state: LakeState, name: str) -> None:
    """Conflict where a view was computed from a table that is another one by now: the environment is then refreshed again."""
    if lost_sources(state, name):
        raise Conflict("NABLA_CONFLICT", "a table was made anew in the meantime", remedy="Repeat the operation.")


def _check_followed(state: LakeState, own: Mapping[str, Entry]) -> None:
    """Views that follow their sources at once must have done so when they become the lake's. Conflict if they have not: the
    environment is then refreshed again."""
    for entry in own.values():
        for source in followed_at_once(entry):
            if state.entries[source].kind != "registered":
                behind = entry.facts["sources"][source] != state.entries[source].parts["data"].version
                if behind:
                    raise Conflict("NABLA_CONFLICT", f'"{source}" has moved on', remedy="Repeat the operation.")


def _check_readers(state: LakeState, own: Mapping[str, Entry], dropped: set[str]) -> None:
    """Views of the lake that the environment does not have must find what they read."""
    for reader, entry in state.entries.items():
        if reader in own or reader in dropped or not sources_of(entry) & (own.keys() | dropped):
            continue
        missing = sorted(sources_of(entry) & dropped)
        lost = missing or [
            text for node in load_view(reader, entry.definition).plan.walk() for text in _lost(node, own)
        ]
        if lost:
            raise NablaError(
                "NABLA_IN_USE",
                f'the {entry.kind} "{reader}" of the lake reads {", ".join(lost)}, which the environment does not have',
                place=f'"{reader}"',
                remedy=f'Define "{reader}" in the project, or drop it.',
            )


def _lost(node: object, own: Mapping[str, Entry]) -> list[str]:
    if not isinstance(node, Scan) or node.table not in own:
        return []
    there = columns_of(own[node.table])
    return [f"{node.table}.{field}" for field in node.fields if field not in there]


def _without_paths(entry: Entry) -> Entry:
    return replace(entry, facts={fact: value for fact, value in entry.facts.items() if fact != PATHS})
