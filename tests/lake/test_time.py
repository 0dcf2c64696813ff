"""Views that read the clock, on Spark: refreshed when time has passed, from the rows between the boundaries."""

from __future__ import annotations

import datetime

import pytest
from comparing import bag, refreshed

from nabla.algebra.clock import Instant
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Clock:
    """Stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.set(datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC))

    def set(self, moment: datetime.datetime) -> None:
        micros = int(moment.timestamp()) * 1_000_000
        self._patch.setattr(Instant, "now", classmethod(lambda cls, zone: cls(micros, zone)))


def _day(n: int) -> datetime.date:
    return datetime.date(2026, 3, n)


def _orders(lake: Lake) -> None:
    rows = [(i, _day(i), i % 3, datetime.datetime(2026, 3, i, 6)) for i in range(1, 20)]
    lake.create_table("orders", schema="id INT, day DATE, kind INT, at TIMESTAMP", data=[*rows, (99, None, 1, None)])


def _noon(day: int) -> datetime.datetime:
    return datetime.datetime(2026, 3, day, 12, tzinfo=datetime.UTC)


def test_a_window_of_days_moves_with_the_date(lake: Lake, clock: Clock) -> None:
    _orders(lake)
    recent = "day > current_date() - INTERVAL 3 DAYS AND day <= current_date()"
    lake.create_view("recent", f"SELECT id FROM orders WHERE {recent}")
    lake.create_view("kinds", f"SELECT kind, COUNT(*) AS n FROM orders WHERE {recent} GROUP BY kind")
    lake.create_view("busy", "SELECT kind FROM kinds WHERE n > 1")
    assert bag(lake.read("recent")) == {(8,): 1, (9,): 1, (10,): 1}
    assert lake.refresh(mode="strict")["recent"].mode == "skip"
    clock.set(_noon(11))
    assert lake.status()["recent"].stale
    report = refreshed(lake, mode="strict")
    assert (report["recent"].mode, report["recent"].inserted, report["recent"].deleted) == ("incremental", 1, 1)
    assert "the clock moved" in report["recent"].reason
    assert bag(lake.read("recent")) == {(9,): 1, (10,): 1, (11,): 1}
    clock.set(_noon(14))
    with lake.transaction() as tx:
        tx.insert("orders", [(50, _day(13), 2, None), (51, _day(1), 2, None)])
        tx.delete("orders", where="id = 12")
    refreshed(lake, mode="strict")
    assert bag(lake.read("recent")) == {(13,): 1, (50,): 1, (14,): 1}


def test_timestamps_and_joins(lake: Lake, clock: Clock) -> None:
    _orders(lake)
    lake.create_table("kinds", schema="kind INT, name STRING", data=[(0, "a"), (1, "b"), (2, "c")])
    joined = "orders o JOIN kinds k ON o.kind = k.kind AND o.at < now()"
    lake.create_view("past", f"SELECT k.name, COUNT(*) AS n FROM {joined} GROUP BY k.name HAVING COUNT(*) > 1")
    clock.set(_noon(15))
    report = refreshed(lake, mode="strict")
    assert report["past"].mode == "incremental"
    assert sum(n * copies for (_, n), copies in bag(lake.read("past")).items()) == 15


def test_another_use_of_the_clock_is_recomputed_when_it_moves(lake: Lake, clock: Clock) -> None:
    _orders(lake)
    lake.create_view("ages", "SELECT id, datediff(current_date(), day) AS age FROM orders")
    assert lake.refresh(mode="incremental")["ages"].mode == "skip"
    clock.set(_noon(12))
    report = refreshed(lake, mode="incremental")
    assert report["ages"].mode == "full"
    assert report["ages"].reason.startswith("NABLA_TIME_DEPENDENT: current_date() is part of what is computed")
    assert (2, 10) in bag(lake.read("ages"))
