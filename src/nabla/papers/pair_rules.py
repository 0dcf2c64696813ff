"""The tables of the papers, one rule for each row: the rows that a change deletes from Q and inserts into it, for Q with the
operands S and T.

In a body `s.old` is S, `s.new` Sᵐ, `s.kept` S − ∇S, `s.deleted` ∇S and `s.inserted` ΔS; `q(x, y)` is Q's operator on other
operands, and `|`, `&`, `-` are ∪, ∩ and −. Everything else is as printed. All operands may change at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nabla.algebra.build import equal, null
from nabla.algebra.calls import Named
from nabla.algebra.equalities import equality_of
from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import (
    Aggregate,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    JoinKind,
    Node,
    Project,
    UnionAll,
)
from nabla.calculus.delta import mark_columns
from nabla.papers.pair_laws import Operand, ViewOperator, pair_rule
from nabla.papers.sets import EMPTY, RowSet

GLT97 = "Griffin, Libkin, Trickey 1997, figure 2"
GK98 = "Griffin, Kumar 1998, figure 4"
Changes = tuple[RowSet, RowSet]


def _is(*kinds: type[Node]) -> Callable[[Node], bool]:
    return lambda q: isinstance(q, kinds)


def _set(kind: type[Node]) -> Callable[[Node], bool]:
    return lambda q: isinstance(q, Distinct) and isinstance(q.input, kind)


def _join(kind: JoinKind) -> Callable[[Node], bool]:
    return lambda q: isinstance(q, Join) and q.kind == kind


@pair_rule("σₚ(S)", delete="σₚ(∇S)", insert="σₚ(ΔS)", source=GLT97, of=_is(Filter))
def selection(q: ViewOperator, s: Operand) -> Changes:
    return q(s.deleted), q(s.inserted)


@pair_rule("ρ(S)", delete="ρ(∇S)", insert="ρ(ΔS)", source="a projection that keeps every column", of=_is(Project))
def renaming(q: ViewOperator, s: Operand) -> Changes:
    return q(s.deleted), q(s.inserted)


@pair_rule("Π_A(S)", delete="Π_A(∇S) − Π_A(Sᵐ)", insert="Π_A(ΔS) − Π_A(S)", source=GLT97, of=_set(Project))
def projection(q: ViewOperator, s: Operand) -> Changes:
    return q(s.deleted) - q(s.new), q(s.inserted) - q(s.old)


@pair_rule(
    "S × T, S ⋈ T",
    delete="(∇S ⋈ T) ∪ (S ⋈ ∇T)",
    insert="(Sᵐ ⋈ ΔT) ∪ (ΔS ⋈ Tᵐ)",
    source=GLT97,
    of=_join("inner"),
)
def join(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    return q(s.deleted, t.old) | q(s.old, t.deleted), q(s.new, t.inserted) | q(s.inserted, t.new)


@pair_rule("S ∪ T", delete="(∇S − Tᵐ) ∪ (∇T − Sᵐ)", insert="(ΔS − T) ∪ (ΔT − S)", source=GLT97, of=_set(UnionAll))
def union(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    return (s.deleted - t.new) | (t.deleted - s.new), (s.inserted - t.old) | (t.inserted - s.old)


@pair_rule("S ∩ T", delete="(∇S ∩ T) ∪ (∇T ∩ S)", insert="(ΔS ∩ Tᵐ) ∪ (ΔT ∩ Sᵐ)", source=GLT97, of=_is(IntersectAll))
def intersection(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    return (s.deleted & t.old) | (t.deleted & s.old), (s.inserted & t.new) | (t.inserted & s.new)


@pair_rule("S − T", delete="(∇S − T) ∪ (ΔT ∩ S)", insert="(ΔS − Tᵐ) ∪ (∇T ∩ (S − ∇S))", source=GLT97, of=_is(ExceptAll))
def difference(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    return (s.deleted - t.old) | (t.inserted & s.old), (s.inserted - t.new) | (t.deleted & s.kept)


@pair_rule(
    "S ⋉ T",
    delete="(∇S ⋉ T) ∪ (S ⋉ fr(∇T, Tᵐ))",
    insert="(ΔS ⋉ Tᵐ) ∪ ((S − ∇S) ⋉ fr(ΔT, T))",
    source=GK98,
    of=_join("semi"),
)
def semijoin(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    lost, found = met(q, s.old, t.deleted, t.new), met(q, s.kept, t.inserted, t.old)
    return q(s.deleted, t.old) | lost, q(s.inserted, t.new) | found


@pair_rule(
    "S ▷ T",
    delete="(∇S ▷ T) ∪ ((S − ∇S) ⋉ fr(ΔT, T))",
    insert="(ΔS ▷ Tᵐ) ∪ ((S − ∇S) ⋉ fr(∇T, Tᵐ))",
    source=GK98,
    of=_join("anti"),
)
def antijoin(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    lost, found = met(q, s.kept, t.deleted, t.new), met(q, s.kept, t.inserted, t.old)
    return q(s.deleted, t.old) | found, q(s.inserted, t.new) | lost


@pair_rule(
    "S ⟕ T",
    delete="(∇S ⟕ T) ∪ (S ⋈ ∇T) ∪ ((S − ∇S) ⋉ fr(ΔT, T)) × null_T",
    insert="(ΔS ⟕ Tᵐ) ∪ (Sᵐ ⋈ ΔT) ∪ ((S − ∇S) ⋉ fr(∇T, Tᵐ)) × null_T",
    source=GK98,
    of=_join("left"),
)
def left_outer_join(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    join = as_kind(q, "inner")
    lost, found = met(q, s.kept, t.deleted, t.new), met(q, s.kept, t.inserted, t.old)
    return (
        q(s.deleted, t.old) | join(s.old, t.deleted) | pad(q, found),
        q(s.inserted, t.new) | join(s.new, t.inserted) | pad(q, lost),
    )


@pair_rule(
    "S ⟖ T",
    delete="(S ⟖ ∇T) ∪ (∇S ⋈ T) ∪ null_S × ((T − ∇T) ⋉ fr(ΔS, S))",
    insert="(Sᵐ ⟖ ΔT) ∪ (ΔS ⋈ Tᵐ) ∪ null_S × ((T − ∇T) ⋉ fr(∇S, Sᵐ))",
    source=GK98,
    of=_join("right"),
)
def right_outer_join(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    join = as_kind(q, "inner")
    lost, found = met(mirror(q), t.kept, s.deleted, s.new), met(mirror(q), t.kept, s.inserted, s.old)
    return (
        q(s.old, t.deleted) | join(s.deleted, t.old) | pad(q, found),
        q(s.new, t.inserted) | join(s.inserted, t.new) | pad(q, lost),
    )


@pair_rule(
    "S ⟗ T",
    delete="(∇S ⟕ T) ∪ (S ⟖ ∇T) ∪ ((S − ∇S) ⋉ fr(ΔT, T)) × null_T ∪ null_S × ((T − ∇T) ⋉ fr(ΔS, S))",
    insert="(ΔS ⟕ Tᵐ) ∪ (Sᵐ ⟖ ΔT) ∪ ((S − ∇S) ⋉ fr(∇T, Tᵐ)) × null_T ∪ null_S × ((T − ∇T) ⋉ fr(∇S, Sᵐ))",
    source=GK98,
    of=_join("full"),
)
def full_outer_join(q: ViewOperator, s: Operand, t: Operand) -> Changes:
    left, right = as_kind(q, "left"), as_kind(q, "right")
    lost, found = met(q, s.kept, t.deleted, t.new), met(q, s.kept, t.inserted, t.old)
    lost_t, found_t = met(mirror(q), t.kept, s.deleted, s.new), met(mirror(q), t.kept, s.inserted, s.old)
    return (
        left(s.deleted, t.old) | right(s.old, t.deleted) | pad(q, found) | pad(q, found_t),
        left(s.inserted, t.new) | right(s.new, t.inserted) | pad(q, lost) | pad(q, lost_t),
    )


@pair_rule(
    "γ_A,f(S)",
    delete="∇ʷ − Δʷ",
    insert="Δʷ − ∇ʷ",
    source="Quass 1996 (thesis, table 4.3), Δʷ = γ_A,f(Sᵐ ⋉_A (ΔS ∪ ∇S)), ∇ʷ = γ_A,f(S ⋉_A (ΔS ∪ ∇S))",
    of=_is(Aggregate),
)
def aggregation(q: ViewOperator, s: Operand) -> Changes:
    assert isinstance(q.node, Aggregate)
    touched = s.inserted | s.deleted
    after, before = (q(state.semijoin(touched, q.node.keys)) for state in (s.new, s.old))
    return before - after, after - before


def met(q: ViewOperator, s: RowSet, d: RowSet, x: RowSet) -> RowSet:
    """S ⋉ fr(D, X): the rows of S that join a row of D which has no friend, that is no row with its join key, in X.

    The paper has equalities only. For other conditions the friends are the rows that join the same row of S: (S ⋉ D) ▷ X. This
    is the paper's equation R1, which gives the same result for equalities."""
    assert isinstance(q.node, Join)
    if s.plan is None or d.plan is None or x.plan is None:
        return EMPTY
    key = _join_key(q.node)
    if key is None:
        return RowSet(Join(Join(s.plan, d.plan, q.node.on, "semi"), x.plan, q.node.on, "anti"))
    return RowSet(Join(s.plan, friendless(d.plan, x.plan, key), q.node.on, "semi"))


