"""Files that were written and that no commit names yet.

Data files are written first, and a commit makes them part of a table later, or never. Whoever prepares a commit does so inside
of an `Uncommitted`: all functions that write data files note them there, so that they can be deleted if the commit fails.

Those who write give signs of life, small files in the lake's folder: with a lease a vacuum keeps what they have written so
far, and with a turn one that waits goes first. A sign that was not renewed for a while was left by a process that died, and
counts no more.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import ParamSpec, TypeVar

from nabla.storage import locations
from nabla.storage.boundary import LEASES
from nabla.storage.machine import current

P = ParamSpec("P")
T = TypeVar("T")


class Uncommitted:
    """Notes the files and the folders of new tables that are written by this thread while it is entered."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._tokens: list[Token[Uncommitted | None]] = []  # one for each time that it is entered

    def __enter__(self) -> Uncommitted:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        if self._tokens:
            _CURRENT.reset(self._tokens.pop())

    def note(self, path: str) -> None:
        self._paths.append(path)

    def take_over(self, other: Uncommitted) -> None:
        """Note what the other one has noted, in its place."""
        self._paths += other._paths
        other._paths = []

    def discard(self) -> None:
        """Delete all that was noted. A file that cannot be deleted is left to the next vacuum."""
        while self._paths:
            path = self._paths.pop()
            with suppress(OSError):
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


EXPIRES = 60.0
"""Seconds after which a lease that was not renewed counts no more."""
TURN_EXPIRES = 10.0
"""The same for the right to go first: others only lose a little time if it is taken from one that is alive."""
_RENEWED = 2.0
_CLOCKS_DIFFER = 2.0  # seconds by which the times of files may lag behind the clock
TURN = "_nabla/turn"
_SHARED_FOR = 5.0  # seconds from the beginning of a lease in which others at a URL share it
_GLANCE = 0.005  # seconds between two looks whether somebody is through


class Leases:
    """The leases that this process holds on a lake. Safe to share between threads; a thread of its own renews them."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._held: set[str] = set()
        self._shares: dict[str, int] = {}
        self._renewed = 0.0  # by the clock that does not stop with the process
        self._lock = threading.Lock()
        self._is_renewing = _never

    def take(self) -> Lease:
        """A lease from now on: files that are written until it ends are kept by every vacuum. A process that
        cannot write here will write nothing else, and gets a lease that protects nothing."""
        if locations.is_url(self._lake) and (shared := self._share_young()):
            return Lease(self, shared)
        folder = os.path.join(self._lake, LEASES)
        begun = int((current().now() - _CLOCKS_DIFFER) * 1000)
        path = os.path.join(folder, f"{begun}-{uuid.uuid4().hex}")
        try:
            locations.make_folder(folder)
            locations.write_text(path, "")
        except OSError:
            return Lease(self, "")
        with self._lock:
            self._shares[path] = 1
            self._renewed = time.monotonic()
        self._keep_renewing(path)
        return Lease(self, path)

    def _share_young(self) -> str | None:
        """A lease that has just been taken here and protects this work, too: every sign at a URL is a request. Older ones are
        not shared, because a process that always works would hold one lease for ever, and no vacuum could delete a file."""
        youngest = current().now() - _CLOCKS_DIFFER - _SHARED_FOR
        with self._lock:
            for path, shares in self._shares.items():
                if path in self._held and int(os.path.basename(path).partition("-")[0]) / 1000 >= youngest:
                    self._shares[path] = shares + 1
                    return path
        return None

    def vouch_for_files(self) -> bool:
        """Whether new files need not be looked for, which takes a request at a URL: while a lease of this process is alive no
        vacuum takes what was written under it. One that comes later puts a fence into the lake's log before."""
        with self._lock:
            return (
                locations.is_url(self._lake)
                and any(p in self._held for p in self._shares)
                and time.monotonic() - self._renewed < EXPIRES / 4
            )

    def end_lease(self, path: str) -> None:
        """Give a lease up, which ends once nobody shares it any more."""
        with self._lock:
            self._shares[path] = self._shares.get(path, 1) - 1
            if self._shares[path] > 0:
                return
            del self._shares[path]
        self.end(path)

    @contextmanager
    def turn(self, wanted: bool) -> Iterator[None]:
        """Where it is wanted, let all writers that begin after this one wait until it is through.

        Otherwise a writer that commits often and quickly would make a slow one repeat its work for ever. Only one
        can be first; another one that wants to be has to wait.
        """
        path = os.path.join(self._lake, TURN)
        first = claimed = False
        while not first:
            claimed = wanted and _claim(path)
            first = claimed or not (wanted or _is_claimed(path))
            if not first:
                current().wait(_GLANCE)
        if claimed:
            self._keep_renewing(path)
        try:
            yield
        finally:
            if claimed:
                self.end(path)

    def _keep_renewing(self, path: str) -> None:
        with self._lock:
            self._held.add(path)
            if not self._is_renewing():
                self._is_renewing = current().run_aside(self._renew)

    def end(self, path: str) -> None:
        with self._lock:
            self._held.discard(path)
        with suppress(OSError):
            locations.remove(path)

    def _renew(self) -> None:
        """Ends with the last lease. Real time counts here, whatever machine is in use."""
        resting = threading.Event()
        while True:
            resting.wait(_RENEWED)
            with self._lock:
                held = list(self._held)
                if not held:
                    self._is_renewing = _never
                    return
            for path in held:
                with suppress(OSError):
                    begun = time.monotonic()
                    locations.write_text(path, str(current().now()))
                    self._renewed = begun
                with self._lock:
                    ended = path not in self._held
                if ended:  # meanwhile, so that the file has just been made again
                    self.end(path)


def _never() -> bool:
    return False


class Lease:
    """Protects files from vacuums until it is closed, or until the object is gone."""

    def __init__(self, leases: Leases, path: str) -> None:
        self._leases = leases
        self._path = path
        self._process = os.getpid()

    def close(self) -> None:
        if self._path and self._process == os.getpid():  # a forked child has a copy, and holds nothing
            self._leases.end_lease(self._path)
            self._path = ""

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def oldest_living(lake: str) -> float | None:
    """The time when the oldest lease that still counts began, in seconds since 1970."""
    begun = [int(name.partition("-")[0]) / 1000 for name, age in _ages(lake) if age < EXPIRES]
    return min(begun, default=None)


def expired(lake: str) -> list[str]:
    """The files of leases that processes left when they died."""
    return [os.path.join(lake, LEASES, name) for name, age in _ages(lake) if age >= EXPIRES]


def _ages(lake: str) -> Iterator[tuple[str, float]]:
    folder = os.path.join(lake, LEASES)
    for name in locations.names(folder) if locations.is_folder(folder) else ():
        if name.partition("-")[0].isdigit():
            with suppress(FileNotFoundError):  # ended while we look
                yield name, current().now() - locations.modified(os.path.join(folder, name))


def _claim(path: str) -> bool:
    if _is_claimed(path):
        return False
    try:
        locations.put_text(path, uuid.uuid4().hex)  # so that an object store tells one claim from another
    except FileExistsError:
        return False
    return True


def _is_claimed(path: str) -> bool:
    if not locations.is_file(path):  # the usual case, for which an error need not be raised
        return False
    try:
        age = current().now() - locations.modified(path)
    except FileNotFoundError:
        return False
    if age < TURN_EXPIRES:
        return True
    with suppress(FileNotFoundError):
        locations.remove(path)
    return False
