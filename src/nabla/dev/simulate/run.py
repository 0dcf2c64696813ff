"""Running a schedule: actors are greenlets that take turns at every file operation, on a machine where things go wrong."""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import sys
import tempfile
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
from greenlet import getcurrent, greenlet

from nabla.dev.simulate import world
from nabla.dev.simulate.disk import WAIT, Died, SimulatedMachine
from nabla.dev.simulate.memory import remembering
from nabla.dev.simulate.model import Violation, check_diary, check_state
from nabla.dev.simulate.schedule import Kind, Schedule
from nabla.errors import NablaError
from nabla.storage import deletion_vectors, machine, rewrite
from nabla.storage.lake_checks import UNSURE

MEMORY = "/dev/shm"
LIMIT = 20_000
"""File operations after which an actor is taken to run for ever."""


_DELAYS: Mapping[Kind | None, float] = {
    "delay": 2 * world.GRACE.total_seconds(),
    "long delay": 200 * world.GRACE.total_seconds(),
}


@dataclass
class Running:
    """One actor at work: its greenlet, and how many file operations it has begun."""

    number: int
    greenlet: greenlet
    operations: int = 0
    dead: bool = False


@dataclass
class Simulation:
    """A schedule on a lake of its own."""

    schedule: Schedule
    path: Path
    graves: Path
    diary: world.Diary
    syncs: bool = True

    def __post_init__(self) -> None:
        self.machine = SimulatedMachine(self.path, self.graves, self._turn, self.syncs)
        self._home = f"{self.path}/"
        self.running: list[Running] = []
        self.current: Running | None = None
        self.next = 0
        self.is_cut = False
        self._switches = {(switch.actor, switch.at): switch.to for switch in self.schedule.switches}
        self._faults = {(fault.actor, fault.at): fault.kind for fault in self.schedule.faults}
        self._rows = 100
        self.trace: list[str] = []

    # --------------------------------------------------------------- scheduling

    def run(self) -> None:
        """Raises Violation, or any other error that a user would have seen without a code."""
        chance = _chance(self.schedule.seed)
        quiet = (_hearing(self.diary), _quiet_finalizers(), _no_collector())
        with ExitStack() as stack:
            for context in (machine.use(self.machine), remembering(), chance, *quiet):
                stack.enter_context(context)
            self.running = [Running(i, greenlet(self._act)) for i in range(len(self.schedule.actors))]
            try:
                while any(not actor.greenlet.dead for actor in self.running):
                    self._resume(self._choose())
            finally:
                self._end()
            if self.is_cut or self.schedule.cut_at_end:
                self.machine.lose(self.schedule.loss, Random(self.schedule.seed))
            self._check()

    def _end(self) -> None:
        """Let the actors die that a violation leaves behind."""
        self.is_cut = self.is_cut or any(not actor.greenlet.dead for actor in self.running)
        for actor in self.running:
            while not actor.greenlet.dead:
                self._resume(actor)

    def _choose(self) -> Running:
        """The actor that a switch has named, or the next one that is still at work."""
        waiting = [*self.running[self.next :], *self.running[: self.next]]
        return next(actor for actor in waiting if not actor.greenlet.dead)

    def _resume(self, actor: Running) -> None:
        self.current, self.next = actor, actor.number
        actor.greenlet.switch(actor)
        self.current = None

    def _turn(self, operation: str, path: str) -> Kind | None:
        """What goes wrong with the operation that the current actor begins. Others may go first."""
        actor = self.current
        if actor is None or getcurrent() is not actor.greenlet:
            return None  # the check at the end
        self._check_alive(actor)
        actor.operations += 1
        if actor.operations > LIMIT:
            raise Violation(f"actor {actor.number} does not end")
        others = actor.number + 1 if operation == WAIT else None
        here = (actor.number, actor.operations)
        to = self._switches.get(here, others)
        if to is not None:
            self.next = to
            actor.greenlet.parent.switch()
            self._check_alive(actor)
        fault = self._faults.get(here)
        self.trace.append(f"{actor.number}: {operation} {self._inner(path)}{f' ({fault})' if fault else ''}")
        if fault is not None:
            self.machine.time += _DELAYS.get(fault, 0.0)
            actor.dead = fault in ("die", "die after")
            self.is_cut = self.is_cut or fault in ("cut", "cut after")
        return fault

    def _inner(self, path: str) -> str:
        """A path from the lake on: each run has a lake of another name."""
        inside = not path or path.startswith(self._home)
        return path[len(self._home) :] if inside else os.path.relpath(path, self.path)

    def _check_alive(self, actor: Running) -> None:
        if actor.dead or self.is_cut:
            actor.dead = True
            raise Died

    # ------------------------------------------------------------------- actors

    def _act(self, actor: Running) -> None:
        role = self.schedule.actors[actor.number]
        try:
            context = self._open(actor)
            for i in range(role.times):
                self._do(role.role, context, f"{actor.number}-{i}")
        except Died:
            pass

    def _open(self, actor: Running) -> world.LakeContext:
        """A fault may keep a lake from being opened; the same actor may try again."""
        for _ in range(len(self.schedule.faults)):
            try:
                return world.open_context(str(self.path))
            except NablaError:
                continue
        return world.open_context(str(self.path))

    def _do(self, role: str, context: world.LakeContext, name: str) -> None:
        if role == "writer":
            self._rows += 1
            world.transact(context, name, self.diary, self._rows)
            return
        try:
            if role == "refresher":
                world.refresh(context)
            elif role == "vacuum":
                world.clean(context)
            elif role == "housekeeper":
                world.keep_house(context)
            else:
                check_state(context.log, context.log.state(), self.diary)
        except NablaError:
            pass  # a fault with a code; whether it did harm is checked at the end

    def _check(self) -> None:
        """The lake is as it must be; once in a while, whether it works on as if nothing had happened, too."""
        self._check_lake()
        if self.schedule.seed % 16 == 0:
            context = world.open_context(str(self.path))
            self._rows += 1
            world.transact(context, "after", self.diary, self._rows)
            if not self.diary.acknowledged[-1].startswith("after"):
                raise Violation(f"the lake cannot be written any more: {self.diary.refused}")
            world.refresh(context)
            self.machine.time += _DELAYS["long delay"]
            world.clean(context)
            self._check_lake()

    def _check_lake(self) -> None:
        log = world.open_context(str(self.path)).log
        check_diary(str(self.path), self.diary)
        check_state(log, log.state(), self.diary)


