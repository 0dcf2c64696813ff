"""Environments without Spark: views as algebra over a small lake, promoted, killed, and met by other writers."""

from __future__ import annotations

import datetime
import multiprocessing
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nabla
from nabla.algebra.expressions import Column, Literal
from nabla.algebra.nodes import At, Filter, Scan
from nabla.algebra.normalize import make
from nabla.errors import NablaError
from nabla.lake.constraints.violations import Violated
from nabla.lake.environments.environments import begin, complete, drop, environments, settle
from nabla.lake.environments.promote import Promoted, promote
from nabla.lake.objects.view import View
from nabla.lake.refresh.create import ViewDefinition, create
from nabla.storage import machine, reading

SETTINGS = (
    ("spark.sql.ansi.enabled", "true"),
    ("spark.sql.caseSensitive", "false"),
    ("spark.sql.session.timeZone", "UTC"),
)
NOW = datetime.timedelta(0)


def above(name: str, source: str, least: int) -> View:
    """The view `SELECT id, x FROM source WHERE x > least`."""
    scan = Scan(source, At.NEW, (Column("id#1", "bigint"), Column("x#2", "bigint")), ("id", "x"))
    condition = make("GreaterThan", (scan.output[1].ref, Literal(str(least), "bigint")), "boolean")
    return replace(View.of(name, Filter(scan, (condition,)), ("id", "x"), None, ()), settings=SETTINGS)


def build(lake: nabla.Lake, *views: View, replaced: frozenset[str] = frozenset()) -> None:
    definitions = [ViewDefinition((view,), view.name) for view in views]
    create(lake.context, lake.context.log.state(), "create views", definitions, replaced)


def numbers(lake: nabla.Lake, name: str) -> list[int]:
    """The column x of a table or view."""
    part = lake.context.log.state().entries[name].parts["data"]
    return sorted(row["x"] for row in reading.read(lake.context.log.snapshot(part)).to_pylist())


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "x": pa.array(numbers, pa.int64())})


def insert(lake: nabla.Lake, *more: int) -> None:
    with lake.transaction() as tx:
        tx.insert("t", rows(*more))


def try_out(path: Path, *views: View) -> nabla.Lake:
    """An environment in which these views have other definitions."""
    main = nabla.open(path)
    begin(main.context.log, "dev")
    dev = nabla.open(path, environment="dev")
    settle(dev.context.log, [view.name for view in views], ())  # type: ignore[arg-type]
    build(dev, *views)
    complete(dev.context.log)  # type: ignore[arg-type]
    return dev


def promoted(main: nabla.Lake, dev: nabla.Lake) -> Promoted:
    def refresh() -> None:
        dev.refresh(*(name for name, status in dev.status().items() if status.kind == "view"))

    return promote(main.context, "dev", refresh)


@pytest.fixture
def main(tmp_path: Path) -> nabla.Lake:
    """A lake with a table t and views a over t, b over a, c over b, and u over t."""
    lake = nabla.open(tmp_path / "lake")
    lake.create_table("t", data=rows(10, 20, 30), key="id")
    build(lake, above("a", "t", 5), above("b", "a", 15), above("c", "b", 0), above("u", "t", 25))
    return lake


def test_an_environment_reads_the_lake_and_keeps_to_itself(main: nabla.Lake) -> None:
    dev = try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0))
    assert (numbers(dev, "b"), numbers(dev, "c"), numbers(dev, "u")) == ([30], [30], [30])
    assert (numbers(main, "b"), numbers(main, "c")) == ([20, 30], [20, 30])
    paths = {name: entry.parts["data"].path for name, entry in dev.context.log.state().entries.items()}
    assert [n for n, e in main.context.log.state().entries.items() if paths[n] == e.parts["data"].path] == [
        "t",
        "a",
        "u",
    ]

    with main.transaction() as tx:
        tx.insert("t", rows(40))
        tx.delete("t", rows=rows(30))
    main.refresh(mode="incremental")
    assert {report.mode for report in dev.refresh(mode="incremental").values()} == {"incremental"}
    assert (numbers(dev, "b"), numbers(dev, "c"), numbers(main, "c")) == ([40], [40], [20, 40])
    main.vacuum(older_than=NOW)
    assert not main.fsck().damages
    for refused in (dev.vacuum, dev.optimize, lambda: dev.revert(1), lambda: insert(dev, 1)):
        with pytest.raises(NablaError, match="NABLA_ENVIRONMENT"):
            refused()  # type: ignore[operator]
    assert [record.objects.keys() for record in dev.context.log.history("b", 1)] == [{"b"}]


def test_own_views_are_released_only_where_all_that_they_read_is_the_lakes(main: nabla.Lake) -> None:
    log: Any = try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0)).context.log
    assert log.releasable({"b", "c", "u"}, ()) == {"b", "c"}
    assert log.releasable({"c"}, ()) == set()  # it reads the environment's b
    assert log.releasable({"b", "c"}, {"a"}) == set()  # a will be the environment's
    settle(log, (), ["b", "c"])
    assert {entry.kind for entry in log.state().entries.values()} == {"table"}
    assert sorted(log.state().entries) == ["a", "b", "c", "t", "u"]


