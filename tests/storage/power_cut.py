"""A machine whose power goes: what was not synced by then is lost."""

from __future__ import annotations

import os
from collections.abc import Callable

from nabla.storage.machine import Machine


class PowerCut(BaseException):
    """Ends everything that runs, as nothing is caught, flushed or undone in a power cut."""


class FailingPower(Machine):
    """Loses power before its operation number `last`. `lose` is what the disk looks like afterwards: new names that were not
    synced are gone, and files that were not synced are empty."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.operations: list[tuple[str, str]] = []
        self._last = last
        self._names: set[str] = set()
        self._contents: set[str] = set()

    def lose(self) -> None:
        for path in self._contents:
            if os.path.exists(path):
                os.truncate(path, 0)
        for path in self._names:
            if os.path.isfile(path):
                os.remove(path)

    def _count(self, operation: str, path: str) -> None:
        if self._last is not None and len(self.operations) >= self._last:
            raise PowerCut
        self.operations.append((operation, path))

    def write(self, path: str, fill: Callable[[str], None]) -> None:
        self._count("write", path)
        self._names.add(path)
        self._contents.add(path)
        super().write(path, fill)

    def sync(self, path: str) -> None:
        self._count("sync", path)
        self._contents.discard(path)

    def sync_folder(self, path: str) -> None:
        self._count("sync folder", path)
        self._names = {name for name in self._names if os.path.dirname(name) != path}

    def link(self, source: str, target: str) -> None:
        self._count("link", target)
        super().link(source, target)
        self._names.add(target)
        if source in self._contents:
            self._contents.add(target)

    def move(self, source: str, target: str) -> None:
        self._count("move", target)
        super().move(source, target)
        self._names.add(target)
        if source in self._contents:
            self._contents.add(target)

    def remove(self, path: str) -> None:
        self._count("remove", path)
        super().remove(path)
