"""Runs under way, in this process and in others: what each view is doing, and how much longer it may take.

Every run that takes longer than a second is written, once a second, to a file in the lake's folder (`_nabla/running`), which is
removed when the run ends. A thread of its own does that, so that a run only notes its events.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nabla.lake.events import (
    LakeEvent,
    QueryEnded,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    ViewEnded,
    ViewPlanned,
    ViewStarted,
)
from nabla.storage.running_files import read_running, remove_running, write_running

BEAT = 1.0
"""Seconds between two heartbeats, and the time that a run has before it is written for the first time."""


@dataclass(frozen=True)
class ViewProgress:
    """A view of a run. `state` is "waiting", "running", "done" or "failed"; `mode` and `reason` are those of the plan, or of
    the report. `step` of `steps` does `doing`; `rows` are the most that one of its steps or queries has given so far. The
    planner's estimate, which past refreshes measure, expects it to take so many seconds (`expected`)."""

    name: str
    state: str = "waiting"
    mode: str = ""
    reason: str = ""
    step: int = 0
    steps: int = 0
    doing: str = ""
    rows: int = 0
    started: float | None = None
    seconds: float | None = None
    expected: float | None = None
    inserted: int | None = None
    deleted: int | None = None


@dataclass(frozen=True)
class Running:
    """A run under way: its id and kind, the process that does it, when it began, its last heartbeat (both in seconds since
    1970), and its views by name."""

    run: str
    kind: str
    process: int
    host: str
    started: float
    heartbeat: float
    views: Mapping[str, ViewProgress] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """For how long it has been running."""
        return max(0.0, self.heartbeat - self.started)

    @property
    def left(self) -> float | None:
        """The seconds that the views which have begun still need by their estimates, or None if one has no estimate."""
        begun = [view for view in self.views.values() if view.state == "running"]
        if not begun or any(view.expected is None or view.started is None for view in begun):
            return None
        return max(max(0.0, (v.expected or 0) - (self.heartbeat - (v.started or 0))) for v in begun)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds, "left": self.left}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Running:
        """A run as a file has it. ValueError, TypeError or KeyError for anything else."""
        views = {str(name): _view_from(str(name), view) for name, view in said["views"].items()}
        return cls(
            str(said["run"]),
            str(said["kind"]),
            int(said["process"]),
            str(said["host"]),
            float(said["started"]),
            float(said["heartbeat"]),
            views,
        )


_NUMBERS = ("started", "seconds", "expected")
_COUNTS = ("step", "steps", "rows", "inserted", "deleted")


def _view_from(name: str, said: Mapping[str, Any]) -> ViewProgress:
    """A view as a file has it, with values of the right types, whoever wrote the file."""
    texts = {field: str(said.get(field, "")) for field in ("state", "mode", "reason", "doing")}
    numbers = {field: float(said[field]) for field in _NUMBERS if said.get(field) is not None}
    counts = {field: int(said[field]) for field in _COUNTS if said.get(field) is not None}
    return ViewProgress(name, **texts, **numbers, **counts)  # type: ignore[arg-type]


def after(running: Running | None, event: LakeEvent) -> Running:
    """What is known of a run after one more of its events."""
    if running is None:
        names = event.names if isinstance(event, RunStarted) else ()
        waiting = {name: ViewProgress(name) for name in names}
        return Running(event.run, event.kind, os.getpid(), _HOST, event.at, event.at, waiting)
    name = getattr(event, "view", None)
    if name is None:
        return replace(running, heartbeat=event.at)
    known = running.views.get(name) or ViewProgress(name)
    return replace(running, heartbeat=event.at, views={**running.views, name: _view_after(known, event)})


def _view_after(view: ViewProgress, event: LakeEvent) -> ViewProgress:
    match event:
        case ViewStarted():
            return ViewProgress(view.name, "running", started=event.at)
        case ViewPlanned():
            expected = event.estimates.get(event.mode)
            again = replace(view, mode=event.mode, reason=event.reason, steps=event.steps, step=0, expected=expected)
            return replace(again, state="running", started=view.started or event.at)
        case StepStarted():
            return replace(view, step=event.number, doing=event.what)
        case QueryEnded() | StepEnded():
            return replace(view, rows=max(view.rows, event.rows or 0))
        case ViewEnded():
            seconds = event.at - view.started if view.started else None
            ended = replace(view, state="failed" if event.error else "done", seconds=seconds, doing="")
            if (report := event.report) is None:
                return ended
            ended = replace(ended, inserted=report.inserted, deleted=report.deleted)
            return replace(ended, mode=report.mode, reason=report.reason, seconds=report.seconds)
    return view


_HOST = socket.gethostname()


class _Heard:
    """The events of one run: those that are folded into what is known of it, and those that came since."""

    def __init__(self, first: LakeEvent) -> None:
        self.lake = first.lake
        self.known: Running | None = None
        self.since: list[LakeEvent] = [first]

    def fold(self) -> Running:
        events, self.since = self.since, []
        for event in events:
            self.known = after(self.known, event)
        assert self.known is not None
        return self.known


class Heart:
    """Writes the files of this process's runs, from a thread that sleeps while there are none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _Heard] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def hear(self, event: LakeEvent) -> None:
        """Note an event. This is all that a run itself has to do."""
        with self._lock:
            if isinstance(event, RunStarted):
                self._runs[event.run] = _Heard(event)
                self._awake()
            elif isinstance(event, RunEnded):
                self._runs.pop(event.run, None)
            elif event.run in self._runs:
                self._runs[event.run].since.append(event)
        if isinstance(event, RunEnded) and event.seconds >= BEAT:
            remove_running(event.lake, event.run)

    def _awake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # the thread of a parent process stayed there
            self._thread = threading.Thread(target=self._beat, name="nabla-running", daemon=True)
            self._thread.start()
        self._wake.set()

    def running(self, lake: str) -> dict[str, Running]:
        """The runs of this process on a lake."""
        now = time.time()
        with self._lock:
            return {run: replace(h.fold(), heartbeat=now) for run, h in self._runs.items() if h.lake == lake}

    def all_running(self) -> list[Running]:
        """The runs of this process on all lakes, the oldest first."""
        now = time.time()
        with self._lock:
            return sorted((replace(h.fold(), heartbeat=now) for h in self._runs.values()), key=lambda run: run.started)

    def wait_for_run(self) -> None:
        """Wait until something runs, or has just been running."""
        self._wake.wait()

    def _beat(self) -> None:
        while True:
            self._wake.wait()
            time.sleep(BEAT)
            with self._lock:
                if not self._runs:
                    self._wake.clear()
                runs = [(heard.lake, heard.fold()) for heard in self._runs.values()]
            for lake, running in runs:
                self._write(lake, running)

    def _write(self, lake: str, running: Running) -> None:
        now = time.time()
        if now - running.started < BEAT:
            return
        write_running(lake, running.run, asdict(replace(running, heartbeat=now)))
        with self._lock:
            ended = running.run not in self._runs
        if ended:  # meanwhile, so that the file may have just been made again
            remove_running(lake, running.run)


HEART = Heart()


def running_runs(lake: str) -> tuple[Running, ...]:
    """The runs under way on a lake, the oldest first: those of this process, and those that others say they do."""
    found = {}
    for said in read_running(lake):
        try:
            found[str(said["run"])] = Running.from_dict(said)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue  # somebody else's file
    found |= HEART.running(lake)
    return tuple(sorted(found.values(), key=lambda one: one.started))
