"""Metrics for Prometheus: counted while lakes work, and measured at the lake when somebody asks."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, make_asgi_app, make_wsgi_app
from prometheus_client import start_http_server as start_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.events import LakeEvent, RunEnded, RunStarted, ViewEnded, observe_all
from nabla.lake.objects.graph import is_derived
from nabla.lake.refresh.facts import PinnedVersions, StaleViews

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_OF_VIEW = ("lake", "view")


class Metrics:
    """Counts what all lakes of this process do, from now on until it is cancelled, and measures the given lakes when asked.

    `wsgi` and `asgi` are applications to mount, `text()` is the exposition, `serve` starts a server of its own.
    """

    def __init__(self, lakes: Iterable[LakeContext] = (), registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._lakes = LakeCollector(list(lakes))
        self._refreshes = self._counter("nabla_refreshes", "Views brought up to date, by mode.", (*_OF_VIEW, "mode"))
        self._seconds = self._histogram("nabla_refresh_seconds", "Seconds of a view's refresh.", (*_OF_VIEW, "mode"))
        self._rows = self._counter("nabla_rows_changed", "Rows that views gained and lost.", (*_OF_VIEW, "change"))
        self._bytes = self._counter("nabla_bytes_written", "Bytes written to the tables of views.", _OF_VIEW)
        self._failures = self._counter("nabla_failures", "Views that failed, by code.", (*_OF_VIEW, "code"))
        self._runs = self._counter("nabla_runs", "Runs that ended, by kind and outcome.", ("lake", "kind", "outcome"))
        self._run_seconds = self._histogram("nabla_run_seconds", "Seconds of a run.", ("lake", "kind"))
        self.registry.register(self._lakes)
        self._observation = observe_all(self._hear)

    @property
    def wsgi(self) -> Callable[..., Any]:
        """A WSGI application that answers with the metrics."""
        return make_wsgi_app(self.registry)

    @property
    def asgi(self) -> Callable[..., Any]:
        """An ASGI application that answers with the metrics."""
        return make_asgi_app(self.registry)

    def text(self) -> str:
        """The metrics in Prometheus' text form."""
        return generate_latest(self.registry).decode()

    def serve(self, port: int, host: str = "127.0.0.1") -> Callable[[], None]:
        """Answer at http://host:port/metrics from a thread of its own. Gives a function that ends that."""
        try:
            server, thread = start_server(port, host, self.registry)
        except (OSError, OverflowError) as error:
            raise NablaError(
                "NABLA_PORT",
                f"metrics cannot be served at {host}:{port}: {error}",
                remedy="Choose a port that is free.",
            ) from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join(5)

        return stop

    def cancel(self) -> None:
        """Count no more."""
        self._observation.cancel()

    def _counter(self, name: str, help: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, help, labels, registry=self.registry)

    def _histogram(self, name: str, help: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(name, help, labels, registry=self.registry, buckets=BUCKETS)

    def _hear(self, event: LakeEvent) -> None:
        match event:
            case ViewEnded():
                self._count_view(event)
            case RunStarted():
                self._lakes.run_started(event)
            case RunEnded():
                self._lakes.run_ended(event)
                self._runs.labels(event.lake, event.kind, "failed" if event.error else "done").inc()
                self._run_seconds.labels(event.lake, event.kind).observe(event.seconds)

    def _count_view(self, event: ViewEnded) -> None:
        if event.error is not None:
            code = str(getattr(event.error, "code", type(event.error).__name__))
            self._failures.labels(event.lake, event.view, code).inc()
        if event.report is None:
            return
        report = event.report
        self._refreshes.labels(event.lake, event.view, report.mode).inc()
        if report.mode in ("skip", "held"):
            return
        self._seconds.labels(event.lake, event.view, report.mode).observe(report.seconds)
        self._rows.labels(event.lake, event.view, "inserted").inc(report.inserted)
        self._rows.labels(event.lake, event.view, "deleted").inc(report.deleted)
        self._bytes.labels(event.lake, event.view).inc(event.bytes or 0)
        self._lakes.estimated(event.lake, event.view, report.estimates)


class LakeCollector(Collector):
    """Measures lakes when their metrics are asked for: how old and how far behind views are, their rows and bytes. A lake that
    cannot be read just now is left out, and `nabla_lake_up` says so."""

    def __init__(self, lakes: list[LakeContext]) -> None:
        self._contexts = lakes
        self._running: Tally[tuple[str, str]] = Tally()
        self._estimates: dict[tuple[str, str, str], float] = {}
        self._lock = Lock()

    def run_started(self, event: RunStarted) -> None:
        with self._lock:
            self._running[event.lake, event.kind] += 1

    def run_ended(self, event: RunEnded) -> None:
        with self._lock:
            self._running[event.lake, event.kind] = max(0, self._running[event.lake, event.kind] - 1)

    def estimated(self, lake: str, view: str, estimates: dict[str, float]) -> None:
        """Remember what the planner expected a view to take, by mode."""
        with self._lock:
            self._estimates |= {(lake, view, mode): seconds for mode, seconds in estimates.items()}

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that the registry does not measure the lakes when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            running, estimates = dict(self._running), dict(self._estimates)
        yield _gauge("nabla_running", "Runs under way.", ("lake", "kind"), running)
        help = "Seconds that the planner expected of the last refresh in each mode; full is recomputing."
        yield _gauge("nabla_estimated_seconds", help, (*_OF_VIEW, "mode"), estimates)
        yield from self._measure_lakes()

    def _measure_lakes(self) -> Iterator[Metric]:
        found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _MEASURES}
        for context in self._contexts:
            try:
                measured = _measure(context)
            except (NablaError, OSError):
                found["nabla_lake_up"][context.path,] = 0
                continue
            for name, values in measured.items():
                found[name] |= values
        for name, (help, labels) in _MEASURES.items():
            yield _gauge(name, help, labels, found[name])


_MEASURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "nabla_lake_up": ("Whether the lake could be read.", ("lake",)),
    "nabla_lake_version": ("The version of the lake.", ("lake",)),
    "nabla_view_age_seconds": ("Seconds since the view was last brought up to date.", _OF_VIEW),
    "nabla_view_behind": ("Whether a source of the view has moved on: 1, else 0.", _OF_VIEW),
    "nabla_view_rows": ("Rows of the view.", _OF_VIEW),
    "nabla_view_bytes": ("Bytes of the view's files.", _OF_VIEW),
}


def _measure(context: LakeContext) -> dict[str, dict[tuple[str, ...], float]]:
    state, now = context.log.state(), time.time()
    stale = StaleViews(PinnedVersions(context.log, state))
    found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _MEASURES}
    found["nabla_lake_up"][context.path,] = 1
    found["nabla_lake_version"][context.path,] = state.version
    for name, entry in state.entries.items():
        if is_derived(entry):
            key = (context.path, name)
            if "refreshed" in entry.facts:
                found["nabla_view_age_seconds"][key] = max(0.0, now - entry.facts["refreshed"])
            found["nabla_view_behind"][key] = float(name in stale)
            found["nabla_view_rows"][key] = entry.facts.get("rows", 0)
            found["nabla_view_bytes"][key] = context.log.snapshot(entry.parts["data"]).bytes
    return found


def _gauge(name: str, help: str, labels: tuple[str, ...], values: Any) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=labels)
    for key, value in values.items():
        family.add_metric([str(part) for part in key], value)
    return family