def test_a_promotion_moves_nothing_and_views_go_on_from_changes(main: nabla.Lake) -> None:
    dev = try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0), above("new", "u", 0))
    insert(main, 50)
    main.refresh(mode="incremental")
    files, version = sorted(Path(main.path, "tables").iterdir()), main.version
    done = promoted(main, dev)
    assert (done.new, done.replaced, done.dropped) == (("new",), ("b", "c"), ())
    assert sorted(Path(main.path, "tables").iterdir()) == files
    assert (
        main.version == version + 4
    )  # each view was refreshed in the environment, and one commit made all of it current
    assert (numbers(main, "b"), numbers(main, "c"), numbers(main, "new")) == ([30, 50], [30, 50], [30, 50])
    assert environments(main.context.log) == ()
    assert main.context.log._log.metadata(main.version)["format"] < 6
    insert(main, 60)
    assert {report.mode for report in main.refresh(mode="incremental").values()} == {"incremental"}
    assert (numbers(main, "c"), numbers(main, "new")) == ([30, 50, 60], [30, 50, 60])
    main.vacuum(older_than=NOW)
    assert not main.fsck().damages
    with pytest.raises(NablaError, match="NABLA_NO_ENVIRONMENT"):
        build(dev, above("late", "t", 0))


def test_a_stale_or_unfinished_environment_is_refused_and_never_wrong(main: nabla.Lake) -> None:
    dev = try_out(Path(main.path), above("c", "b", 25))
    build(main, above("b", "a", 5), replaced=frozenset({"b"}))
    with pytest.raises(NablaError, match=r"NABLA_ENVIRONMENT_STALE.* b "):
        promoted(main, dev)
    assert [one.stale for one in environments(main.context.log)] == [("b",)]
    assert dev.status()["c"].stale
    begin(main.context.log, "dev")
    with pytest.raises(NablaError, match="NABLA_ENVIRONMENT_STALE"):
        promoted(main, dev)
    complete(dev.context.log)  # type: ignore[arg-type]
    assert promoted(main, dev).replaced == ("c",)
    assert numbers(main, "c") == [30]

    dev = try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0))
    main.drop_view("u")
    main.drop_view("c")
    with pytest.raises(NablaError, match=r"NABLA_ENVIRONMENT_STALE.* c, u "):
        promoted(main, dev)
    drop(main.context.log, "dev")
    with pytest.raises(NablaError, match="NABLA_NO_ENVIRONMENT"):
        drop(main.context.log, "dev")
    for name in ("", "a/b", "ä", "a b", "../x"):
        with pytest.raises(NablaError, match="NABLA_NAME"):
            begin(main.context.log, name)


def test_constraints_and_views_that_follow_at_once_hold_after_a_promotion(main: nabla.Lake) -> None:
    build(main, replace(above("few", "b", 100), on_violation="reject"))
    dev = try_out(Path(main.path), replace(above("b", "t", 15), maintain="immediate"), above("c", "b", 0))
    insert(main, 40)
    assert promoted(main, dev).replaced == ("b", "c")
    assert numbers(main, "b") == [20, 30, 40]
    insert(main, 50)
    assert numbers(main, "b") == [20, 30, 40, 50]
    with pytest.raises(Violated):
        insert(main, 200)

    build(main, above("a", "t", 5), replaced=frozenset({"a"}))
    main.refresh("a")
    wide = above("b", "shifted", 15)
    dev = try_out(Path(main.path), above("shifted", "t", 5), wide, above("c", "b", 0))
    with main.transaction() as tx:
        tx.delete("t", rows=rows(50))
    main.context.log.state()
    promoted(main, dev)
    main.refresh()
    with main.transaction() as tx:  # the constraint looks at the view that is current now
        tx.insert("t", rows(300))
    main.refresh()
    assert main.status()["b"].stale or numbers(main, "b") == [20, 30, 40]


def promote_until(path: str, point: str) -> None:
    """Promote in a process of its own, which dies at a point."""
    lake, dev = nabla.open(path), nabla.open(path, environment="dev")
    machine.arm(point)
    promoted(lake, dev)


@pytest.mark.parametrize(
    ("point", "behind"),
    [
        ("commit.ready", False),
        ("lake.commit", False),
        ("lake.committed", False),
        ("lake.committed", True),
        ("roll.done", True),
    ],
)
def test_a_killed_promotion_happened_or_did_not(main: nabla.Lake, point: str, behind: bool) -> None:
    """If the environment is behind, the first deaths are in its refreshes."""
    try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0))
    if behind:
        insert(main, 40)
        main.refresh()
    old, new = ([20, 30, 40], [30, 40]) if behind else ([20, 30], [30])
    for _ in range(4):
        process = multiprocessing.get_context("spawn").Process(target=promote_until, args=(main.path, point))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        found = numbers(main, "b"), numbers(main, "c"), len(environments(main.context.log))
        assert found in ((old, old, 1), (new, new, 0))
        if not found[2]:
            break
    if environments(main.context.log):
        promoted(main, nabla.open(main.path, environment="dev"))
    assert numbers(main, "b") == numbers(main, "c") == new
    assert not main.fsck().damages


def test_writers_of_the_lake_and_a_promotion_do_not_lose_anything(main: nabla.Lake) -> None:
    dev = try_out(Path(main.path), above("b", "a", 25), above("c", "b", 0))
    failures: list[Any] = []

    def write() -> None:
        try:
            other = nabla.open(main.path)
            for number in range(100, 112):
                insert(other, number)
                other.refresh()
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    promoted(main, dev)
    writer.join()
    assert not failures
    main.refresh()
    assert numbers(main, "b") == numbers(main, "c") == [30, *range(100, 112)]
