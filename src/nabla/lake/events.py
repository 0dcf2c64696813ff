"""What happens in a lake, told while it happens: the one interface of logs, metrics, traces, progress displays and consoles.

A *run* is one call that works on the lake: a refresh, a transaction's commit, the creation of tables and views, a revert,
changes computed ahead, a verification, housekeeping that was asked for. It has an id, and its events come in this order:

    RunStarted
      ViewStarted                     for every view that is looked at; views may run side by side
        ViewPlanned                   mode, reason, estimates, the number of steps; not for one that is skipped
          StepStarted
            QueryEnded                by the driver or by Spark
          StepEnded                   with the rows that the step gave
      Committed                       the lake has a new version, of these objects; a refresh may have several
      ViewEnded                       the final report (its mode may be "skip" or "held"), or the error
    RunEnded                          all reports, or the error; always the last one

A view starts again if another writer came first, and if maintaining it took too long and it is recomputed it is planned again.

`lake.observe(observer)` calls `observer(event)` until the result is cancelled; `observe_all` hears of all lakes of the process.
Observers are called in the thread that does the work, several threads at once, so they must be quick and must not use the lake.
One that raises is logged and harms nothing. Whoever wants to wait, for a network or a screen, takes events from a queue.
Events are immutable, and `to_dict` gives them as JSON's types. For other processes `nabla.lake.running` has the same in a file.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Literal

from nabla.engine.tracing import QUIET, Answerer, StepTrace, Tracer, current_step, in_step
from nabla.lake.reports import ViewReport

_LOG = logging.getLogger("nabla")

RunKind = Literal[
    "refresh", "create", "transaction", "revert", "propagate", "verify", "drop", "optimize", "alter", "promote"
]


@dataclass(frozen=True)
class LakeEvent:
    """Something that happened: in which lake (its path), run and kind of run, and when (seconds since 1970)."""

    lake: str
    run: str
    kind: RunKind
    at: float

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON's types, with its own name under "event"."""
        return {"event": type(self).__name__, **{f.name: _plain(getattr(self, f.name)) for f in fields(self)}}


@dataclass(frozen=True)
class RunStarted(LakeEvent):
    """`names` are the objects that the run is about, as far as they are known."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ViewStarted(LakeEvent):
    view: str


@dataclass(frozen=True)
class ViewPlanned(LakeEvent):
    """`estimates` are seconds by mode. `before` and `after` are versions of the sources: the view moves from the ones to the
    others. Spark's jobs for the view are in `job_group`."""

    view: str
    mode: str
    reason: str
    steps: int
    estimates: Mapping[str, float]
    before: Mapping[str, int]
    after: Mapping[str, int]
    job_group: str = ""


@dataclass(frozen=True)
class StepStarted(LakeEvent):
    """Step `number` of the view's plan, the first one is 1, does `what`."""

    view: str
    number: int
    what: str


@dataclass(frozen=True)
class QueryEnded(LakeEvent):
    """A query of step `number` gave `rows`, after so many seconds."""

    view: str
    number: int
    by: Answerer
    rows: int | None
    seconds: float


@dataclass(frozen=True)
class StepEnded(LakeEvent):
    """`rows` is None for a step that failed, and for one that had nothing to do."""

    view: str
    number: int
    what: str
    rows: int | None
    seconds: float


@dataclass(frozen=True)
class ViewEnded(LakeEvent):
    """The final report of a view, or the error that it failed with. There is neither for a view that was verified, nor for one
    that was computed for a commit which was not made, because a constraint holds it back. A view that changed now has so many
    `rows`, and `bytes` were written to its table."""

    view: str
    report: ViewReport | None
    error: BaseException | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Committed(LakeEvent):
    """The lake has a new version. `objects` are those that it changed, with what the history says of them; one that was
    dropped is in `dropped`."""

    operation: str
    version: int
    objects: Mapping[str, Mapping[str, Any]]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunEnded(LakeEvent):
    reports: Mapping[str, ViewReport]
    seconds: float
    error: BaseException | None = None


Observer = Callable[[LakeEvent], None]


