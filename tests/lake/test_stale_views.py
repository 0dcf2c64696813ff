"""Which views have anything to do: one decision for refreshes, status and the watch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_dependencies import state, view

from nabla.algebra.clock import EPOCH, Instant, Moments
from nabla.lake.objects.graph import LOST
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.facts import PinnedVersions, StaleViews, has_moved
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog


@pytest.fixture
def log(tmp_path: Path) -> LakeLog:
    return LakeLog.create(tmp_path / "lake")


def moved(lake: LakeState, name: str) -> LakeState:
    entry = lake.entries[name]
    return replace(lake, entries=lake.changed({name: replace(entry, parts={"data": entry.parts["data"].advanced()})}))


def stale(log: LakeLog, lake: LakeState, among: set[str] | None = None) -> set[str]:
    found = StaleViews(PinnedVersions(log, lake), among)
    return {name for name in lake.entries if name in found}


def test_views_of_a_source_that_moved_are_stale_and_so_are_their_readers(log: LakeLog) -> None:
    lake = state(view("a", "t"), view("b", "a"), view("c", "u"))
    assert stale(log, lake) == set()
    assert stale(log, moved(lake, "t")) == {"a", "b"}
    assert stale(log, moved(lake, "a")) == {"b"}
    assert stale(log, moved(lake, "u")) == {"c"}


def test_views_that_are_not_looked_at_are_taken_as_they_are(log: LakeLog) -> None:
    lake = moved(state(view("m", "t", maintain="manual"), view("v", "m")), "t")
    assert stale(log, lake) == {"m", "v"}
    assert stale(log, lake, {"v"}) == set()


def test_a_source_that_was_built_again_has_moved() -> None:
    lake = state(view("a", "t"))
    entry = lake.entries["a"]
    lost: Entry = replace(entry, facts={"sources": {"t": LOST}})
    loaded = load_view("a", entry.definition)
    assert not has_moved(loaded, entry, {"t": 0}, EPOCH)
    assert has_moved(loaded, lost, {"t": 0}, EPOCH)


def test_the_clock_moves_only_views_that_read_it() -> None:
    entry = state(view("a", "t")).entries["a"]
    later = Moments(Instant(0, "UTC"), Instant(10**15, "UTC"))
    assert not has_moved(load_view("a", entry.definition), entry, {"t": 0}, later)


def test_all_readers_of_a_refresh_see_a_table_at_one_version(log: LakeLog) -> None:
    lake = state(view("a", "t"), view("now", "t", maintain="immediate"), view("over", "a"))
    versions, later = PinnedVersions(log, lake), moved(moved(lake, "t"), "a")
    read = {name: lake.entries[name] for name in ("a", "now", "over")}
    assert versions.version("t", read["a"], later) == 0
    assert versions.version("t", read["now"], later) == 1
    assert versions.version("a", read["over"], later) == 1
