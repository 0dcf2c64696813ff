"""OpenTelemetry: a span for each run, below it one for each view, its steps and their queries."""

from __future__ import annotations

import threading
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from nabla.lake.events import (
    Committed,
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

_Key = tuple[str | int, ...]


class SpanObserver:
    """Makes spans of events. The span of a run is below the one that is current where the run begins."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("nabla", tracer_provider=provider)
        self._open: dict[_Key, Span] = {}
        self._lock = threading.Lock()

    def hear(self, event: LakeEvent) -> None:
        match event:
            case RunStarted():
                self._start((event.run,), None, f"nabla {event.kind}", event, {"nabla.names": list(event.names)})
            case ViewStarted():
                self._end((event.run, event.view), event, {"nabla.repeated": True})
                self._start(
                    (event.run, event.view), (event.run,), f"view {event.view}", event, {"nabla.view": event.view}
                )
            case ViewPlanned():
                self._note((event.run, event.view), {"nabla.mode": event.mode, "nabla.reason": event.reason})
            case StepStarted():
                parent, key = (event.run, event.view), (event.run, event.view, event.number)
                self._start(key, parent, event.what, event, {"nabla.step": event.number})
            case QueryEnded():
                self._query(event)
            case StepEnded():
                self._end((event.run, event.view, event.number), event, _rows(event.rows))
            case ViewEnded():
                self._end((event.run, event.view), event, _of_report(event), event.error)
            case Committed():
                self._note((event.run,), {"nabla.version": event.version, "nabla.operation": event.operation})
            case RunEnded():
                self._run_ended(event)

    def _start(self, key: _Key, parent: _Key | None, name: str, event: LakeEvent, said: dict[str, Any]) -> None:
        with self._lock:
            above = self._open.get(parent) if parent else None
        context = trace.set_span_in_context(above) if above is not None else None
        attributes = {"nabla.lake": event.lake, "nabla.run": event.run, **said}
        span = self._tracer.start_span(name, context, SpanKind.INTERNAL, attributes, start_time=_nanoseconds(event.at))
        with self._lock:
            self._open[key] = span

    def _note(self, key: _Key, said: dict[str, Any]) -> None:
        with self._lock:
            span = self._open.get(key)
        if span is not None:
            span.set_attributes(said)

    def _query(self, event: QueryEnded) -> None:
        with self._lock:
            above = self._open.get((event.run, event.view, event.number)) or self._open.get((event.run, event.view))
        context = trace.set_span_in_context(above) if above is not None else None
        attributes = {"nabla.lake": event.lake, "nabla.run": event.run, "nabla.by": event.by, **_rows(event.rows)}
        begun = _nanoseconds(event.at - event.seconds)
        span = self._tracer.start_span(f"query by {event.by}", context, SpanKind.INTERNAL, attributes, start_time=begun)
        span.end(_nanoseconds(event.at))

    def _end(self, key: _Key, event: LakeEvent, said: dict[str, Any], error: BaseException | None = None) -> None:
        with self._lock:
            span = self._open.pop(key, None)
        if span is None:
            return
        span.set_attributes(said)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(_nanoseconds(event.at))

    def _run_ended(self, event: RunEnded) -> None:
        with self._lock:
            left = [key for key in self._open if key[0] == event.run and len(key) > 1]
        for key in sorted(left, key=len, reverse=True):
            self._end(key, event, {})
        self._end((event.run,), event, {"nabla.views": len(event.reports)}, event.error)


def _rows(rows: int | None) -> dict[str, Any]:
    return {} if rows is None else {"nabla.rows": rows}


def _of_report(event: ViewEnded) -> dict[str, Any]:
    if (report := event.report) is None:
        return {}
    said = {"mode": report.mode, "reason": report.reason, "inserted": report.inserted, "deleted": report.deleted}
    return {f"nabla.{name}": value for name, value in said.items()} | {"nabla.version": report.version}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
