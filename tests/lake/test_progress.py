"""Progress and displays: what takes long is shown where somebody looks, and everything from data is escaped."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from nabla.cli import output
from nabla.explain import notebook
from nabla.lake.events import (
    Events,
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
from nabla.lake.monitor import progress
from nabla.lake.refresh.subscriptions import ViewChange
from nabla.lake.reports import LakeStatus, RefreshReport, Status, ViewReport
from nabla.lake.running import Heart, Running, after, running_runs
from nabla.storage.running_files import dead_runs, write_running

EVIL = "<img src=x onerror=alert(1)>\x1b[2J"


def told(*events: LakeEvent) -> Running:
    running: Running | None = None
    for event in events:
        running = after(running, event)
    assert running is not None
    return running


def begun(at: float = 100.0, view: str = "revenue") -> list[LakeEvent]:
    base: tuple[Any, ...] = ("/lake", "run", "refresh")
    return [
        RunStarted(*base, at, (view, "other")),
        ViewStarted(*base, at, view),
        ViewPlanned(*base, at, view, "incremental", "why", 2, {"incremental": 30.0, "full": 90.0}, {}, {}),
        StepStarted(*base, at + 1, view, 1, "find the touched groups"),
        QueryEnded(*base, at + 2, view, 1, "spark", 12345, 1.0),
        StepEnded(*base, at + 2, view, 1, "find the touched groups", 12345, 1.0),
        StepStarted(*base, at + 10, view, 2, "renew the state of touched groups"),
    ]


def test_a_line_says_which_views_which_step_rows_and_time_left() -> None:
    text = progress.sentence([told(*begun())])
    assert text == (
        "refreshing 0 of 2 · revenue: renew the state of touched groups (2 of 2), 12,345 rows · 10 s, about 20 s left"
    )
    report = ViewReport("revenue", "incremental", "why", 1, 2, 11.0, {}, 3)
    ended = told(*begun(), ViewEnded("/lake", "run", "refresh", 111.0, "revenue", report))
    assert progress.sentence([ended, ended]).startswith("refreshing 1 of 2 · 11 s · 1 other runs")
    assert (ended.views["revenue"].state, ended.views["revenue"].inserted) == ("done", 1)
    failed = told(*begun(), ViewEnded("/lake", "run", "refresh", 111.0, "revenue", None, ValueError("x")))
    assert failed.views["revenue"].state == "failed"


def test_a_terminal_line_is_drawn_over_and_erased_and_obeys_no_data() -> None:
    stream = io.StringIO()
    line = progress.TerminalLine(stream)
    line.clear()
    assert stream.getvalue() == ""
    line.show([told(*begun(view=EVIL))])
    line.clear()
    assert stream.getvalue().startswith("\r\x1b[2Krefreshing")
    assert stream.getvalue().endswith("\r\x1b[2K")
    assert stream.getvalue().count("\x1b") == 2, "none of them is from the name"
    stream.close()
    line.show([told(*begun())])  # a closed terminal is no error


def test_a_page_shows_bars_and_escapes_names() -> None:
    shown = progress.page([told(*begun(view=EVIL))])
    assert "<img" not in shown
    assert "&lt;img" in shown
    assert "2 of 2: renew the state" in shown
    assert "width:33%" in shown


def test_a_notebook_has_one_display_that_changes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []

    class Handle:
        def update(self, content: Any) -> None:
            shown.append(content.data)

    def show(content: Any, display_id: bool) -> Handle:
        shown.append(content.data)
        return Handle()

    monkeypatch.setattr(display, "display", show)
    cell = progress.NotebookCell()
    cell.clear()
    cell.show([told(*begun())])
    cell.show([told(*begun())])
    cell.clear()
    assert [bool(text) for text in shown] == [True, True, False]
    assert not progress._in_notebook()


class Screen:
    def __init__(self) -> None:
        self.shown: list[str] = []
        self.cleared = 0

    def show(self, running: Sequence[Running]) -> None:
        self.shown.append(progress.sentence(running))

    def clear(self) -> None:
        self.cleared += 1


def test_a_display_shows_what_takes_long_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    heart = Heart()
    monkeypatch.setattr(progress, "HEART", heart)
    monkeypatch.setattr(progress, "AFTER", 0.1)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    monkeypatch.setattr("nabla.lake.running.BEAT", 0.05)
    screen, events = Screen(), Events("/no/such/lake")
    progress.Display(screen)
    events.observers.add(heart.hear)
    with events.run("verify", ["a"]):
        pass
    time.sleep(0.05)
    assert screen.shown == []
    with events.run("verify", ["a"]) as run:
        run.view_started(["a"])
        end = time.time() + 10
        while not screen.shown and time.time() < end:
            time.sleep(0.01)
    assert screen.shown[0].startswith("verifying · a")
    end = time.time() + 10
    while not screen.cleared and time.time() < end:
        time.sleep(0.01)
    assert screen.cleared


def test_it_is_quiet_where_there_is_no_terminal_and_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(progress, "show_on", shown.append)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    progress.show_progress()
    assert shown == []

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setenv("NABLA_PROGRESS", "off")
    progress.show_progress()
    assert shown == []
    monkeypatch.delenv("NABLA_PROGRESS")
    progress.show_progress()
    assert [type(screen) for screen in shown] == [progress.TerminalLine]
    pytest.importorskip("IPython")
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    progress.show_progress()
    assert type(shown[-1]) is progress.NotebookCell


def test_the_spinner_of_a_command_tells_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    screen = output.SpinnerScreen()
    screen.show([told(*begun())])
    monkeypatch.setattr(output, "_STATUS", [said.append])
    screen.show([told(*begun())])
    screen.clear()
    assert len(said) == 1
    assert said[0].startswith("refreshing 0 of 2")


def test_displays_of_reports_are_tables_with_everything_escaped() -> None:
    report = ViewReport(EVIL, "incremental", EVIL, 3, 0, 0.5, {EVIL: 1}, 2, estimates={"full": 2.0})
    shown = RefreshReport({EVIL: report})._repr_html_()
    assert "<img" not in shown
    assert "+3" in shown
    assert "0.50 s instead of an estimated 2.00 s" in shown
    status = LakeStatus({EVIL: Status(EVIL, "view", 1, 1234567, True, {}, EVIL)})._repr_html_()
    assert "<img" not in status
    assert "1,234,567" in status
    assert "1 view, 1 stale" in status
    change = ViewChange(
        EVIL, 1, 2, StructType().add(EVIL, StringType()), pa.table({"c": [EVIL, "old", None], "_n": [1, -1, 1]})
    )
    html = change._repr_html_()
    assert "<img" not in html
    assert "2 inserted, 1 deleted" in html
    assert notebook.cell(None) != notebook.cell("None")
    assert "&lt;b&gt;" in notebook.badge("<b>")


def test_a_run_that_nobody_observes_is_silent() -> None:
    with Events("/lake").run("refresh", ["v"]) as run:
        run.view_started(["v"])
        with run.tracer("v").step(1, "x") as step, run.tracer("v").query("driver"):
            step.rows = None
    heard: list[LakeEvent] = []
    events = Events("/lake")
    with events.observers.add(heard.append), events.run("refresh"):
        pass
    assert [type(event) for event in heard] == [RunStarted, RunEnded]


def test_a_view_that_was_begun_ends_before_its_run_whatever_happens() -> None:
    heard: list[LakeEvent] = []
    events = Events("/lake")
    report = ViewReport("a", "held", "why", 0, 0, 0.0, {}, 1)
    with events.observers.add(heard.append):
        with events.run("refresh") as run:
            run.view_started(["a", "b"])
            run.view_ended(report)
        with pytest.raises(ValueError, match="x"), events.run("refresh") as run:
            run.view_started(["a", "b"])
            run.view_ended(report)
            raise ValueError("x")
    ended = [(e.view, e.report is not None, e.error is not None) for e in heard if isinstance(e, ViewEnded)]
    assert ended == [("a", True, False), ("b", False, False), ("a", True, False), ("b", False, True)]
    assert isinstance(heard[-1], RunEnded)


def test_what_others_write_about_runs_has_the_right_types_or_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "_nabla" / "running"
    folder.mkdir(parents=True)
    good = {"format": 1, **told(*begun()).to_dict()}
    odd = {**good, "run": "odd", "views": {"v": {"state": 5, "rows": "7", "left": [], "new": {}}}}
    wrong = {**good, "run": "wrong", "views": {"v": {"rows": [1]}}}
    endless = {**good, "run": "endless", "started": 1e999}
    for number, content in enumerate((good, odd, wrong, endless, 5, [good])):
        (folder / f"0000000{number}-0000-0000-0000-000000000000.json").write_text(json.dumps(content))
    (folder / "00000009-0000-0000-0000-000000000000.json").write_text("[" * 200_000)
    found = {run.run: run for run in running_runs(str(tmp_path))}
    assert found["run"].views["revenue"].rows == 12345
    assert found["odd"].views["v"].rows == 7
    assert "wrong" not in found
    assert progress.page([found["odd"]])
    elsewhere = tmp_path / "other" / "_nabla"
    elsewhere.mkdir(parents=True)
    (elsewhere / "running").symlink_to(folder)
    assert running_runs(str(tmp_path / "other")) == ()
    assert not write_running(str(tmp_path / "other"), "x", {})
    assert dead_runs(str(tmp_path / "other")) == []
    assert not write_running(str(tmp_path / "gone"), "x", {})
    assert not (tmp_path / "gone").exists()
    assert running_runs("s3://bucket/lake") == ()