@contextmanager
def _hearing(diary: world.Diary) -> Iterator[None]:
    """Note warnings of commits that the disk has not confirmed, and print none."""

    def hear(record: logging.LogRecord) -> bool:
        diary.unsure = diary.unsure or UNSURE in record.getMessage()
        return False

    log = logging.getLogger("nabla")
    log.addFilter(hear)
    try:
        yield
    finally:
        log.removeFilter(hear)


@contextmanager
def _quiet_finalizers() -> Iterator[None]:
    """Objects of an actor that died try to clean up when they are collected, which nobody needs to hear of."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda said: None if isinstance(said.exc_value, Died) else before(said)
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _no_collector() -> Iterator[None]:
    """Collect no cycles while actors work: a lease in one would be deleted at another moment of every run."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def _chance(seed: int) -> Iterator[None]:
    """New names, and how long writers that met wait, are chosen by the seed: a schedule gives the same files every time."""
    rng, new_name, chance = Random(seed), uuid.uuid4, random.getstate()
    uuid.uuid4 = lambda: uuid.UUID(int=rng.getrandbits(128), version=4)
    random.seed(seed)
    try:
        yield
    finally:
        uuid.uuid4 = new_name
        random.setstate(chance)


@contextmanager
def _marking_all() -> Iterator[None]:
    """Let deleted rows of the few that there are be marked, in files: a lake with more rows would take too long."""
    before = rewrite.MARKED_FROM, rewrite.MOST_HIDDEN, deletion_vectors.INLINE_BYTES
    rewrite.MARKED_FROM, rewrite.MOST_HIDDEN, deletion_vectors.INLINE_BYTES = 0, 0.7, 0
    try:
        yield
    finally:
        rewrite.MARKED_FROM, rewrite.MOST_HIDDEN, deletion_vectors.INLINE_BYTES = before


class Stage:
    """Where simulations take place: a folder in memory, with a founded lake that each of them gets a copy of."""

    def __init__(self, syncs: bool = True) -> None:
        self._marking = ExitStack()
        self._marking.enter_context(_marking_all())
        self._threads = pa.cpu_count()
        pa.set_cpu_count(1)  # files of a few rows: more threads only cost time
        self._syncs = syncs
        self.folder = Path(tempfile.mkdtemp(prefix="nabla-simulate-", dir=MEMORY if os.path.isdir(MEMORY) else None))
        self._founded = self.folder / "founded"
        self._count = 0
        self._diary = world.Diary()
        quiet = SimulatedMachine(self.folder, self.folder, lambda *_: None)
        quiet.time = 0.0
        with machine.use(quiet):
            world.found(str(self._founded))
            context = world.open_context(str(self._founded))
            world.transact(context, "first", self._diary, 10)
            world.refresh(context)
            world.transact(context, "second", self._diary, 11)
        walked = [(place.removeprefix(str(self._founded)), names) for place, _, names in os.walk(self._founded)]
        self._folders = [folder for folder, _ in walked]
        self._files = [f"{folder}/{name}" for folder, names in walked for name in names]

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._marking.close()
        pa.set_cpu_count(self._threads)
        shutil.rmtree(self.folder, ignore_errors=True)

    def play(self, schedule: Schedule) -> Played:
        """Run a schedule. Files of a lake never change, so that links serve as copies."""
        self._count += 1
        path, graves = self.folder / f"lake{self._count}", self.folder / f"graves{self._count}"
        self._copy_founded(path)
        graves.mkdir()
        simulation = Simulation(schedule, path, graves, deepcopy(self._diary), self._syncs)
        violation = ""
        try:
            simulation.run()
        except Exception as error:
            violation = _describe(error)
        finally:
            shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(graves, ignore_errors=True)
        return Played(violation, tuple(simulation.trace))

    def _copy_founded(self, path: Path) -> None:
        for folder in self._folders:
            os.mkdir(f"{path}{folder}")
        for file in self._files:
            os.link(f"{self._founded}{file}", f"{path}{file}")


@dataclass(frozen=True)
class Played:
    """What a schedule violated, if anything, and the file operations of all actors in order."""

    violation: str
    trace: tuple[str, ...]


def _describe(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
    return f"{type(error).__name__}: {error}\n{places}"


def run(schedule: Schedule) -> None:
    """Run one schedule, and raise what it violates after the file operations that led there."""
    with Stage() as stage:
        played = stage.play(schedule)
    if played.violation:
        raise Violation("\n".join((*played.trace, played.violation)))
