"""What happens in a lake is told while it happens."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import nabla
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
    observe_all,
)
from nabla.lake.running import HEART, Running, after, running_runs

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> nabla.Lake:
    lake = nabla.open(tmp_path_factory.mktemp("events") / "lake")
    lake.create_table("orders", "id BIGINT, region STRING, amount BIGINT", [(1, "n", 10), (2, "s", 5)], key="id")
    lake.create_view("revenue", "SELECT region, SUM(amount) AS total FROM orders GROUP BY region")
    lake.create_view("large", "SELECT * FROM revenue WHERE total > 9", maintain="immediate")
    return lake


def heard(lake: nabla.Lake, act: Any) -> list[LakeEvent]:
    events: list[LakeEvent] = []
    with lake.observe(events.append):
        act()
    return events


def insert(lake: nabla.Lake, *rows: Any) -> None:
    with lake.transaction() as tx:
        tx.insert("orders", list(rows))


def test_a_refresh_tells_of_views_steps_queries_and_commits_in_order(lake: nabla.Lake) -> None:
    insert(lake, (3, "n", 7))
    events = heard(lake, lambda: lake.refresh("revenue"))
    kinds = [type(e) for e in events]
    assert kinds[0] is RunStarted
    assert kinds[-1] is RunEnded
    assert {e.run for e in events} == {events[0].run}
    assert {e.lake for e in events} == {lake.path}
    of_revenue = [type(e) for e in events if getattr(e, "view", "") == "revenue"]
    assert of_revenue[:3] == [ViewStarted, ViewPlanned, StepStarted]
    assert of_revenue[-1] is ViewEnded
    assert of_revenue.count(StepStarted) == of_revenue.count(StepEnded) == events[2].steps  # type: ignore[attr-defined]
    assert QueryEnded in of_revenue
    planned = next(e for e in events if isinstance(e, ViewPlanned))
    assert planned.mode == "incremental"
    assert planned.before["orders"] + 1 == planned.after["orders"]
    committed = next(e for e in events if isinstance(e, Committed))
    assert committed.version == lake.version
    assert committed.objects["revenue"]["inserted"] == 1
    ended = {e.view: e for e in events if isinstance(e, ViewEnded)}
    assert ended["large"].report is not None, "a view that follows at once is told of, too"
    assert ended["revenue"].rows == 2
    assert (ended["revenue"].bytes or 0) > 0
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert last.reports["revenue"].inserted == 1
    assert last.error is None
    assert [json.loads(json.dumps(e.to_dict())) for e in events]


def test_other_runs_are_told_by_their_kind(lake: nabla.Lake) -> None:
    def everything() -> None:
        insert(lake, (4, "s", 1))
        lake.create_view("few", "SELECT id FROM orders WHERE amount < 2")
        lake.refresh()
        lake.verify("few")
        lake.revert(lake.version - 1)
        lake.drop_view("few")

    events = heard(lake, everything)
    assert [e.kind for e in events if isinstance(e, RunStarted)] == [
        "transaction",
        "create",
        "refresh",
        "verify",
        "revert",
        "drop",
    ]
    assert sum(isinstance(e, RunEnded) for e in events) == 6
    transaction = [e for e in events if e.kind == "transaction"]
    assert [e.names for e in transaction if isinstance(e, RunStarted)] == [("orders",)]
    assert next(e for e in transaction if isinstance(e, Committed)).objects["orders"]["inserted"] == 1
    skipped = [e.report.mode for e in events if e.kind == "refresh" and isinstance(e, ViewEnded) and e.report]
    assert "skip" in skipped
    dropped = next(e for e in events if e.kind == "drop" and isinstance(e, Committed))
    assert dropped.dropped == ("few",)


def test_a_run_that_fails_says_so_and_its_views_end(lake: nabla.Lake) -> None:
    events: list[LakeEvent] = []
    with lake.observe(events.append), pytest.raises(nabla.NablaError):
        lake.create_view("broken", "SELECT CAST('x' AS INT) + id AS y FROM orders")
    ended = [e for e in events if isinstance(e, ViewEnded)]
    assert [(e.view, e.report, bool(e.error)) for e in ended] == [("broken", None, True)]
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert last.error is not None
    assert last.to_dict()["error"]["code"]


def test_an_observer_that_fails_harms_nothing(lake: nabla.Lake, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: LakeEvent) -> None:
        raise RuntimeError("no")

    others: list[LakeEvent] = []
    with lake.observe(fail), observe_all(others.append) as everywhere:
        insert(lake, (5, "n", 1))
        assert lake.refresh("revenue")["revenue"].inserted > 0
    everywhere.cancel()
    assert isinstance(others[-1], RunEnded)
    assert caplog.text.count("an observer of the lake failed") == 1
    before = len(others)
    insert(lake, (6, "n", 1))
    assert len(others) == before


def test_a_long_run_is_seen_by_others_through_a_file_and_leaves_none(
    lake: nabla.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nabla.lake.running.BEAT", 0.02)
    seen: list[tuple[Running, ...]] = []

    def wait(event: LakeEvent) -> None:
        if isinstance(event, StepStarted) and event.view == "revenue":
            end = time.time() + 10
            while not seen and time.time() < end:
                time.sleep(0.02)
                with pytest.MonkeyPatch.context() as other:
                    other.setattr(HEART, "running", lambda lake: {})  # as another process reads it
                    seen.extend(filter(None, [running_runs(lake.path)]))

    insert(lake, (7, "s", 3))
    with lake.observe(wait):
        lake.refresh("revenue")
    ((one,),) = seen
    assert one.kind == "refresh"
    assert one.views["revenue"].state == "running"
    assert one.views["revenue"].mode == "incremental"
    assert one.views["revenue"].doing
    assert one.to_dict()["views"]["revenue"]["step"] == 1
    assert lake.running() == ()
    time.sleep(0.1)
    assert list((Path(lake.path) / "_nabla" / "running").iterdir()) == []


def test_files_of_dead_runs_are_ignored_and_vacuumed_and_others_stay(lake: nabla.Lake) -> None:
    folder = Path(lake.path) / "_nabla" / "running"
    folder.mkdir(exist_ok=True)
    names = {n: folder / f"0000000{n}-0000-0000-0000-000000000000.json" for n in range(4)}
    good = after(None, RunStarted(lake.path, "x", "refresh", 1.0, ("revenue",))).to_dict()
    for path, text in zip(
        names.values(),
        (json.dumps({"format": 1, **good}), "{", '{"format": 1, "views": 7}', '{"format": 9}'),
        strict=True,
    ):
        path.write_text(text)
    (folder / "mine.txt").write_text("stays")
    assert [one.run for one in lake.running()] == ["x"]
    for path in names.values():
        import os

        os.utime(path, (1, 1))
    assert lake.running() == ()
    assert lake.fsck(quick=True).sound
    assert sum("running" in path for path in lake.vacuum().paths) == 4
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]