class Observation:
    """An observer that hears of events until this is cancelled."""

    def __init__(self, observers: Observers, observer: Observer) -> None:
        self._observers = observers
        self.observer = observer
        self.failed = False

    def cancel(self) -> None:
        """End it. To cancel twice does no harm."""
        self._observers.remove(self)

    def __enter__(self) -> Observation:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class Observers:
    """Observers of one lake, or of all. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: tuple[Observation, ...] = ()

    def add(self, observer: Observer) -> Observation:
        """Call an observer with all events from now on."""
        observation = Observation(self, observer)
        with self._lock:
            self.all = (*self.all, observation)
        return observation

    def remove(self, observation: Observation) -> None:
        with self._lock:
            self.all = tuple(one for one in self.all if one is not observation)


_EVERYWHERE = Observers()


def observe_all(observer: Observer) -> Observation:
    """Call `observer` with the events of all lakes of this process, until the result is cancelled."""
    return _EVERYWHERE.add(observer)


class Run:
    """A run under way: gives its events to observers. Threads may share it."""

    def __init__(self, events: Events, kind: RunKind) -> None:
        self.id = str(uuid.uuid4())
        self.kind: RunKind = kind
        self.lake = events.lake
        self.reports: dict[str, ViewReport] = {}
        self._events = events
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def tell(self, make: type[LakeEvent], *args: Any) -> None:
        """Make an event, if anybody listens, and hand it out."""
        heard = (*self._events.observers.all, *_EVERYWHERE.all)
        if not heard:
            return
        event = make(self.lake, self.id, self.kind, time.time(), *args)
        for observation in heard:
            try:
                observation.observer(event)
            except Exception:
                level = logging.DEBUG if observation.failed else logging.WARNING  # once is enough
                observation.failed = True
                _LOG.log(level, "an observer of the lake failed on %s", make.__name__, exc_info=True)

    def view_started(self, names: Sequence[str]) -> None:
        """Views that are computed together are begun."""
        with self._lock:
            self._open |= set(names)
        for name in names:
            self.tell(ViewStarted, name)

    def view_ended(self, report: ViewReport, rows: int | None = None, size: int | None = None) -> None:
        """A view has its final report, and if it changed these rows; so many bytes were written."""
        with self._lock:
            self._open.discard(report.name)
            self.reports[report.name] = report
        self.tell(ViewEnded, report.name, report, None, rows, size)

    def views_over(self, *names: str) -> None:
        """Views have ended without a report: those named, or all that were begun and have not ended."""
        with self._lock:
            over = [name for name in sorted(self._open) if not names or name in names]
            self._open -= set(over)
        for name in over:
            self.tell(ViewEnded, name, None)

    def views_failed(self, error: BaseException, names: Sequence[str] | None = None) -> None:
        """Views that were begun and have not ended, those named or all, have failed."""
        with self._lock:
            failed = [name for name in sorted(self._open) if names is None or name in names]
            self._open -= set(failed)
        for name in failed:
            self.tell(ViewEnded, name, None, error)

    def tracer(self, view: str) -> Tracer:
        """Tells of the steps and queries of a view's plan."""
        return _RunTracer(self, view)


class _Silence(Run):
    """A run that nobody hears of, for what is computed without one: previews, and views that are read fresh."""

    def __init__(self) -> None:
        super().__init__(Events(""), "refresh")

    def tell(self, make: type[LakeEvent], *args: Any) -> None:
        pass

    def view_started(self, names: Sequence[str]) -> None:
        pass

    def view_ended(self, report: ViewReport, rows: int | None = None, size: int | None = None) -> None:
        pass

    def tracer(self, view: str) -> Tracer:
        return QUIET


class _RunTracer:
    def __init__(self, run: Run, view: str) -> None:
        self._run = run
        self._view = view

    @contextmanager
    def step(self, number: int, what: str) -> Iterator[StepTrace]:
        trace, begun = StepTrace(number), time.perf_counter()
        self._run.tell(StepStarted, self._view, number, what)
        rows: int | None = None
        try:
            with in_step(number):
                yield trace
            rows = _count(trace)
        finally:
            self._run.tell(StepEnded, self._view, number, what, rows, time.perf_counter() - begun)

    @contextmanager
    def query(self, by: Answerer) -> Iterator[StepTrace]:
        trace, begun = StepTrace(current_step()), time.perf_counter()
        yield trace
        if trace.rows is not None:
            seconds = time.perf_counter() - begun
            self._run.tell(QueryEnded, self._view, trace.number, by, _count(trace), seconds)


def _count(trace: StepTrace) -> int | None:
    """The rows that were noted. Their files may be gone already, and a number is not worth an error."""
    try:
        return None if trace.rows is None else trace.rows.count
    except Exception:
        return None


class Events:
    """The observers of an open lake, and its runs."""

    def __init__(self, lake: str) -> None:
        self.lake = lake
        self.observers = Observers()

    @contextmanager
    def run(self, kind: RunKind, names: Sequence[str] = ()) -> Iterator[Run]:
        """A run, which is the current one inside. Nobody is told of runs that nobody observes."""
        if not (self.observers.all or _EVERYWHERE.all):
            yield SILENCE
            return
        run, begun = Run(self, kind), time.perf_counter()
        token = _CURRENT.set(run)
        error: BaseException | None = None
        run.tell(RunStarted, tuple(names))
        try:
            yield run
        except BaseException as raised:
            error = raised
            run.views_failed(raised)
            raise
        finally:
            _CURRENT.reset(token)
            run.views_over()
            run.tell(RunEnded, dict(run.reports), time.perf_counter() - begun, error)


SILENCE: Run = _Silence()
_CURRENT: ContextVar[Run] = ContextVar("nabla_run", default=SILENCE)


def current_run() -> Run:
    """The run that this thread works for. Other threads of it get the run handed over."""
    return _CURRENT.get()


def _plain(value: Any) -> Any:
    if isinstance(value, ViewReport):
        return value.brief()
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "code": getattr(value, "code", None), "message": str(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
