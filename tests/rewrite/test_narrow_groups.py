"""Groups narrowed to the keys that a filtered table leaves: the same rows, from less."""

from __future__ import annotations

from random import Random

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import Aggregate, At, Filter, Join, JoinKind, Node, Project, Scan
from nabla.algebra.reference.interpreter import evaluate
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import check
from nabla.dev.testing.random_data import RandomSizes, Table, random_database
from nabla.rewrite.narrow_groups import narrow_groups

SIZES = RandomSizes(rows=6, depth=2, scans=3, operations=3)
TABLES = tuple(Table(name, (Column("k", "int"), Column("x", "int"))) for name in ("a", "p", "b"))


def scan(table: str, number: int) -> Scan:
    return Scan(table, At.NEW, (Column(f"k#{number}", "int"), Column(f"x#{number + 1}", "int")), ("k", "x"))


def on(left: Node, right: Node, null_safe: bool = False) -> tuple[Expr, ...]:
    return (equal(left.columns[0].ref, right.columns[0].ref, null_safe=null_safe),)


def filtered(table: str, number: int) -> Filter:
    leaf = scan(table, number)
    return Filter(leaf, (read_text(f"({leaf.columns[1].ref.sql} > 0)", "boolean"),))


def groups(rng: Random) -> Node:
    rows = scan("b", 20)
    node: Node = Aggregate(rows, ("k#20",), (Call(Column("n#22", "bigint", False), "sum", (rows.columns[1].ref,)),))
    if rng.random() < 0.3:
        node = Filter(node, (read_text("(`n#22` > 1)", "boolean"),))
    if rng.random() < 0.3:
        node = Project(
            node,
            (Named(Column("g#23", "int"), node.columns[0].ref), Named(Column("m#24", "bigint"), node.columns[1].ref)),
        )
    return node


def query(rng: Random) -> Node:
    """a, p with a filter and groups of b, joined in some order and some ways."""
    left, part, grouped = scan("a", 10), filtered("p", 15), groups(rng)
    way: JoinKind = rng.choice(("inner", "semi"))
    kind: JoinKind = rng.choice(("inner", "left", "semi", "anti", "right", "full"))
    null_safe = rng.random() < 0.3
    if rng.random() < 0.5:
        inner = Join(left, part, on(left, part), way)
        if rng.random() < 0.3:
            return Join(grouped, inner, on(grouped, inner, null_safe), kind)
        return Join(inner, grouped, on(inner, grouped, null_safe), kind)
    inner = Join(left, grouped, on(left, grouped, null_safe), kind)
    return Join(inner, part, on(inner, part, rng.random() < 0.3), way)


def test_gives_the_same_rows_and_is_maintained() -> None:
    changed = 0
    for seed in range(200):
        rng = Random(seed)
        plan, database = query(rng), random_database(rng, TABLES, SIZES)
        narrow, told = narrow_groups(plan, lambda table, field: (table, field) == ("p", "k"))
        assert narrow.columns == plan.columns
        assert evaluate(narrow, database) == evaluate(plan, database), f"seed {seed}"
        assert bool(told) == (narrow != plan)
        if told:
            changed += 1
            check(narrow, database, frozenset(t.name for t in TABLES if database.delta(t.name)))
    assert changed > 75


def test_groups_are_computed_of_the_keys_alone() -> None:
    left, part, grouped = scan("a", 10), filtered("p", 15), groups(Random(1))
    inner = Join(left, part, on(left, part))
    plan, told = narrow_groups(
        Join(inner, grouped, on(inner, grouped)), lambda table, field: (table, field) == ("p", "k")
    )
    assert told == ("groups by k are kept for rows of p that its filter leaves",)
    (below,) = (node for node in plan.walk() if isinstance(node, Aggregate))
    assert isinstance(below.input, Join)
    assert below.input.kind == "semi"
    assert [n.table for n in below.input.right.walk() if isinstance(n, Scan)] == ["p"]


def test_a_table_is_left_alone_without_a_filter_or_a_key() -> None:
    left, grouped = scan("a", 10), groups(Random(1))
    for part, is_key in ((scan("p", 15), True), (filtered("p", 15), False)):
        inner = Join(left, part, on(left, part))
        plan = Join(inner, grouped, on(inner, grouped))
        assert narrow_groups(plan, lambda table, field, answer=is_key: answer) == (plan, ())
