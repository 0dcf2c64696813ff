"""`nabla watch`: one process that stays, refreshes what new versions made stale, and prints what happened."""

from __future__ import annotations

import datetime
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption, LimitOption, ModeOption, NamesArgument
from nabla.cli.output import err, mode_cell, out, reporting, show_error, to_json, working

if TYPE_CHECKING:
    from nabla.errors import NablaError
    from nabla.lake.facade import Lake
    from nabla.lake.refresh.subscriptions import ViewChange
    from nabla.lake.refresh.watch import Wait
    from nabla.lake.reports import ViewReport


@reporting
def watch(
    names: NamesArgument = None,
    alert: Annotated[
        list[str] | None,
        typer.Option("--alert", metavar="VIEW", help="Print every change of this view. May be given several times."),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", min=0.01, help="Seconds between looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="End after so long.", show_default=False)
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=1, max=65535, help="Serve metrics for Prometheus here.", show_default=False),
    ] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="The address that serves them.")] = "127.0.0.1",
    limit: LimitOption = 50,
    mode: ModeOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Stay, and refresh what becomes stale: a line for every refresh, and with --alert the rows that came and went."""
    place = locate(lake)
    printer = _Lines(limit) if not as_json else _JsonLines()
    with working("Starting Spark", as_json):
        from nabla.lake.refresh.watch import Watch

        opened = place.open()
        stop = _serve_metrics(opened, metrics_port, metrics_host)
        for view in alert or ():
            opened.on_change(view, printer.alert)
        _ = opened.spark  # now, and not when the first change waits for it
    watching = Watch(opened, names or (), mode or place.mode, interval, printer.refreshed, printer.failed)
    try:
        if once:
            if not watching.turn():
                raise typer.Exit(1)
            return
        with _until_signalled() as wait:
            watching.run(wait, seconds)
    finally:
        stop()


def _serve_metrics(lake: Lake, port: int | None, host: str) -> Callable[[], None]:
    """Serve metrics, if there is a port for them. Gives a function that ends that."""
    if port is None:
        return lambda: None
    from nabla.monitor import metrics

    return metrics(lake).serve(port, host)


@contextmanager
def _until_signalled() -> Iterator[Wait]:
    """The first SIGINT or SIGTERM ends the watch after what it is doing, the second one at once."""
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # may be written by a handler that interrupts its reader

    def told(number: int, _: object) -> None:
        if not signals.empty():
            raise KeyboardInterrupt
        signals.put(number)

    def wait(seconds: float) -> bool:
        try:
            signals.put(signals.get(timeout=seconds))
        except queue.Empty:
            return False
        return True

    if threading.current_thread() is not threading.main_thread():
        yield wait
        return
    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Lines:
    """For people: a line a view that was refreshed, a line a row that came or went."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def refreshed(self, report: ViewReport) -> None:
        counts = f"[green]+{report.inserted:,}[/] [red]-{report.deleted:,}[/]"
        self._print(
            f"{escape(report.name)}  {mode_cell(report.mode)}  {counts}  {report.seconds:.2f} s  {escape(report.reason)}"
        )

    def alert(self, change: ViewChange) -> None:
        for sign, rows, style in (("-", change.deleted, "red"), ("+", change.inserted, "green")):
            for text in self._shown(rows):
                self._print(f"{escape(change.view)} [{style}]{sign} {escape(text)}[/]")

    def failed(self, error: NablaError) -> None:
        show_error(error, as_json=False)

    def _shown(self, rows: Sequence[Any]) -> Iterable[str]:
        for row in rows[: self._limit]:
            yield ", ".join(f"{name}={value}" for name, value in row.asDict().items())
        if len(rows) > self._limit:
            yield f"… {len(rows) - self._limit:,} rows more"

    def _print(self, text: str) -> None:
        console = out()
        console.print(f"[dim]{datetime.datetime.now():%H:%M:%S}[/]  {text}", soft_wrap=True)
        console.file.flush()


class _JsonLines:
    """For programs: every event is a line of JSON."""

    def refreshed(self, report: ViewReport) -> None:
        self._print({"refreshed": report})

    def alert(self, change: ViewChange) -> None:
        self._print({"alert": change.to_dict()})

    def failed(self, error: NablaError) -> None:
        show_error(error, as_json=True)
        err().file.flush()

    def _print(self, event: object) -> None:
        print(to_json(event), flush=True)  # noqa: T201
