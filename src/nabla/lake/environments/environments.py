"""Making, listing and dropping environments. Each has an entry of its own in the lake's catalog, which says what the lake's
definitions were when it was last brought up to date."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from nabla.errors import NablaError
from nabla.lake.environments.log import EnvironmentLog, header_of, own_entries, show
from nabla.lake.objects.graph import LOST
from nabla.storage.catalog import ENVIRONMENT, GONE, Entry, LakeState
from nabla.storage.lakelog import LakeLog
from nabla.storage.locations import Location

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Environment:
    """An environment of a lake: its own views and tables, whether a run has completed it, and which definitions of the lake
    have changed since."""

    name: str
    objects: tuple[str, ...]
    complete: bool
    stale: tuple[str, ...]
    made: datetime.datetime

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def open_environment(path: Location, name: str) -> EnvironmentLog:
    """The log of a lake as an environment shows it. NABLA_NO_ENVIRONMENT if there is none of this name."""
    LakeLog.open(path)
    log = EnvironmentLog(path, name)
    header_of(log.whole_state(), name, log.path)
    return log


def begin(log: LakeLog, name: str) -> None:
    """Make an environment unless it is there, and note what the lake's definitions are now. It is not complete until
    `complete` says so."""
    check_name(name)
    state = log.whole_state()
    known = state.environments.get(f"{name}/")
    made = known.facts["made"] if known is not None else time.time()
    facts = {"made": made, "definitions": definitions(state), "complete": False}
    log.commit({f"{name}/": Entry("", ENVIRONMENT, {}, {}, facts)}, state, "environment")


def check_name(name: str) -> None:
    """Refuse a name that is no identifier."""
    if not _NAME.fullmatch(name):
        remedy = "Use letters, digits and underscores."
        raise NablaError("NABLA_NAME", f"{name!r} cannot be the name of an environment", place="--env", remedy=remedy)


def complete(log: EnvironmentLog) -> None:
    """Note that a run has brought everything in the environment up to date."""

    def completed(header: Entry, _: LakeState) -> dict[str, Entry | None]:
        return {log.stored_name(""): replace(header, facts={**header.facts, "complete": True})}

    _change(log, "environment", completed)


def settle(log: EnvironmentLog, changed: Collection[str], released: Collection[str]) -> None:
    """Let the environment lack the objects that have `changed`, until they are built anew, and read those that are `released`
    from the lake again, or forget them if the lake has none."""

    def settled(_: Entry, state: LakeState) -> dict[str, Entry | None]:
        lacking = {n: Entry(n, GONE, {}, {}) if n in state.entries else None for n in changed}
        stored: dict[str, Entry | None] = {**lacking, **dict.fromkeys(released)}
        return {log.stored_name(name): entry for name, entry in stored.items()}

    if changed or released:
        _change(log, "environment", settled)


def drop(log: LakeLog, name: str) -> None:
    """Drop an environment with all that it has. Its files go with the next vacuum."""
    state = log.whole_state()
    header_of(state, name, log.path)
    doomed = [stored for stored in state.environments if stored.startswith(f"{name}/")]
    log.commit(dict.fromkeys(doomed), state, "drop environment")


def environments(log: LakeLog) -> tuple[Environment, ...]:
    """All environments of a lake."""
    state = log.whole_state()
    names = [stored.removesuffix("/") for stored, entry in state.environments.items() if entry.kind == ENVIRONMENT]
    return tuple(_described(state, name, log.path) for name in sorted(names))


def _described(state: LakeState, name: str, path: str) -> Environment:
    header = header_of(state, name, path)
    own = tuple(sorted(n for n, entry in own_entries(state, name).items() if entry.kind != GONE))
    made = datetime.datetime.fromtimestamp(header.facts["made"], datetime.UTC)
    return Environment(name, own, bool(header.facts["complete"]), changed_since(state, header), made)


def definitions(state: LakeState) -> dict[str, str]:
    """The definitions of all objects of the lake, each as a short text that differs from any other's."""
    return {name: _digest(entry) for name, entry in state.entries.items()}


def changed_since(state: LakeState, header: Entry) -> tuple[str, ...]:
    """The objects of the lake that were defined anew or dropped since an environment was brought up to date, and new views.
    A new table is in nobody's way."""
    then: Mapping[str, str] = header.facts["definitions"]
    now = definitions(state)
    new = {name for name in now.keys() - then.keys() if state.entries[name].kind in ("view", "constraint")}
    return tuple(sorted(new | {name for name in then if now.get(name) != then[name]}))


def lost_sources(state: LakeState, name: str) -> tuple[str, ...]:
    """The objects of an environment that cannot be read any more, or were computed from a table that is another one now."""
    shown = show(state, name).entries
    own = [n for n, e in own_entries(state, name).items() if e.kind != GONE]
    return tuple(n for n in own if n not in shown or LOST in shown[n].facts.get("sources", {}).values())


def _digest(entry: Entry) -> str:
    return hashlib.sha256(json.dumps([entry.kind, entry.definition], sort_keys=True).encode()).hexdigest()[:16]


Make = Callable[[Entry, LakeState], dict[str, Entry | None]]
"""Makes changes of an environment's stored entries, from its header and the state of the lake."""


def _change(log: EnvironmentLog, operation: str, make: Make) -> None:
    """Commit entries of an environment as they are stored."""
    state = log.whole_state()
    header = header_of(state, log.environment, log.path)
    LakeLog.commit(log, make(header, state), state, operation)
