"""A commit that is not made leaves no file behind, whatever the reason; one that is made keeps all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla.errors import Conflict, NablaError
from nabla.lake.facade import Lake
from nabla.storage import machine

pytestmark = pytest.mark.spark

RULES = "big(I) :- items(I, P, N), N > 1. chain(I, P) :- items(I, P, N). chain(I, Q) :- chain(I, P), items(P, Q, N)."


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    """Tests of failures leave it as it was."""
    lake = nabla.open(tmp_path_factory.mktemp("commits") / "lake", spark=spark)
    lake.create_table("items", schema="id INT, parent INT, n INT", data=[(1, 2, 5), (2, 3, 1), (2, 3, 1)], key="id")
    lake.create_table("plain", schema="id INT")
    lake.create_view("totals", "SELECT parent, SUM(n) AS n, MAX(n) AS most FROM items GROUP BY parent")
    lake.create_view("at_once", "SELECT COUNT(*) AS c FROM items", maintain="immediate")
    lake.create_constraint("positive", "SELECT id FROM items WHERE n <= 0")
    lake.create_constraint("few", "SELECT parent FROM totals WHERE n > 100")
    with lake.transaction() as tx:
        tx.insert("items", [(3, 2, 4)])  # so that there is something to refresh, and to revert
    return lake


def stored_files(lake: Lake, below: str = "") -> set[Path]:
    """All files of a lake but the record of the queries that it was asked: that is no part of any commit."""
    found = (Path(lake.path) / below).rglob("*")
    return {path for path in found if path.is_file() and not path.name.startswith(".") and path.name != "queries.jsonl"}


@contextmanager
def nothing_left(lake: Lake) -> Iterator[None]:
    before, version = stored_files(lake), lake.version
    yield
    assert stored_files(lake) - before == set()
    assert lake.version == version


def at_fault(monkeypatch: pytest.MonkeyPatch, place: str, act: Callable[[], None], visit: int = 1) -> None:
    """Do something when a place is visited for the k-th time."""
    visits = {"left": visit}

    def point(name: str) -> None:
        if name == place:
            visits["left"] -= 1
            if visits["left"] == 0:
                act()

    monkeypatch.setattr(machine, "point", point)


def interrupt() -> None:
    raise KeyboardInterrupt


def write(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.insert("items", [(4, 2, 7)])
        tx.insert("plain", [(1,)])


def write_frame(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.insert("plain", lake.spark.range(10).selectExpr("CAST(id AS INT) AS id"))
        tx.insert("items", lake.spark.sql("SELECT 7 AS id, 7 AS parent, 7 AS n"))


def detach(lake: Lake) -> None:
    lake.create_view("v", "SELECT a.id, b.n FROM items a JOIN items b ON a.id = b.parent", detached=True)


def nest(lake: Lake) -> None:
    lake.create_nested("t", "id INT, parts ARRAY<STRUCT<p: INT>>", [{"id": 1, "parts": [{"p": 1}]}])


INTERRUPTED: dict[str, tuple[Callable[[Lake], object], tuple[str, ...]]] = {
    "transaction": (write, ("files.write:1", "files.written:3", "refresh.written", "commit.ready", "lake.commit")),
    "transaction of frames": (write_frame, ("files.adopt:2", "commit.ready")),
    "view": (
        lambda lake: lake.create_view("v", "SELECT parent, SUM(n) AS n FROM items GROUP BY parent"),
        ("build.computed", "files.written", "lake.commit"),
    ),
    "rebuilt view": (
        lambda lake: lake.create_view("at_once", "SELECT COUNT(n) AS c FROM items", rebuild=True),
        ("files.write", "commit.ready"),
    ),
    "detached view": (detach, ("build.computed:2", "commit.ready")),
    "rules": (lambda lake: lake.create_rules("r", RULES), ("build.computed:2", "commit.ready")),
    "constraint": (
        lambda lake: lake.create_constraint("c", "SELECT id FROM items WHERE n > 50", "quarantine"),
        ("build.computed", "lake.commit"),
    ),
    "table": (
        lambda lake: lake.create_table("t", schema="id INT", data=[(1,)], key="id", enforce=True),
        ("files.written", "build.computed"),
    ),
    "table from a frame": (
        lambda lake: lake.create_table("t", data=lake.read("items").select("id")),
        ("files.adopt",),
    ),
    "nested table": (nest, ("files.written",)),
    "drop": (lambda lake: lake.drop_view("at_once"), ("commit.ready", "lake.commit")),
    "revert": (lambda lake: lake.revert(lake.version - 1), ("files.written", "commit.ready")),
    "refresh": (lambda lake: lake.refresh("totals"), ("refresh.computed", "files.written:2", "lake.commit")),
    "full refresh": (lambda lake: lake.refresh("totals", mode="full"), ("files.write:2", "refresh.written")),
}


@pytest.mark.parametrize("operation", INTERRUPTED)
def test_an_interrupted_operation_leaves_no_file(shared: Lake, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    run, places = INTERRUPTED[operation]
    for place in places:
        name, _, visit = place.partition(":")
        with nothing_left(shared), monkeypatch.context() as patched:
            at_fault(patched, name, interrupt, int(visit or 1))
            with pytest.raises(KeyboardInterrupt):
                run(shared)


def test_a_commit_that_was_interrupted_after_it_was_made_is_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", schema="a INT", data=[(1,)])
    at_fault(monkeypatch, "lake.committed", interrupt)
    with pytest.raises(KeyboardInterrupt), lake.transaction() as tx:
        tx.insert("t", [(2,)])
    monkeypatch.undo()
    assert bag(lake.read("t")) == {(1,): 1, (2,): 1}


def test_a_build_that_fails_leaves_no_file(shared: Lake) -> None:
    with nothing_left(shared):
        with pytest.raises(NablaError, match="Division by zero"):
            shared.create_view("v", "SELECT 1 / (n - n) AS x FROM items")
        with pytest.raises(NablaError, match="Division by zero"):
            shared.create_rules("r", "big(I) :- items(I, P, N), N > 1. bad(X) :- items(I, P, N), X = 1 / (N - N).")
        with pytest.raises(NablaError, match="Division by zero"):
            shared.create_constraint("c", "SELECT 1 / (n - n) AS x FROM items")
        with pytest.raises(NablaError, match="Division by zero"):
            shared.create_table("t", data=shared.sql("SELECT 1 / (n - n) AS x FROM items"))


def test_a_refused_change_leaves_no_file(shared: Lake) -> None:
    with nothing_left(shared):
        with pytest.raises(nabla.Violated), shared.transaction() as tx:
            tx.insert("items", [(9, 9, -1)])
        with pytest.raises(nabla.Violated), shared.transaction() as tx:
            tx.insert("items", shared.sql("SELECT 9 AS id, 9 AS parent, -1 AS n"))
        with pytest.raises(nabla.Violated):
            shared.create_constraint("unique", "SELECT id FROM items GROUP BY id HAVING COUNT(*) > 1")
        with pytest.raises(nabla.Violated):
            shared.create_table("t", schema="id INT", data=[(1,), (1,)], key="id", enforce=True)


def test_a_view_that_is_held_back_leaves_no_file(lake: Lake) -> None:
    lake.create_table("t", schema="a INT", data=[(1,)])
    lake.create_view("v", "SELECT SUM(a) AS a FROM t")
    lake.create_constraint("small", "SELECT a FROM v WHERE a > 10")
    with lake.transaction() as tx:
        tx.insert("t", [(20,)])
    with nothing_left(lake):
        assert lake.refresh()["v"].mode == "held"


def test_a_conflict_leaves_no_file(shared: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    version = shared.version
    other = nabla.open(shared.path, spark=shared.spark)

    def interfere() -> None:
        monkeypatch.undo()
        write(other)

    before = stored_files(shared)
    at_fault(monkeypatch, "commit.ready", interfere)
    with pytest.raises(Conflict):
        shared.create_view("v", "SELECT id FROM items")
    assert not [path for path in stored_files(shared) - before if "v-" in str(path)]
    assert shared.version == version + 1
    shared.revert(version)


def test_a_transaction_that_is_repeated_leaves_the_files_of_its_commit_only(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("t", schema="a INT", data=[(1,)])
    other = nabla.open(lake.path, spark=lake.spark)

    def interfere() -> None:
        monkeypatch.undo()
        with other.transaction() as tx:
            tx.insert("t", [(2,)])

    at_fault(monkeypatch, "commit.ready", interfere)
    with lake.transaction() as tx:
        tx.insert("t", lake.spark.sql("SELECT 3 AS a"))
    assert bag(lake.read("t")) == {(1,): 1, (2,): 1, (3,): 1}
    part = lake.context.log.state().entries["t"].parts["data"]
    folder = Path(lake.context.log.folder(part))
    files = {path.name for path in folder.glob("*.parquet")}
    assert files == {file.path for file in lake.context.log.snapshot(part).files}
    assert not [path for path in stored_files(lake) if "staging" in path.parts]


def test_an_abandoned_transaction_leaves_no_file(shared: Lake) -> None:
    with nothing_left(shared), pytest.raises(ZeroDivisionError), shared.transaction() as tx:
        tx.insert("plain", shared.spark.range(10).selectExpr("CAST(id AS INT) AS id"))
        tx.insert("items", [(4, 2, 7)])
        assert tx.read("items").count() == 5
        raise ZeroDivisionError


def test_previews_leave_no_file(shared: Lake) -> None:
    with nothing_left(shared), pytest.raises(ZeroDivisionError), shared.transaction() as tx:
        tx.insert("items", [(4, 2, 7)])
        assert set(shared.preview(tx).changes) == {"items", "totals", "at_once"}
        raise ZeroDivisionError
    before = stored_files(shared, "tables")
    assert bag(shared.read("totals", fresh=True).select("parent", "n")) == {(2, 9): 1, (3, 2): 1}
    assert stored_files(shared, "tables") == before


def test_rows_that_spark_wrote_are_kept_when_others_are_set_aside(lake: Lake) -> None:
    lake.create_table("checked", schema="a INT")
    lake.create_table("other", schema="a INT")
    lake.create_constraint("small", "SELECT a FROM checked WHERE a > 10", on_violation="quarantine")
    with lake.transaction() as tx:
        tx.insert("checked", [(1,), (20,)])
        tx.insert("other", lake.spark.sql("SELECT 5 AS a"))
    assert bag(lake.read("checked")) == {(1,): 1}
    assert bag(lake.read("other")) == {(5,): 1}
    assert bag(lake.read("checked_quarantine").select("a")) == {(20,): 1}


def test_a_view_is_rebuilt_whatever_the_case_of_its_name(lake: Lake) -> None:
    lake.create_table("t", schema="a INT", data=[(1,)])
    lake.create_view("Sums", "SELECT SUM(a) AS a FROM t")
    lake.create_view("doubled", "SELECT 2 * a AS a FROM Sums")
    assert lake.create_view("sums", "SELECT SUM(10 * a) AS a FROM t", rebuild=True).name == "Sums"
    lake.refresh()
    assert set(lake.status()) == {"t", "Sums", "doubled"}
    assert bag(lake.read("doubled")) == {(20,): 1}
