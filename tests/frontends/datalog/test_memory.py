"""Relations in memory: lookups give what whole evaluation gives, pieces stay few, and bounds are kept."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from nabla.algebra.build import equal
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import At, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from nabla.algebra.reference.interpreter import Database, evaluate
from nabla.calculus.recursion.memory import Memory, MemoryRelation, Piece, TooManyRows
from nabla.dev.testing.expressions import read_text

R = Scan("r", At.NEW, (Column("a", "bigint"), Column("b", "bigint")), ("x", "y"))
S = Scan("s", At.NEW, (Column("c", "bigint"), Column("d", "bigint")), ("y", "x"))
T = Scan("t", At.OLD, (Column("e", "bigint"),), ("x",))


def _on(left: str, right: str, null_safe: bool = False) -> Expr:
    return equal(read_text(f"`{left}`", "bigint"), read_text(f"`{right}`", "bigint"), null_safe)


def _kept(node: Node, *names: str) -> Project:
    return Project(node, tuple(Named(node.column(n), node.column(n).ref) for n in names))


WITHOUT = Join(S, T, (_on("c", "e", True),), "anti")
BOTH = UnionAll((S, WITHOUT), (Column("u", "bigint"), Column("v", "bigint")))
QUERIES: list[Node] = [
    *(Join(R, S, (_on("b", "c", safe),), kind) for kind in ("inner", "semi", "anti") for safe in (True, False)),  # type: ignore[arg-type]
    Join(R, S, (_on("d", "a"), _on("b", "c", True)), "inner"),
    Join(R, WITHOUT, (_on("a", "c"),), "inner"),
    Join(R, Distinct(BOTH), (_on("a", "v", True),), "semi"),
    Join(R, Filter(BOTH, (read_text("(`u` > 1)", "boolean"),)), (_on("a", "u", True),), "anti"),
    Join(R, _kept(S, "d"), (_on("a", "d"),), "inner"),
    Join(R, Project(S, (Named(Column("f", "bigint"), read_text("(`c` + 1)", "bigint")),)), (_on("a", "f"),), "inner"),
    Join(R, S, (read_text("(`a` < `c`)", "boolean"),), "inner"),
    *(Join(R, S, (_on("b", "c"), read_text("(`a` < `d`)", "boolean")), kind) for kind in ("inner", "semi", "anti")),  # type: ignore[arg-type]
    Join(R, S, (_on("b", "c"),), "left"),
    Join(R, T, (), "inner"),
]


def _value(rng: Random) -> int | None:
    return rng.choice((None, 0, 1, 2, 3))


@pytest.mark.parametrize("query", QUERIES)
def test_joins_by_lookup_are_joins(query: Node) -> None:
    for seed in range(40):
        rng = Random(seed)
        memory = Memory({"r": ("x", "y"), "s": ("x", "y"), "t": ("x",)})
        for name, width in (("r", 2), ("s", 2), ("t", 1)):
            rows = Counter(tuple(_value(rng) for _ in range(width)) for _ in range(rng.randint(0, 9)))
            memory.before[name] = memory.after[name] = rows
        expected = evaluate(query, Database(memory.fields, memory.before, memory.after))
        assert memory.evaluate({"q": query}, {})["q"].bag == expected
        made = {"s": MemoryRelation.of(("x", "y"), memory.after.pop("s"))}
        assert memory.evaluate({"q": query}, made)["q"].bag == expected


def test_a_relation_that_grows_has_few_pieces_and_all_rows() -> None:
    memory = Memory({})
    rows = MemoryRelation.of(("x",), Counter({(0,): 1}))
    for i in range(1, 1000):
        rows = memory.extend(rows, MemoryRelation.of(("x",), Counter({(i,): 1})))
        assert len(rows.pieces) < 12
    assert rows.set == {(i,) for i in range(1000)}
    assert len(rows) == 1000
    assert sorted(rows.matching((0,), {5, 999, 1000})) == [((5,), 1), ((999,), 1)]


def test_a_piece_is_looked_up_by_any_columns() -> None:
    piece = Piece(Counter({(1, "a"): 2, (1, "b"): 1, (2, None): 1}))
    assert dict(piece.matching((0,), {1})) == {(1, "a"): 2, (1, "b"): 1}
    assert dict(piece.matching((1,), {None, "b"})) == {(2, None): 1, (1, "b"): 1}
    assert dict(piece.matching((0, 1), {(1, "a"), (2, "a")})) == {(1, "a"): 2}
    assert dict(piece.matching((1, 0), {("a", 1)})) == {(1, "a"): 2}


def test_a_query_that_gives_too_much_is_given_up() -> None:
    memory = Memory({"r": ("x", "y"), "s": ("x", "y")}, most=50)
    memory.after = {name: Counter({(1, i): 1 for i in range(20)}) for name in ("r", "s")}
    with pytest.raises(TooManyRows):
        memory.evaluate({"q": Join(R, S, (_on("a", "d"),), "inner")}, {})
