"""The delta rules, one an operator. d(q) is the change of q, old(q) and new(q) are q before and after it.

Every body is its law, transcribed. All operands may change at once.
"""

from __future__ import annotations

from nabla.algebra.build import all_of, is_not_true, null
from nabla.algebra.calls import Named
from nabla.algebra.clock import CLOCK, before, clock_conjuncts, reads_clock
from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import (
    WEIGHT,
    Aggregate,
    At,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Negate,
    Node,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Weigh,
    Window,
)
from nabla.calculus.delta import Derivation, add, keys_of, mark_columns, negative
from nabla.calculus.laws import rule
from nabla.rewrite.restrict import on_columns, restrict


def _join_changes(left: Node | None, right: Node | None, q: Join) -> Node | None:
    return None if left is None or right is None else Join(left, right, q.on, q.kind)


@rule(Scan, law="dR is given", source="the change of a table between two versions", sql="FROM a table or view")
def scan(q: Scan, c: Derivation) -> Node | None:
    return c.read(q, At.DELTA)


@rule(Constant, law="d(c) = ∅", source="GLT97", sql="VALUES, SELECT without FROM")
def constant(q: Constant, c: Derivation) -> Node | None:
    return None


@rule(
    Filter,
    law="d(σₚ S) = σₚ₀ dS + σ(p₁ ∧ ¬p₀) S₁ − σ(p₀ ∧ ¬p₁) S₁",
    source="a filter on current_date(): rows between the old and the new boundary",
    sql="WHERE day > current_date() - 7",
    when=reads_clock,
)
def select_by_clock(q: Filter, c: Derivation) -> Node | None:
    change = c.d(q.input)
    if CLOCK not in c.changed:
        return None if change is None else Filter(change, q.conjuncts)
    then, now = tuple(map(before, q.conjuncts)), q.conjuncts
    after = c.new(q.input)
    come, gone = Filter(after, (*now, _not(then))), Filter(after, (*then, _not(now)))
    return add(None if change is None else Filter(change, then), come, negative(gone))


def _not(conjuncts: tuple[Expr, ...]) -> Expr:
    """Whether one of the conjuncts that read the clock is not true."""
    return is_not_true(all_of(clock_conjuncts(conjuncts)))


@rule(Filter, law="d(σ S) = σ dS", source="GLT97 fig. 2; linear", sql="WHERE, HAVING, QUALIFY")
def select(q: Filter, c: Derivation) -> Node | None:
    return _linear(q, c)


@rule(Project, law="d(π S) = π dS", source="GLT97 fig. 2; linear on bags", sql="SELECT list")
def project(q: Project, c: Derivation) -> Node | None:
    return _linear(q, c)


@rule(
    Generate,
    law="d(μ S) = μ dS",
    source="linear: each row is unnested by itself",
    sql="explode, posexplode, inline, stack, LATERAL VIEW; GROUPING SETS, CUBE, ROLLUP",
)
def generate(q: Generate, c: Derivation) -> Node | None:
    return _linear(q, c)


@rule(Negate, law="d(−S) = −dS", source="linear", sql="none: it occurs in changes")
def negate(q: Negate, c: Derivation) -> Node | None:
    return _linear(q, c)


@rule(UnionAll, law="d(S + T) = dS + dT", source="GLT97 fig. 2; linear on bags", sql="UNION ALL; with DISTINCT, UNION")
def union_all(q: UnionAll, c: Derivation) -> Node | None:
    changes = [change for member in q.members if (change := c.d(member)) is not None]
    return UnionAll(tuple(changes), q.output)


def _linear(q: Node, c: Derivation) -> Node | None:
    change = c.d(q.inputs[0])
    return None if change is None else q.with_inputs(change)


@rule(
    Join,
    law="d(S ⋈ T) = dS ⋈ T₀ + S₁ ⋈ dT",
    source="GLT97 fig. 2; count algorithm 3.6",
    sql="JOIN, CROSS JOIN, LATERAL, scalar subqueries",
    when=lambda q: q.kind == "inner",
)
def join(q: Join, c: Derivation) -> Node | None:
    return add(_join_changes(c.d(q.left), c.old(q.right), q), _join_changes(c.new(q.left), c.d(q.right), q))


def _flips(q: Join, c: Derivation) -> tuple[Node | None, Node | None]:
    """(up, down): rows of S₁ near a changed row of T that found their first match, and that lost their last."""
    change = c.d(q.right)
    if change is None:
        return None, None
    near = Join(c.new(q.left), change, q.on, "semi")
    before, after = c.old(q.right), c.new(q.right)
    up = Join(Join(near, before, q.on, "anti"), after, q.on, "semi")
    down = Join(Join(near, before, q.on, "semi"), after, q.on, "anti")
    return up, down


@rule(
    Join,
    law="d(S ⋉ T) = dS ⋉ T₀ + up − down,  up, down ⊆ S₁ ⋉ dT",
    source="GK98 table 1, on bags",
    sql="EXISTS, IN (subquery), LEFT SEMI JOIN, INTERSECT",
    when=lambda q: q.kind == "semi",
)
def semijoin(q: Join, c: Derivation) -> Node | None:
    up, down = _flips(q, c)
    return add(_join_changes(c.d(q.left), c.old(q.right), q), up, negative(down))


