"""A machine whose disk fails."""

from __future__ import annotations

import os
from collections.abc import Callable

from nabla.storage.machine import Machine


class FaultyMachine(Machine):
    """Raises an error at its write operation number `fails`, before it is done or after it, or at all operations on paths that
    contain the text `on`. With `lasting`, all operations after that one fail, too."""

    def __init__(
        self, number: int, fails: int | None = None, on: str | None = None, after: bool = False, lasting: bool = False
    ) -> None:
        super().__init__()
        self.done = 0
        self._error, self._fails, self._on, self._after, self._lasting = number, fails, on, after, lasting

    def _do(self, path: str, operation: Callable[[], None]) -> None:
        fails = self.done == self._fails or (self._on is not None and self._on in path)
        fails = fails or (self._lasting and self._fails is not None and self.done > self._fails)
        self.done += 1
        if not fails or self._after:
            operation()
        if fails:
            raise OSError(self._error, os.strerror(self._error), path)

    def write(self, path: str, fill: Callable[[str], None]) -> None:
        self._do(path, lambda: Machine.write(self, path, fill))

    def sync(self, path: str) -> None:
        self._do(path, lambda: None)

    def sync_folder(self, path: str) -> None:
        self._do(path, lambda: None)

    def link(self, source: str, target: str) -> None:
        self._do(target, lambda: Machine.link(self, source, target))

    def move(self, source: str, target: str) -> None:
        self._do(target, lambda: Machine.move(self, source, target))

    def make_folder(self, path: str) -> None:
        self._do(path, lambda: Machine.make_folder(self, path))
