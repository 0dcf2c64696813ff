"""Files that were written and that no commit names yet.

Data files are written first, and a commit makes them part of a table later, or never. Whoever prepares a commit does so inside
of an `Uncommitted`: all functions that write data files note them there, so that they can be deleted if the commit fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import ParamSpec, TypeVar

from nabla.storage import locations

P = ParamSpec("P")
T = TypeVar("T")


class Uncommitted:
    """Notes the files and the folders of new tables that are written by this thread while it is entered."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._token: Token[Uncommitted | None] | None = None

    def __enter__(self) -> Uncommitted:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)

    def note(self, path: str) -> None:
        self._paths.append(path)

    def discard(self) -> None:
        """Delete all that was noted. A file that cannot be deleted is left to the next vacuum."""
        while self._paths:
            path = self._paths.pop()
            with contextlib.suppress(OSError):
                if locations.is_folder(path):
                    locations.remove_folder(path)
                else:
                    locations.remove(path)


_CURRENT: ContextVar[Uncommitted | None] = ContextVar("uncommitted", default=None)


def note(path: str) -> None:
    """Note a file or folder that is about to be written, if somebody prepares a commit."""
    current = _CURRENT.get()
    if current is not None:
        current.note(path)


def in_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function for another thread: files that it writes are noted where those of the calling thread are."""
    here = _CURRENT.get()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _CURRENT.set(here)
        try:
            return function(*args, **kwargs)
        finally:
            _CURRENT.reset(token)

    return run
