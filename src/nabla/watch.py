"""A long-lived process: looks at the lake's sources, refreshes what a new version made stale, tells who listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nabla.dependencies import with_upstream
from nabla.errors import NablaError
from nabla.staleness import Staleness

if TYPE_CHECKING:
    from nabla.lake import Lake
    from nabla.planner.steps import Mode
    from nabla.results import ViewReport

PATIENCE = 60.0
"""A refresh that fails is tried again after a while that doubles up to so many seconds."""

Wait = Callable[[float], bool]
"""Waits for so many seconds, or until somebody wants the watch to end: then the answer is true."""


def _nothing(_: object) -> None:
    pass


@dataclass
class Watch:
    """Watches the views named, with what they depend on, or all. One view that cannot be refreshed stops no other."""

    lake: Lake
    views: Sequence[str] = ()
    mode: Mode = "auto"
    interval: float = 1.0
    refreshed: Callable[[ViewReport], object] = _nothing
    failed: Callable[[NablaError], object] = _nothing
    _failures: int = field(default=0, init=False)

    def run(self, wait: Wait, seconds: float | None = None) -> None:
        """Until `wait` says so, or for so many seconds. A refresh that has begun is finished."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            self.turn()
            pause = min(self.interval * 2.0 ** min(self._failures, 16), max(self.interval, PATIENCE))
            if end is not None:
                pause = min(pause, end - time.monotonic())
            if pause <= 0 or wait(pause):
                return

    def turn(self) -> bool:
        """Looks once, and refreshes what is stale; whether all of that worked."""
        try:
            stale = self._stale()
            worked = not stale or self._refresh(stale)
            self.lake._subscriptions.deliver()  # somebody else may have refreshed
        except NablaError as error:
            self.failed(error)
            worked = False
        self._failures = 0 if worked else self._failures + 1
        return worked

    def _stale(self) -> tuple[str, ...]:
        state = self.lake._log.state()
        stale = Staleness(self.lake._log, state).views()
        if not self.views:
            return stale
        watched = with_upstream((self.lake._declared(state).entry(n, "view").name for n in self.views), state)
        return tuple(n for n in stale if n in watched)

    def _refresh(self, names: tuple[str, ...]) -> bool:
        try:
            self.lake.refresh(*names, mode=self.mode, progress=self._progress)
        except NablaError as error:
            if len(names) > 1:
                worked = [self._refresh((name,)) for name in names]
                return all(worked)
            self.failed(error)
            return False
        return True

    def _progress(self, report: ViewReport) -> None:
        if report.mode != "skip":
            self.refreshed(report)
