"""Which views no longer show their sources as they are, from the logs alone."""

from __future__ import annotations

from nabla.algebra.clock import Instant, Moments, stored_instant
from nabla.lake.objects.view import load_view
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog


class Staleness:
    """Answers for one state of a lake; every view is looked at once, however many others read it."""

    def __init__(self, log: LakeLog, state: LakeState) -> None:
        self._log = log
        self._state = state
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            entry = self._state.entries[name]
            self._known[name] = _time_moved(entry) or any(
                self._version(source) != version or source in self
                for source, version in entry.facts.get("sources", {}).items()
            )
        return self._known[name]

    def _version(self, source: str) -> int:
        entry = self._state.entries[source]
        part = entry.parts["data"]
        return self._log.table(part).latest() if entry.kind == "registered" else part.version


def _time_moved(entry: Entry) -> bool:
    """Whether time alone may have changed a view."""
    reflected = stored_instant(entry.facts.get("clock"))
    if not reflected:
        return False
    clock = load_view(entry.name, entry.definition).clock
    return Moments(reflected, Instant.now(reflected.zone)).moved(clock)
