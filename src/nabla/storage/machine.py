"""The port to this machine: every file operation of the storage room on a local path, its clock and its waiting.

A lake is as safe as the order of these operations. A file system may lose everything that was not synced when the power
goes: `write` puts content into a file, which is safe after `sync` of that file; a name that was made, linked, moved or
removed is safe after `sync_folder` of the folder that has it. So a commit is made in this order: data files are written and
synced, then their folders, then the commit file under a name that nobody looks for; `link` gives it its real name, which
either succeeds or raises FileExistsError; and its folder is synced.

A test that wants to see what happens at a fault, or after a power cut, puts another machine in the place of this one:

    with machine.use(FailingMachine()):
        lake.refresh()

It inherits from `Machine`, overrides operations, and works on a real folder, since Spark and deltalake read there. An
override raises an OSError before or after it calls the operation of its base class, cuts the file that `write` made, or
notes which files and names were never synced, in order to take them away later. There is one machine for all threads of a
process; an override that simulates several processes tells them apart by thread. Operations may be called from any thread.

Three kinds of files do not come through here: those that Spark writes (they do when they are adopted into a table), those
that the deltalake package reads, and those at URLs (`object_store`).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from nabla.errors import MachineFault, MissingFile, NablaError

SETTING = "NABLA_SYNC"
"""The environment variable that turns syncing off: a power cut may then lose what was committed, a killed process not."""

_AT_ONCE = 8

T = TypeVar("T")
M = TypeVar("M", bound="Machine")


class Machine:
    """The operations as the operating system does them. All paths are absolute or relative local paths."""

    def __init__(self, syncs: bool = True) -> None:
        self.syncs = syncs

    def now(self) -> float:
        """The time in seconds since 1970."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Let others go first."""
        time.sleep(seconds)

    def run_aside(self, task: Callable[[], None]) -> Callable[[], bool]:
        """Let a task that waits most of the time run until it ends by itself, or with the process. Gives a function that
        tells whether it is still running here, which it is not in a process that was forked since."""
        thread = threading.Thread(target=task, name="nabla", daemon=True)
        thread.start()
        return thread.is_alive

    def do_each(self, do: Callable[[str], None], paths: Sequence[str]) -> None:
        """Do something slow with several files, side by side."""
        if len(paths) == 1:
            do(paths[0])
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(do, paths))

    def write(self, path: str, fill: Callable[[str], None]) -> None:
        """Make or overwrite a file: `fill` gets its path, and writes all of it. An error may leave a part of it."""
        fill(path)

    def read(self, path: str, take: Callable[[str], T]) -> T:
        """The content of a file: `take` gets its path, and reads what it needs."""
        return take(path)

    def sync(self, path: str) -> None:
        """Wait until the content of a file is on the disk."""
        if self.syncs:
            _sync(path)

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are on the disk: files made there stay, files deleted there are gone."""
        if self.syncs:
            _sync(path)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, in the same file system. FileExistsError if the name is taken."""
        os.link(source, target)

    def move(self, source: str, target: str) -> None:
        """Give a file another name, in the same file system; a file that had the name is gone."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Delete a file. FileNotFoundError where there is none."""
        os.remove(path)

    def make_folder(self, path: str) -> None:
        """Make a folder whose parent exists. FileExistsError where there is one."""
        os.mkdir(path)

    def remove_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, as far as that can be done."""
        shutil.rmtree(path, ignore_errors=True)

    def names(self, folder: str) -> list[str]:
        """The names in a folder. FileNotFoundError or NotADirectoryError if there is none."""
        return os.listdir(folder)

    def tree(self, folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Every folder in a folder, with the names of folders and files in it, as `os.walk` has them."""
        return os.walk(folder)

    def stat(self, path: str) -> os.stat_result:
        """The status of a file or folder, with links followed. FileNotFoundError if there is none."""
        return os.stat(path)

    def modified(self, path: str) -> float:
        """The time when a file, a folder or a link itself was changed, in seconds since 1970."""
        return os.lstat(path).st_mtime


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_current = Machine(syncs=os.environ.get(SETTING, "on").lower() not in ("off", "0", "false", "no"))