@rule(
    Join,
    law="d(S ▷ T) = dS ▷ T₀ + down − up,  up, down ⊆ S₁ ⋉ dT",
    source="GK98 table 1, on bags",
    sql="NOT EXISTS, NOT IN (subquery), LEFT ANTI JOIN, EXCEPT",
    when=lambda q: q.kind == "anti",
)
def antijoin(q: Join, c: Derivation) -> Node | None:
    up, down = _flips(q, c)
    return add(_join_changes(c.d(q.left), c.old(q.right), q), down, negative(up))


def outer_parts(q: Join) -> UnionAll:
    """S ⟕ T = (S ⋈ T) + (S ▷ T) × null, and the mirror images."""
    left, right = q.left, q.right
    inner = Join(left, right, q.on, "inner")
    members: list[Node] = [inner]

    def row(present: Node) -> tuple[Named, ...]:
        return tuple(Named(c, c.ref if c.name in present.names else null(c.type)) for c in q.columns)

    if q.kind in ("left", "full"):
        members.append(Project(Join(left, right, q.on, "anti"), row(left)))
    if q.kind in ("right", "full"):
        members.append(Project(Join(right, left, q.on, "anti"), row(right)))
    return UnionAll(tuple(members), q.columns)


@rule(
    Join,
    law="d(S ⟕ T) = d(S ⋈ T) + d(S ▷ T) × null",
    source="GK98 table 2, on bags",
    sql="LEFT, RIGHT and FULL OUTER JOIN",
    when=lambda q: q.kind in ("left", "right", "full"),
)
def outer_join(q: Join, c: Derivation) -> Node | None:
    return c.d(outer_parts(q))


def _recompute_affected(q: Node, keys: tuple[str, ...], c: Derivation) -> Node | None:
    """op(S₁ ⋉ K) − op(S₀ ⋉ K) for an operator that works on each group by itself, K being the groups in dS."""
    (source,) = q.inputs
    change = c.d(source)
    if change is None:
        return None
    touched = mark_columns(keys_of(change, keys)) if keys else None

    def group(state: Node) -> Node:
        return restrict(state, touched, on_columns(state, keys, touched)) if touched is not None else state

    return add(q.with_inputs(group(c.new(source))), negative(q.with_inputs(group(c.old(source)))))


@rule(
    Distinct,
    law="d(δ S) = δ(S₁ ⋉ dS) − δ(S₀ ⋉ dS)",
    source="count algorithm: a group is there while its count is positive",
    sql="SELECT DISTINCT, UNION",
)
def distinct(q: Distinct, c: Derivation) -> Node | None:
    return _recompute_affected(q, tuple(col.name for col in q.columns), c)


@rule(
    Aggregate,
    law="d(γ S) = γ(S₁ ⋉ G(dS)) − γ(S₀ ⋉ G(dS))",
    source="Quass; thesis 5: affected groups",
    sql="GROUP BY, aggregates without GROUP BY",
)
def aggregate(q: Aggregate, c: Derivation) -> Node | None:
    return _recompute_affected(q, q.keys, c)


@rule(
    Window,
    law="d(ω S) = ω(S₁ ⋉ P(dS)) − ω(S₀ ⋉ P(dS))",
    source="affected partitions, as groups",
    sql="functions OVER (…)",
)
def window(q: Window, c: Derivation) -> Node | None:
    return _recompute_affected(q, q.partition, c)


@rule(
    TopK,
    law="d(τ S) = τ(S₁) − τ(S₀)",
    source="affected groups, of which there is one",
    sql="ORDER BY … LIMIT … OFFSET …",
    when=lambda q: bool(q.order),
)
def top_k(q: TopK, c: Derivation) -> Node | None:
    return _recompute_affected(q, (), c)


def _recompute_touched_rows(q: ExceptAll | IntersectAll, c: Derivation) -> Node | None:
    """The operator recomputed on the rows that occur in dS or dT: its new rows minus its old ones."""
    columns = tuple(col.name for col in q.columns)
    # Weights become a column here: a row that dS inserts and dT deletes must not cancel.
    changes = [Weigh(change) for part in q.inputs if (change := c.d(part)) is not None]
    touched = mark_columns(Aggregate(UnionAll(tuple(changes), (*q.columns, WEIGHT)), columns))

    def near(state: Node) -> Node:
        names = tuple(col.name for col in state.columns)
        return restrict(state, touched, on_columns(state, names, touched))

    after = q.with_inputs(near(c.new(q.left)), near(c.new(q.right)))
    before = q.with_inputs(near(c.old(q.left)), near(c.old(q.right)))
    return add(after, negative(before))


@rule(
    ExceptAll, law="d(S ∸ T) = (S₁ ∸ T₁) − (S₀ ∸ T₀) on the rows in dS or dT", source="GLT97, on bags", sql="EXCEPT ALL"
)
def except_all(q: ExceptAll, c: Derivation) -> Node | None:
    return _recompute_touched_rows(q, c)


@rule(
    IntersectAll,
    law="d(S ∩ T) = (S₁ ∩ T₁) − (S₀ ∩ T₀) on the rows in dS or dT",
    source="GLT97, on bags",
    sql="INTERSECT ALL",
)
def intersect_all(q: IntersectAll, c: Derivation) -> Node | None:
    return _recompute_touched_rows(q, c)


@rule(
    Recursion,
    law="d(↻ A Q) = (↻ A Q)₁ − (↻ A Q)₀, where (↻ A Q) = A + Q(A) + Q(Q(A)) + …",
    source="level by level",
    sql="WITH RECURSIVE … UNION ALL",
)
def recursion(q: Recursion, c: Derivation) -> Node | None:
    return add(c.new(q), negative(c.old(q)))