def friendless(d: Node, x: Node, key: tuple[Expr, ...]) -> Node:
    """fr(D, X) = D ▷ X on the join key of their own relation."""
    others = mark_columns(x)
    names = {c.name: p.ref for c, p in zip(x.columns, others.columns, strict=True)}
    return Join(d, others, tuple(equal(part, part.substitute(names), null_safe=True) for part in key), "anti")


def _join_key(q: Join) -> tuple[Expr, ...] | None:
    """T's side of the equalities of a join condition; None if the condition has other conjuncts."""
    key = []
    for conjunct in q.on:
        found = equality_of(q, conjunct)
        if found is None or not found.right.columns:
            return None
        key.append(found.right)
    return tuple(key) or None


def pad(q: ViewOperator, rows: RowSet) -> RowSet:
    """× null: the rows of one side of an outer join, with NULLs for the columns of the other."""
    if rows.plan is None:
        return EMPTY
    present, columns = rows.plan.names, q.node.columns
    nulls = {c.name: null(c.type) for c in columns}
    return RowSet(Project(rows.plan, tuple(Named(c, c.ref if c.name in present else nulls[c.name]) for c in columns)))


def as_kind(q: ViewOperator, kind: JoinKind) -> ViewOperator:
    """The join of another kind on the same condition."""
    assert isinstance(q.node, Join)
    return ViewOperator(replace(q.node, kind=kind))


def mirror(q: ViewOperator) -> ViewOperator:
    """The join with its operands exchanged."""
    assert isinstance(q.node, Join)
    return ViewOperator(Join(q.node.right, q.node.left, q.node.on, q.node.kind))