def current() -> Machine:
    """The machine that this process works on."""
    return _current


@contextmanager
def use(other: M) -> Iterator[M]:
    """Let this process work on another machine, in all of its threads, until the block ends."""
    global _current
    before, _current = _current, other
    try:
        yield other
    finally:
        _current = before


# Faults of the machine, as errors that say which file, what is wrong with it and what to do.


class Unreachable(OSError):
    """An object store does not answer, or says that something is wrong; the words are its own."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class writing:
    """Turn errors of the operating system into NABLA_WRITE_FAILED. Errors about names that are taken or missing pass: the
    caller judges them."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, FileExistsError | FileNotFoundError | NotADirectoryError | MachineFault):
            return
        if isinstance(error, OSError):
            raise _fault("NABLA_WRITE_FAILED", "cannot write", self._place, error) from error


class reading:
    """Errors of the operating system, and files that are no Parquet (any more), become NABLA_READ_FAILED. Names in a damaged
    file may be no text, which is a UnicodeDecodeError."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, NotADirectoryError | MachineFault):
            return
        if isinstance(error, FileNotFoundError):
            raise MissingFile(
                "NABLA_READ_FAILED",
                "the file is not there",
                place=os.fspath(self._place),
                remedy="If a vacuum deleted it while it was read, read again, and give vacuum a longer grace period.",
            ) from error
        if isinstance(error, OSError):
            raise _fault("NABLA_READ_FAILED", "cannot read", self._place, error) from error
        if isinstance(error, pa.ArrowException | UnicodeDecodeError):
            raise MachineFault(
                "NABLA_READ_FAILED",
                f"the file is damaged: {_first_line(error)}",
                place=os.fspath(self._place),
                remedy="`nabla fsck` finds all damaged files. Restore this one from a copy.",
            ) from error


def _fault(code: str, what: str, place: str | os.PathLike[str], error: OSError) -> MachineFault:
    remedy = "Check the disk, and repeat the operation."
    if error.errno in _FULL:
        remedy = "Make room, and repeat the operation."
    elif error.errno in _FORBIDDEN:
        remedy = "See to the permissions of the folder, and repeat the operation."
    elif isinstance(error, Unreachable):
        remedy = "Check the network, the bucket and the credentials, and repeat the operation."
    elif error.errno is None and code == "NABLA_READ_FAILED":  # Arrow's own: the content makes no sense
        remedy = "`nabla fsck` finds all damaged files. Restore this one from a copy."
    why = os.strerror(error.errno) if error.errno is not None else _first_line(error)  # Arrow puts whole stories there
    return MachineFault(code, f"{what}: {why}", place=os.fspath(place), remedy=remedy)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


_USERS: set[int] = set()
"""The process that first used a lake here. A child that is forked later inherits this set."""


def refuse_forked() -> None:
    """NABLA_FORKED in a child of a process that has used a lake: delta-rs would panic, and Spark answers the parent."""
    if os.getpid() in _USERS:
        return
    if _USERS:
        raise NablaError(
            "NABLA_FORKED",
            "this process was forked from one that has used a lake",
            place=f"process {os.getpid()}",
            remedy='Start processes anew: multiprocessing.get_context("spawn"), or fork before the first use.',
        )
    _USERS.add(os.getpid())


_place = ""
_visits_left = 0


def arm(spec: str) -> None:
    """Die at the place that `spec` names, `lake.committed`, or with `lake.committed:2` at its second visit from now on. An
    empty spec disarms. The environment variable NABLA_FAULT has one for a process as it begins."""
    global _place, _visits_left
    _place, _, count = spec.partition(":")
    _visits_left = int(count or 1)


def point(name: str) -> None:
    """Mark a place where a test can kill the process; does nothing unless this place is armed. The
    process dies by SIGKILL, so that nothing is caught, flushed or undone."""
    global _visits_left
    if _place != name:
        return
    _visits_left -= 1
    if _visits_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("NABLA_FAULT", ""))
