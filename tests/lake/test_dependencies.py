"""What is refreshed together, and in what order."""

from __future__ import annotations

from itertools import chain
from random import Random

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node, Scan, UnionAll
from nabla.lake.objects.graph import layers, with_upstream
from nabla.lake.objects.view import View
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.files import DataFile


def view(name: str, *sources: str, maintain: str = "deferred", on_violation: str | None = None) -> Entry:
    scans: list[Node] = [Scan(s, At.NEW, (Column(f"a#{i}", "int"),), ("a",)) for i, s in enumerate(sources)]
    plan = UnionAll(tuple(scans), (Column("a#9", "int"),))
    made = View(name, plan, ("a",), ("a",), None, (), maintain=maintain, on_violation=on_violation)
    return Entry(name, made.kind, made.to_json(), {"data": Part(name, 0)}, {"sources": dict.fromkeys(sources, 0)})


def state(*entries: Entry) -> LakeState:
    tables = {s for e in entries for s in e.facts["sources"]} - {e.name for e in entries}
    made = {t: Entry(t, "table", {}, {"data": Part(t, 0)}) for t in sorted(tables)}
    return LakeState(0, made | {e.name: e for e in entries}, DataFile("f", 0, 0))


def planned(lake: LakeState, *names: str) -> list[list[list[str]]]:
    wanted = names or tuple(n for n, e in lake.entries.items() if e.kind == "view")
    return [[[n for unit in job for n in unit] for job in layer] for layer in layers(with_upstream(wanted, lake), lake)]


def test_sources_come_first_and_others_side_by_side() -> None:
    lake = state(view("c", "b", "t"), view("b", "a"), view("a", "t"), view("z", "t"))
    assert planned(lake) == [[["a"], ["z"]], [["b"]], [["c"]]]
    assert planned(lake, "b") == [[["a"]], [["b"]]]


def test_manual_views_are_left_alone_unless_they_are_named() -> None:
    lake = state(view("m", "t", maintain="manual"), view("v", "m"))
    assert planned(lake, "v") == [[["v"]]]
    assert planned(lake, "v", "m") == [[["m"]], [["v"]]]


def test_views_that_a_constraint_relates_go_together_with_what_lies_between() -> None:
    related = view("check", "a", "c", on_violation="reject")
    lake = state(view("a", "t"), view("b", "a"), view("c", "b"), view("x", "a"), view("y", "t"), related)
    assert planned(lake) == [[["a", "b", "c"], ["y"]], [["x"]]]
    warning = view("check", "a", "c", on_violation="warn")
    lake = state(view("a", "t"), view("b", "a"), view("c", "b"), warning)
    assert planned(lake) == [[["a"]], [["b"]], [["c"]]]


def test_everything_comes_once_and_after_what_it_reads() -> None:
    for seed in range(300):
        rng = Random(seed)
        names = [f"v{i}" for i in range(rng.randint(1, 9))]
        views = [view(n, *rng.sample([*names[:i], "t"], rng.randint(1, min(3, i + 1)))) for i, n in enumerate(names)]
        checks = [
            view(f"c{i}", *rng.sample(names, min(2, len(names))), on_violation="reject")
            for i in range(rng.randint(0, 3))
        ]
        lake = state(*views, *checks)
        done: set[str] = {"t"}
        for layer in planned(lake):
            for job in layer:
                for name in job:
                    earlier = done | set(job[: job.index(name)])
                    assert set(lake.entries[name].facts["sources"]) <= earlier, seed
            done |= set(chain(*layer))
        assert done == {"t", *names}
        jobs = [set(job) for layer in planned(lake) for job in layer]
        for check in checks:
            assert sum(1 for job in jobs if job & set(check.facts["sources"])) == 1
