"""Sends things from a thread of its own, so that a slow or failing receiver costs a refresh nothing."""

from __future__ import annotations

import atexit
import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_LOG = logging.getLogger("nabla")
T = TypeVar("T")

MOST_WAITING = 10_000
"""Things that may wait for a receiver. More are dropped, which is logged once."""
PATIENCE = 5.0
"""Seconds that the end of the process waits for what was not sent yet."""
SILENCE = 60.0
"""Seconds between two warnings about one receiver."""


class Sender(Generic[T]):
    """Calls `send` with each thing, in order. Errors are logged, now and then, and harm nothing."""

    def __init__(self, send: Callable[[T], None], receiver: str) -> None:
        self._send = send
        self._receiver = receiver
        self._waiting: queue.Queue[T] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._complained = -math.inf
        atexit.register(self.flush, PATIENCE)

    def put(self, thing: T) -> None:
        """Have a thing sent. This never waits and never raises."""
        try:
            self._waiting.put_nowait(thing)
        except queue.Full:
            self._complain("too many events wait for %s: some are lost")
            return
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="nabla-sender", daemon=True)
                    self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is sent, or for so many seconds; whether it is."""
        end = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)
        return not self._waiting.unfinished_tasks

    def close(self) -> None:
        """Wait for what was not sent, and wait no more at the end of the process."""
        self.flush(PATIENCE)
        atexit.unregister(self.flush)

    def _run(self) -> None:
        while True:
            thing = self._waiting.get()
            try:
                self._send(thing)
            except Exception:
                self._complain("%s does not take events", with_error=True)
            finally:
                self._waiting.task_done()

    def _complain(self, message: str, with_error: bool = False) -> None:
        now = time.monotonic()
        level = logging.DEBUG if now - self._complained < SILENCE else logging.WARNING
        if level == logging.WARNING:
            self._complained = now
        _LOG.log(level, message, self._receiver, exc_info=with_error)
