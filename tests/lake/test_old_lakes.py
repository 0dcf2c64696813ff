"""Lakes that earlier versions made open, and their views are maintained further and stay exact: stored formats last."""

from __future__ import annotations

import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import kept_lake
import pytest
from comparing import Bag, bag
from pyspark.sql import SparkSession

import nabla
from nabla import Lake
from nabla.lake.reports import LakeStatus, RefreshReport

pytestmark = pytest.mark.spark

ARCHIVES = sorted((Path(__file__).parent.parent / "data").glob("lake-0.*.tar.xz"))
OTHER_PYTHON = sys.version_info[:2] != (3, 11)
"""Python functions are stored for one version of Python: 3.11 made the lakes."""

IMMEDIATE = {"balances", "regions_orders", "regions_customers"}


@dataclass
class Refreshed:
    """An old lake after the current code has refreshed it twice, and what it was before."""

    lake: Lake
    status: LakeStatus
    rows: dict[str, Bag]
    reports: tuple[RefreshReport, RefreshReport]


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def old(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Refreshed:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(request.param) as tar:
        tar.extractall(folder)  # our own archive; the first Pythons 3.11 have no filters
    lake = nabla.open(folder / "lake", spark=spark, trust=True)  # it was made before lakes were noted
    if OTHER_PYTHON:
        lake.drop_view("shouted")
    status = lake.status()
    rows = {name: bag(lake.read(name)) for name, one in status.items() if one.kind == "view"}
    pending = lake.refresh(mode="strict")
    kept_lake.change(lake, 4)
    return Refreshed(lake, status, rows, (pending, lake.refresh(mode="strict")))


def test_everything_is_there(old: Refreshed) -> None:
    derived = {*kept_lake.VIEWS, *IMMEDIATE, "good_marks", "marks", "path", "leaf", "reach"}
    expected = {
        **dict.fromkeys([*kept_lake.TABLES, "students", "kinds_quarantine"], "table"),
        **dict.fromkeys(derived - ({"shouted"} if OTHER_PYTHON else set()), "view"),
        **dict.fromkeys(kept_lake.CONSTRAINTS, "constraint"),
    }
    assert {name: one.kind for name, one in old.status.items()} == expected
    assert {name for name, one in old.status.items() if one.kind == "view" and not one.stale} == IMMEDIATE
    assert not any(one.obstacles for one in old.status.values())
    assert old.lake.rules() == {"graph": kept_lake.RULES}
    assert bag(old.lake.read("paid_in_time")) == bag(old.lake.sql(kept_lake.CONSTRAINTS["paid_in_time"][0]))
    assert {row.id for row in old.lake.read("kinds_quarantine").collect()} == {101, 201, 301, 401}
    with pytest.raises(nabla.Violated, match="lines_have_orders"), old.lake.transaction() as tx:
        tx.delete("orders", where="id = 5")


def test_no_view_is_built_again(old: Refreshed) -> None:
    for report in old.reports:
        assert {name: one.mode for name, one in report.items()} == {
            name: "skip" if name in IMMEDIATE else "incremental" for name in old.rows
        }


def test_views_are_what_their_queries_mean(old: Refreshed) -> None:
    """`verify` runs the text of a view, where it has one that says all; what others mean is asked here."""
    old.lake.verify()
    for name in {"from_frame", "shouted", "recent", "not_old"} & old.rows.keys():
        assert bag(old.lake.read(name)) == bag(old.lake.sql(kept_lake.VIEWS[name])), name
    path = set(bag(old.lake.read("edges")))
    while more := {(a, c) for a, b in path for d, c in path if b == d} - path:
        path |= more
    assert bag(old.lake.read("path")) == dict.fromkeys(path, 1)


def test_feeds_lead_from_each_version_to_the_next(old: Refreshed) -> None:
    """What was in the feed, and what came to it, in one order: nothing is deleted that was not there."""
    for name, rows in old.rows.items():
        feed = old.lake.changes(name)
        columns = [f"`{c}`" for c in feed.columns if c not in ("_change_type", "_version", "_timestamp")]
        signed: dict[int, tuple[Bag, Bag]] = {}
        for (*row, kind, version), n in bag(feed.select(*columns, "_change_type", "_version")).items():
            signed.setdefault(version, (Bag(), Bag()))[kind == "delete"][tuple(row)] += n
        assert not any(inserted & deleted for inserted, deleted in signed.values()), (
            f"{name}: more than the minimal change"
        )
        assert set(signed) == set(range(1, old.lake.status()[name].version + 1)), name
        now = rows
        for version, (inserted, deleted) in sorted(signed.items()):
            if version > old.status[name].version:
                assert deleted <= now, f"{name}: version {version}"
                now = now - deleted + inserted
        assert now == bag(old.lake.read(name)), name
        for version, (inserted, deleted) in sorted(signed.items(), reverse=True):
            if version <= old.status[name].version:
                assert inserted <= rows, f"{name}: version {version}"
                rows = rows - inserted + deleted
