"""Sessions: rows in groups that are as long as no gap is too large, and that merge and break as rows come and go."""

from __future__ import annotations

import datetime
from random import Random

import pytest
from comparing import refreshed

from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

VIEWS = {
    "by_user": "SELECT uid, COUNT(*) AS n, session_window.start AS since, session_window.end AS until "
    "FROM events GROUP BY uid, session_window(at, '10 minutes')",
    "by_nobody": "SELECT s, SUM(x) AS total FROM (SELECT session_window(at, '15 minutes') AS s, x FROM events) GROUP BY s",
    "by_itself": "SELECT session_window.end AS until, COUNT(DISTINCT x) AS n FROM events GROUP BY "
    "session_window(at, CASE WHEN x > 2 THEN '10 minutes' WHEN x = 0 THEN '-1 minutes' ELSE '1 minutes' END)",
}


def _event(rng: Random) -> tuple[int, datetime.datetime | None, int]:
    """Few moments, so that many events are at one, and at the very end of a session."""
    at = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=5 * rng.randrange(60))
    return rng.randrange(3), at if rng.random() > 0.05 else None, rng.randrange(5)


def test_sessions_are_maintained(lake: Lake) -> None:
    rng = Random(4)
    lake.create_table("events", schema="uid INT, at TIMESTAMP, x INT", data=[_event(rng) for _ in range(25)])
    for name, sql in VIEWS.items():
        lake.create_view(name, sql)
    for _ in range(3):
        with lake.transaction() as tx:
            tx.insert("events", [_event(rng) for _ in range(4)])
            tx.delete("events", where=f"uid = {rng.randrange(3)} AND x = {rng.randrange(5)}")
        report = refreshed(lake, mode="strict")
        assert {view.mode for view in report.values()} == {"incremental"}
