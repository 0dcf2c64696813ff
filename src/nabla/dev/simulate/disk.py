"""A machine on which operations take turns and go wrong, and whose disk forgets what was not synced when the power goes.

It works on a real folder, best in memory, because pyarrow and deltalake read there. For every name that was made, moved or
removed it remembers what the disk has under that name until the folder is synced, and which files have content that was
not synced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from nabla.dev.simulate.schedule import Kind, Loss
from nabla.storage.machine import Machine

T = TypeVar("T")

WAIT = "wait"
TICK = 0.01
"""Seconds that an operation takes."""

Turn = Callable[[str, str], Kind | None]
"""Called with the name of an operation and the path that it is about."""


class Died(BaseException):
    """The process is dead: nothing that it still tries has an effect. No handler of errors may catch this."""


class Outside(AssertionError):
    """An operation would have changed something outside of the lake."""


class SimulatedMachine(Machine):
    """`turn` is called before every operation. It lets others go first, and tells what goes wrong with this one."""

    def __init__(self, home: Path, graves: Path, turn: Turn, syncs: bool = True) -> None:
        super().__init__(syncs)
        self.time = 1_000_000.0
        self._home = f"{home}{os.sep}"
        self._graves = graves
        self._turn = turn
        self._times: dict[str, float] = {}
        self._before: dict[str, str | None] = {}  # what the disk has under a name: another name of the file, or nothing
        self._unsynced: set[int] = set()  # files, by inode
        self._buried = 0
        self._inside: set[str] = set()  # folders that are known to be inside of the lake

    # ---------------------------------------------------------------- operations

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(OSError):  # waiting does not fail
            self._do(WAIT, "", lambda: None)
        self.time += seconds

    def run_aside(self, task: Callable[[], None]) -> Callable[[], bool]:
        """Nothing runs aside: a lease lasts longer than an actor works, unless a long delay makes the actor look dead."""
        return lambda: True

    def do_each(self, do: Callable[[str], None], paths: Sequence[str]) -> None:
        """One after the other, so that each can go wrong."""
        for path in paths:
            do(path)

    def write(self, path: str, fill: Callable[[str], None]) -> None:
        self._check_inside(path)

        def effect() -> None:
            self._note_name(path)
            fill(path)
            self._unsynced.add(os.stat(path).st_ino)
            self._touch(path)

        def half() -> None:
            effect()
            os.truncate(path, os.path.getsize(path) // 2)

        self._do("write", path, effect, half)

    def read(self, path: str, take: Callable[[str], T]) -> T:
        return self._do("read", path, lambda: take(path))

    def sync(self, path: str) -> None:
        if self.syncs:
            self._do("sync", path, lambda: self._unsynced.discard(os.stat(path).st_ino))

    def sync_folder(self, path: str) -> None:
        def effect() -> None:
            os.stat(path)
            for name in [name for name in self._before if os.path.dirname(name) == path]:
                del self._before[name]

        if self.syncs:
            self._do("sync folder", path, effect)

    def link(self, source: str, target: str) -> None:
        self._check_inside(target)

        def effect() -> None:
            os.link(source, target)
            self._before.setdefault(target, None)
            self._touch(target)

        self._do("link", target, effect)

    def move(self, source: str, target: str) -> None:
        self._check_inside(source)
        self._check_inside(target)

        def effect() -> None:
            self._note_name(source)
            self._note_name(target)
            os.replace(source, target)
            self._touch(target)

        self._do("move", target, effect)

    def remove(self, path: str) -> None:
        self._check_inside(path)

        def effect() -> None:
            self._note_name(path)
            os.remove(path)

        self._do("remove", path, effect)

    def make_folder(self, path: str) -> None:
        self._check_inside(path)

        def effect() -> None:
            os.mkdir(path)
            self._before.setdefault(path, None)
            self._touch(path)

        self._do("make folder", path, effect)

    def remove_folder(self, path: str) -> None:
        self._check_inside(path)

        def effect() -> None:
            shutil.rmtree(path, ignore_errors=True)
            for name in [name for name in self._before if name.startswith(f"{path}{os.sep}")]:
                del self._before[name]

        with contextlib.suppress(OSError):  # as far as it can be done
            self._do("remove folder", path, effect)

    def names(self, folder: str) -> list[str]:
        return self._do("names", folder, lambda: sorted(os.listdir(folder)))

    def tree(self, folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
        self._do("tree", folder, lambda: None)
        for place, folders, names in os.walk(folder):
            folders.sort()
            yield place, folders, sorted(names)

    def stat(self, path: str) -> os.stat_result:
        return self._do("stat", path, lambda: os.stat(path))

    def modified(self, path: str) -> float:
        def effect() -> float:
            os.lstat(path)
            return self._times.get(path, 0.0)

        return self._do("modified", path, effect)

    # --------------------------------------------------------------- what happens

    def _do(self, operation: str, path: str, effect: Callable[[], T], half: Callable[[], None] | None = None) -> T:
        fault = self._turn(operation, path)
        self.time += TICK
        if fault is None:
            return effect()
        if fault in ("fail", "half"):
            if fault == "half" and half is not None:
                half()
            raise OSError(errno.ENOSPC if half is not None else errno.EIO, "simulated fault")
        if fault in ("die", "cut"):
            raise Died
        done = effect()
        if fault == "fail after":
            raise OSError(errno.EIO, "simulated fault")
        if fault in ("die after", "cut after"):
            raise Died
        return done

    def _check_inside(self, path: str) -> None:
        folder = os.path.dirname(path)
        if folder not in self._inside:
            if not f"{os.path.realpath(folder)}{os.sep}".startswith(self._home):
                raise Outside(f"{path} is outside of the lake")
            self._inside.add(folder)

    def _touch(self, path: str) -> None:
        self._times[path] = self._times[os.path.dirname(path)] = self.time

    def _note_name(self, path: str) -> None:
        """Remember what the disk has under a name, unless an earlier change of the name is not synced either."""
        if path in self._before:
            return
        if not os.path.lexists(path):
            self._before[path] = None
            return
        self._buried += 1
        grave = str(self._graves / str(self._buried))
        os.link(path, grave)
        self._before[path] = grave

    # ------------------------------------------------------------------ power cut

    def lose(self, loss: Loss, rng: Random) -> None:
        """The power goes: what was not synced is lost, or a part of it."""
        lost = {"nothing": 0.0, "some": 0.5, "everything": 1.0}[loss]
        for path, before in reversed(self._before.items()):
            if rng.random() < lost:
                _put_back(path, before)
        for folder, _, names in os.walk(self._home):
            for path in (os.path.join(folder, name) for name in sorted(names)):
                if os.stat(path).st_ino in self._unsynced and rng.random() < lost:
                    os.truncate(path, os.path.getsize(path) // rng.choice((2, 1_000_000)))
        self._before.clear()
        self._unsynced.clear()


def _put_back(path: str, before: str | None) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
    if before is not None and os.path.isdir(os.path.dirname(path)):
        os.link(before, path)
