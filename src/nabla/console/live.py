"""Live updates: while somebody listens, the console looks at the lake's log and at runs under way, and tells what is new."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from nabla.console.pages import Pages
from nabla.errors import NablaError

INTERVAL = 0.7
"""Seconds between two looks at the lake. A look lists one folder."""
SIGN_OF_LIFE = 15.0
"""Seconds after which something is sent although nothing is new, so that a connection that is gone is noticed."""


@dataclass(frozen=True)
class Look:
    """The lake's version and the runs under way."""

    version: int
    running: list[dict[str, Any]]


class Pulse:
    """Looks at the lake for all listeners together. Listening ends when `is_over` says so: a server waits for its listeners."""

    def __init__(self, pages: Pages) -> None:
        self.is_over: Callable[[], bool] = lambda: False
        self._pages = pages
        self._lock = threading.Lock()
        self._looked = 0.0
        self._last = Look(-1, [])

    def look(self) -> Look:
        with self._lock:
            if time.monotonic() - self._looked >= INTERVAL / 2:
                try:
                    version = self._pages.context.log.state().version
                except NablaError:  # the page says what is wrong; here the next look may find it mended
                    version = self._last.version
                self._last = Look(version, self._pages.running())
                self._looked = time.monotonic()
            return self._last

    async def events(self, known: int) -> AsyncIterator[str]:
        """Server-sent events: `lake` whenever its version is another than the listener knows, `running` while something runs
        and once more when it has ended."""
        running: list[dict[str, Any]] = []
        quiet = 0.0
        yield "retry: 2000\n\n"
        while not self.is_over():
            look = await run_in_threadpool(self.look)
            quiet += INTERVAL
            if look.running or running:
                running, quiet = look.running, 0.0
                yield _event("running", look.running)
            if look.version != known:
                known, quiet = look.version, 0.0
                yield _event("lake", {"version": known})
            if quiet >= SIGN_OF_LIFE:
                quiet = 0.0
                yield ": here\n\n"
            await asyncio.sleep(INTERVAL)


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"
