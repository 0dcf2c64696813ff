"""The laws of signed multisets that the calculus stands on, each against recomputation on random states.

They are written out by hand in the nodes of the algebra and know nothing of the rules of the calculus: if a rule fails
and its law here holds, the transcription is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from plans import call, condition, renamed

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    JoinKind,
    Negate,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate, negated
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.random_data import Table, random_change

STATES = 80
S_TABLE = Table("s", (Column("a", "int"), Column("b", "int")))
T_TABLE = Table("t", (Column("c", "int"), Column("d", "int")))
ON = {
    "equality": "(`b#2` = `c#3`)",
    "inequality": "(`b#2` <= `c#3`)",
    "not in": "((`b#2` = `c#3`) OR ((`b#2` = `c#3`) IS NULL))",
    "equality and inequality": "((`b#2` = `c#3`) AND (`a#1` < `d#4`))",
}
Query = Callable[[At], Node]


def s(at: At) -> Scan:
    return Scan("s", at, (Column("a#1", "int"), Column("b#2", "int")), ("a", "b"))


def t(at: At) -> Scan:
    return Scan("t", at, (Column("c#3", "int"), Column("d#4", "int")), ("c", "d"))


def plus(*terms: Node) -> Node:
    return UnionAll(terms, terms[0].columns)


def minus(left: Node, right: Node) -> Node:
    return plus(left, Negate(right))


def near(state: Node, change: Node, names: tuple[str, ...]) -> Node:
    """The rows of a state that agree with some row of a change in the named columns."""
    other = renamed(change, "'")
    on = tuple(equal(state.column(n).ref, other.column(n + "'").ref, null_safe=True) for n in names)
    return Join(state, other, on, "semi")


def random_states(seed: int) -> Database:
    rng = Random(seed)
    values = (None, 0, 1, 2)
    tables = {}
    for table in ("s", "t"):
        rows = [(rng.choice(values), rng.choice(values)) for _ in range(rng.randrange(6))]
        tables[table] = Counter(rows)
    change = {x.name: random_change(rng, x, tables[x.name], 3) for x in (S_TABLE, T_TABLE)}
    return Database.changed({"s": ("a", "b"), "t": ("c", "d")}, tables, change)


def assert_law(delta: Node, query: Query) -> None:
    for seed in range(STATES):
        database = random_states(seed)
        change = added(evaluate(query(At.NEW), database), negated(evaluate(query(At.OLD), database)))
        assert evaluate(delta, database) == change, seed


DS, DT = s(At.DELTA), t(At.DELTA)
S0, S1, T0, T1 = s(At.OLD), s(At.NEW), t(At.OLD), t(At.NEW)


@pytest.mark.parametrize(
    "linear",
    [
        lambda q: Filter(q, (condition("`a#1` < `b#2`"),)),
        lambda q: Project(q, (Named(Column("x#9", "int"), read_text("COALESCE(`a#1`, 0) + 1", "int")),)),
        lambda q: Generate(q, read_text("explode(array(`a#1`, `b#2`, 7))", "int"), (Column("e#9", "int"),)),
        lambda q: Negate(q),
        lambda q: Consolidate(q),
        lambda q: Unweigh(Weigh(q, Column("w#9", "bigint")), "w#9"),
        lambda q: plus(q, q),
    ],
)
def test_linear_operators_apply_to_the_change(linear: Callable[[Node], Node]) -> None:
    assert_law(linear(DS), lambda at: linear(s(at)))


@pytest.mark.parametrize("on", ON)
def test_join(on: str) -> None:
    """d(S ⋈ T) = dS ⋈ T₀ + S₁ ⋈ dT"""
    theta = (condition(ON[on]),)
    assert_law(plus(Join(DS, T0, theta), Join(S1, DT, theta)), lambda at: Join(s(at), t(at), theta))


@pytest.mark.parametrize("on", ON)
def test_join_from_both_old_states(on: str) -> None:
    """d(S ⋈ T) = dS ⋈ T₀ + S₀ ⋈ dT + dS ⋈ dT"""
    theta = (condition(ON[on]),)
    delta = plus(Join(DS, T0, theta), Join(S0, DT, theta), Join(DS, DT, theta))
    assert_law(delta, lambda at: Join(s(at), t(at), theta))


def flips(theta: tuple[Expr, ...], mirrored: bool = False) -> tuple[Node, Node]:
    """(up, down): rows of the new left side near a changed right row that gained a first match or lost their last."""
    left, change, before, after = (T1, DS, S0, S1) if mirrored else (S1, DT, T0, T1)
    touched = Join(left, change, theta, "semi")
    up = Join(Join(touched, before, theta, "anti"), after, theta, "semi")
    down = Join(Join(touched, before, theta, "semi"), after, theta, "anti")
    return up, down


@pytest.mark.parametrize("on", ON)
def test_semijoin(on: str) -> None:
    """d(S ⋉ T) = dS ⋉ T₀ + up − down"""
    theta = (condition(ON[on]),)
    up, down = flips(theta)
    delta = plus(Join(DS, T0, theta, "semi"), up, Negate(down))
    assert_law(delta, lambda at: Join(s(at), t(at), theta, "semi"))


def anti_change(theta: tuple[Expr, ...], mirrored: bool = False) -> Node:
    up, down = flips(theta, mirrored)
    left, right = (DT, S0) if mirrored else (DS, T0)
    return plus(Join(left, right, theta, "anti"), down, Negate(up))


@pytest.mark.parametrize("on", ON)
def test_antijoin(on: str) -> None:
    """d(S ▷ T) = dS ▷ T₀ + down − up"""
    theta = (condition(ON[on]),)
    assert_law(anti_change(theta), lambda at: Join(s(at), t(at), theta, "anti"))


def padded(node: Node) -> Node:
    """The columns of both sides, those that a node lacks being NULL."""
    columns = S1.columns + T1.columns
    null = read_text("CAST(NULL AS INT)", "int")
    return Project(node, tuple(Named(c, c.ref if c.name in node.names else null) for c in columns))


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("kind", ["left", "right", "full"])
def test_outer_joins(on: str, kind: JoinKind) -> None:
    """d(S ⟕ T) = d(S ⋈ T) + d(S ▷ T) × null, and the mirrored anti part"""
    theta = (condition(ON[on]),)
    terms: list[Node] = [Join(DS, T0, theta), Join(S1, DT, theta)]
    if kind != "right":
        terms.append(padded(anti_change(theta)))
    if kind != "left":
        terms.append(padded(anti_change(theta, mirrored=True)))
    assert_law(plus(*terms), lambda at: Join(s(at), t(at), theta, kind))


def test_distinct() -> None:
    """d(δ S): among the rows of dS +1 if absent before and present now, −1 if the reverse"""
    names = ("a#1", "b#2")
    appeared = Join(Distinct(near(S1, DS, names)), renamed(S0, "!"), _same(names), "anti")
    vanished = Join(Distinct(near(S0, DS, names)), renamed(S1, "!"), _same(names), "anti")
    assert_law(minus(appeared, vanished), lambda at: Distinct(s(at)))


def _same(names: tuple[str, ...]) -> tuple[Expr, ...]:
    return tuple(equal(read_text(f"`{n}`", "int"), read_text(f"`{n}!`", "int"), null_safe=True) for n in names)


def _touched_rows(state: Node) -> Node:
    """The rows of a state of S or T that occur, by position, in dS or dT."""
    change = UnionAll((rows_of(DS), rows_of(DT)), (Column("x#7", "int"), Column("y#8", "int")))
    first, second = state.columns
    on = (
        equal(first.ref, read_text("`x#7`", "int"), null_safe=True),
        equal(second.ref, read_text("`y#8`", "int"), null_safe=True),
    )
    return Join(state, change, on, "semi")


def rows_of(change: Node) -> Node:
    """Each row of a change once: a union of changes themselves might cancel a row that is in both."""
    weighed = Weigh(change, Column("w#9", "bigint"))
    return Aggregate(weighed, tuple(c.name for c in change.columns))


@pytest.mark.parametrize("operator", [ExceptAll, IntersectAll])
def test_bag_operators(operator: type[ExceptAll] | type[IntersectAll]) -> None:
    """d(S ∸ T) = (S₁ ∸ T₁) − (S₀ ∸ T₀) on the rows in dS or dT"""
    after = operator(_touched_rows(S1), _touched_rows(T1))
    before = operator(_touched_rows(S0), _touched_rows(T0))
    assert_law(minus(after, before), lambda at: operator(s(at), t(at)))


def test_aggregate() -> None:
    """d(γ S) = γ(S₁ ⋉ G(dS)) − γ(S₀ ⋉ G(dS))"""
    calls = (call("n#5", "count"), call("s#6", "sum", "b#2"), call("m#7", "max", "b#2"))

    def grouped(source: Node) -> Node:
        return Aggregate(source, ("a#1",), calls)

    assert_law(minus(grouped(near(S1, DS, ("a#1",))), grouped(near(S0, DS, ("a#1",)))), lambda at: grouped(s(at)))


def test_a_group_whose_keys_cancel_in_the_change_is_still_touched() -> None:
    """Why G(dS) must not be a projection of the signed change: an update within a group sums to nothing there."""
    database = Database({"s": ("a", "b")}, {"s": Counter({(1, 5): 1})}, {"s": Counter({(1, 7): 1})})
    keys = Project(DS, (Named(Column("a#1'", "int"), read_text("`a#1`", "int")),))
    assert evaluate(keys, database) == {}
    assert evaluate(near(S1, DS, ("a#1",)), database) == {(1, 7): 1}


def test_window() -> None:
    """d(ω S) = ω(S₁ ⋉ P(dS)) − ω(S₀ ⋉ P(dS))"""
    order = (Order(read_text("`b#2`", "int"), ascending=False, nulls_first=False),)
    calls = (
        WindowCall(Call(Column("r#5", "int"), "rank"), order),
        WindowCall(Call(Column("s#6", "bigint"), "sum", (read_text("`b#2`", "int"),)), order),
    )

    def windowed(source: Node) -> Node:
        return Window(source, ("a#1",), calls)

    assert_law(minus(windowed(near(S1, DS, ("a#1",))), windowed(near(S0, DS, ("a#1",)))), lambda at: windowed(s(at)))


def test_change_table() -> None:
    """Partial results over the weighed change, added to those of the old state, are those of the new state."""
    weight = Column("w#9", "bigint", False)
    counted = "CASE WHEN `b#2` IS NOT NULL THEN `w#9` ELSE 0L END"
    texts = {"n#5": "`w#9`", "c#6": counted, "s#7": "COALESCE(`b#2`, 0) * `w#9`"}
    calls = tuple(Call(Column(name, "bigint"), "sum", (read_text(text, "bigint"),)) for name, text in texts.items())

    def partials(source: Node) -> Node:
        return Aggregate(Weigh(source, weight), ("a#1",), calls)

    for seed in range(STATES):
        database = random_states(seed)
        old, change = evaluate(partials(S0), database), evaluate(partials(DS), database)
        assert evaluate(partials(S1), database) == _merged(old, change), seed


def _merged(old: Bag, change: Bag) -> Bag:
    groups: dict[object, list[int]] = {}
    for key, *values in (*old, *change):
        groups[key] = [x + y for x, y in zip(groups.get(key, [0, 0, 0]), values, strict=True)]
    return Counter((key, *values) for key, values in groups.items() if values[0])


def test_top_k_is_decided_by_the_old_top_and_the_insertions_unless_it_loses_a_row() -> None:
    """τ(S₁) = τ(τ(S₀) + dS) where dS deletes nothing"""
    order = (Order(read_text("`b#2`", "int")), Order(read_text("`a#1`", "int")))
    seen = 0
    for seed in range(3 * STATES):
        database = random_states(seed)
        if any(n < 0 for n in database.delta("s").values()):
            continue
        seen += 1
        assert evaluate(TopK(plus(TopK(S0, order, 2), DS), order, 2), database) == evaluate(
            TopK(S1, order, 2), database
        )
    assert seen > 30
