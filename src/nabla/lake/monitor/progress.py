"""Progress of whatever takes longer than a second: a line in a terminal, a small table in a notebook, nothing elsewhere.

`NABLA_PROGRESS=off` turns it off. A thread of its own draws, so that a run does nothing for it.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO

from nabla.explain import notebook
from nabla.lake.running import HEART, Running, ViewProgress

AFTER = 1.0
"""Seconds that a run has before it is shown."""
EVERY = 0.25
"""Seconds between two looks."""
_DOING = {
    "refresh": "refreshing",
    "create": "creating",
    "transaction": "committing",
    "revert": "reverting",
    "propagate": "computing changes",
    "verify": "verifying",
    "drop": "dropping",
    "optimize": "optimizing",
    "alter": "altering",
    "promote": "promoting",
}


class Screen(Protocol):
    """A place that shows runs."""

    def show(self, running: Sequence[Running]) -> None: ...

    def clear(self) -> None: ...


def sentence(running: Sequence[Running]) -> str:
    """What runs, in one line: how many views are done, which are being computed, their step, rows so far, time left."""
    first = running[0]
    views = list(first.views.values())
    done = sum(view.state in ("done", "failed") for view in views)
    now = [view for view in views if view.state == "running"]
    parts = [_DOING.get(first.kind, first.kind) + (f" {done} of {len(views)}" if len(views) > 1 else "")]
    parts += [_view(view) for view in now[:2]]
    parts += [f"and {len(now) - 2} more"] if len(now) > 2 else []
    parts.append(f"{first.seconds:.0f} s" + _left(first.left))
    parts += [f"{len(running) - 1} other runs"] if len(running) > 1 else []
    return " · ".join(parts)


def _view(view: ViewProgress) -> str:
    step = f" ({view.step} of {view.steps})" if view.steps > 1 and view.step else ""
    rows = f", {view.rows:,} rows" if view.rows else ""
    return f"{view.name}: {view.doing}{step}{rows}" if view.doing else view.name


def _left(seconds: float | None) -> str:
    return f", about {seconds:.0f} s left" if seconds is not None and seconds >= 1 else ""


class TerminalLine:
    """The last line of a terminal, which is erased when nothing runs any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = False

    def show(self, running: Sequence[Running]) -> None:
        width = shutil.get_terminal_size().columns
        text = "".join(c if c.isprintable() else "?" for c in sentence(running))
        self._write(f"\r\x1b[2K{text[: max(width - 1, 1)]}")
        self._drawn = True

    def clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be closed
            self._stream.write(text)
            self._stream.flush()


class NotebookCell:
    """A table below the cell that runs, which goes when nothing runs any more."""

    def __init__(self) -> None:
        self._ipython: Any = importlib.import_module("IPython.display")
        self._handle: Any = None

    def show(self, running: Sequence[Running]) -> None:
        content = self._ipython.HTML(page(running))
        if self._handle is None:
            self._handle = self._ipython.display(content, display_id=True)
        else:
            self._handle.update(content)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update(self._ipython.HTML(""))
            self._handle = None


def page(running: Sequence[Running]) -> str:
    """Runs as HTML: a table of the views that are being computed or have been, each with a bar of its expected time."""
    cards = []
    for run in running:
        views = [view for view in run.views.values() if view.state != "waiting"]
        waiting = len(run.views) - len(views)
        said = f"{run.seconds:.0f} s{_left(run.left)}" + (f", {waiting} views wait" if waiting else "")
        rows = [_row(view, run) for view in views]
        headings = ("view", "state", "mode", "step", "rows", "")
        cards.append(notebook.card(_DOING.get(run.kind, run.kind), said, notebook.table(headings, rows, ("rows",))))
    return "".join(cards)


def _row(view: ViewProgress, run: Running) -> list[object]:
    share = 1.0 if view.state == "done" else 0.0
    if view.state == "running" and view.expected and view.started:
        share = min(0.99, (run.heartbeat - view.started) / view.expected)
    step = f"{view.step} of {view.steps}: {view.doing}" if view.doing else ""
    mode = notebook.badge(view.mode) if view.mode else ""
    return [view.name, notebook.badge(view.state), mode, step, view.rows or None, notebook.bar(share)]


class Display:
    """Draws the runs of this process on a screen, from a thread of its own. A screen that fails is given up."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        threading.Thread(target=self._run, name="nabla-progress", daemon=True).start()

    def _run(self) -> None:
        with suppress(Exception):
            while True:
                HEART.wait_for_run()
                time.sleep(EVERY)
                long = [run for run in HEART.all_running() if run.seconds >= AFTER]
                if long:
                    self._screen.show(long)
                else:
                    self._screen.clear()


_SHOWN: list[Display] = []


def show_on(screen: Screen) -> None:
    """Draw the runs of this process on a screen, from now on."""
    if not _SHOWN:
        _SHOWN.append(Display(screen))


def show_progress() -> None:
    """Draw in a notebook or terminal, if there is one and nobody has turned it off."""
    if os.environ.get("NABLA_PROGRESS", "").lower() == "off":
        return
    if _in_notebook():
        show_on(NotebookCell())
    elif sys.stderr is not None and sys.stderr.isatty():
        show_on(TerminalLine(sys.stderr))


def _in_notebook() -> bool:
    """Whether IPython runs as a kernel, whose output is a page."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
