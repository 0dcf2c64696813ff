"""Change tables (Gupta and Mumick; thesis, chapter 5), which describe how the groups of an aggregate change.

A change table □Q has a row for every group that may have changed: by how much its sums, its counts and its number of
causes changed. It is made from the delta of what is aggregated and applied to the *extent* of Q, its rows with their number
of causes. How it moves on from there to the root of a view is in change_routes.py.

Only functions with *combine* and *cancel* have one: two results can be combined, and a row can be added that undoes another.
For sum and count both are addition, of values weighted with 1 and −1. (The engine keeps averages as sum and count. It keeps
minima, which combine but do not cancel, until the extreme is deleted: see partials.py.)
"""

from __future__ import annotations

from dataclasses import dataclass

from nabla.algebra.build import arithmetic, compare, is_not_null, number, when
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import Mark, mark_name
from nabla.algebra.nodes import WEIGHT, Aggregate, Filter, Join, Node, Project, UnionAll
from nabla.algebra.normalize import cast
from nabla.calculus.delta import mark_columns, same_keys
from nabla.calculus.partials import INTEGERS
from nabla.papers.pairs import Pair
from nabla.papers.sets import RowSet, project, union


@dataclass(frozen=True, eq=False)
class ChangeTableForm:
    """□Q: its rows, the group-by attributes, the attributes whose change is added to the old value, and the count. Other
    attributes belong to an operand of a product that does not change, and keep their values."""

    rows: Node
    group: tuple[str, ...]
    added: frozenset[str]
    causes: Column


def can_convert(q: Aggregate) -> bool:
    """Whether an aggregate has group-by attributes, and functions that combine and cancel. Without group-by attributes SQL
    has a row even if there are no causes."""
    return bool(q.keys) and all(_cancels(call) for call in q.calls)


def _cancels(call: Call) -> bool:
    if call.distinct or call.filter or call.template:
        return False
    if call.function == "sum":
        return call.arguments[0].type in INTEGERS and not call.arguments[0].nullable
    return call.function == "count" and len(call.arguments) < 2


def convert(q: Aggregate, delta: Pair, causes: Column) -> ChangeTableForm | None:
    """□V = π_A,f,sum(c)((ΔQ × {1}) ∪ (cancel(∇Q) × {−1})), the weight doing what cancel does (definition 5.6)."""
    signed = [(plan, sign) for plan, sign in ((delta.insert, 1), (delta.delete, -1)) if plan is not None]
    if not signed:
        return None
    columns = (*q.input.columns, WEIGHT)
    rows = UnionAll(tuple(_weigh(plan, sign) for plan, sign in signed), columns)
    calls = [Call(call.column, "sum", (_weighted_value(call),)) for call in q.calls]
    count = Call(causes, "sum", (WEIGHT.ref,))
    added = frozenset(call.column.name for call in q.calls)
    return ChangeTableForm(Aggregate(rows, q.keys, (*calls, count)), q.keys, added, causes)


def _weigh(plan: Node, sign: int) -> Node:
    weight = Named(WEIGHT, number(sign))
    return Project(plan, (*(Named(c, c.ref) for c in plan.columns), weight))


def _weighted_value(call: Call) -> Expr:
    weight = WEIGHT.ref
    if call.function == "sum":
        return arithmetic(cast(call.arguments[0], "bigint"), "*", weight, "bigint")
    if not call.arguments:
        return WEIGHT.ref
    return when(is_not_null(call.arguments[0]), weight, number(0))


@dataclass(frozen=True, eq=False)
class _ApplicationSets:
    """The three sets of definition 5.7."""

    touched: Node  # 𝒟 = E ⋉ □Q: the rows that may change
    updated: Node  # 𝒰 = σ(c ≠ 0)(π(□Q ⋈ E)): the same rows after the change
    fresh: Node  # 𝒩 = □Q ▷ E: new groups


def _apply(extent: Node, table: ChangeTableForm) -> _ApplicationSets:
    beside = mark_columns(table.rows)
    on = same_keys(extent, beside, table.group)
    both = Join(extent, beside, on)
    summed = table.added | {table.causes.name}

    def value(c: Column) -> Expr:
        if c.name not in summed:
            return c.ref
        return arithmetic(c.ref, "+", beside.column(mark_name(c.name, Mark.OLD)).ref, c.type)

    combined = Project(both, tuple(Named(c, value(c)) for c in extent.columns))
    left = Filter(combined, (compare(table.causes.ref, "<>", number(0)),))
    stored = mark_columns(extent)
    fresh = Join(table.rows, stored, same_keys(table.rows, stored, table.group), "anti")
    in_order = tuple(Named(c, fresh.column(c.name).ref) for c in extent.columns)
    return _ApplicationSets(Join(extent, beside, on, "semi"), left, Project(fresh, in_order))


def apply_change(extent: Node, table: ChangeTableForm) -> Node:
    """E ⊔ □Q = (E − 𝒟) ∪ 𝒰 ∪ 𝒩 (definition 5.7)."""
    sets = _apply(extent, table)
    new = (RowSet(extent) - RowSet(sets.touched)) | RowSet(sets.updated) | RowSet(sets.fresh)
    assert new.plan is not None
    return new.plan


def back_to_delta(extent: Node, table: ChangeTableForm) -> Pair:
    """The minimal delta that a change table stands for: ∇Q = 𝒟 − (𝒰 ∪ 𝒩) and ΔQ = (𝒰 ∪ 𝒩) − 𝒟, without the counts."""
    sets = _apply(extent, table)
    names = tuple(c.name for c in extent.columns if c.name != table.causes.name)
    before = RowSet(project(sets.touched, names))
    after = RowSet(project(union(sets.updated, sets.fresh), names))
    return Pair((before - after).plan, (after - before).plan)
