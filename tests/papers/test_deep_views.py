"""Deep views, and plans that share their parts: texts and queries are linear in the view (thesis 4.3.1), made in seconds."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest
from states import table

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, ExceptAll, Join, JoinKind, Node, Project, UnionAll
from nabla.algebra.notation.formula import Writer
from nabla.algebra.notation.lines import Page
from nabla.calculus.delta import Derivation
from nabla.calculus.stages import cut
from nabla.explain.sql import sql_text
from nabla.explain.sql_layout import LONGEST
from nabla.papers import qian_wiederhold
from nabla.papers.pair_notation import pairs_algebra, pairs_sql
from nabla.papers.set_form import set_form
from nabla.planner.delta_steps import maintenance_steps

R = table("r", "a#0 b#0")
CHANGED = frozenset(("r", "s"))


def _columns(node: Node, i: int) -> tuple[Named, ...]:
    """The first and the last column under names of their own."""
    ends = (node.columns[0], node.columns[-1])
    return tuple(Named(Column(f"{'ab'[k]}#{i}", "string", False), c.ref) for k, c in enumerate(ends))


def joins(kind: JoinKind) -> Callable[[int], Node]:
    def view(depth: int) -> Node:
        node: Node = R
        for i in range(1, depth + 1):
            other = table("s", f"c#{i} d#{i}")
            node = Join(node, other, (equal(node.columns[1].ref, other.columns[0].ref),), kind)
            if kind not in ("semi", "anti"):
                node = Project(node, _columns(node, i))
        return node

    return view


def differences(depth: int) -> Node:
    node: Node = R
    for i in range(1, depth + 1):
        node = ExceptAll(Project(node, _columns(node, i)), table("s", f"c#{i} d#{i}"))
    return node


def shared_joins(depth: int) -> Node:
    """Each level joins the level below with itself: written out, 2ⁿ tables."""
    node: Node = R
    for i in range(1, depth + 1):
        again = Project(node, tuple(Named(Column(f"{c.label}2#{i}", "string", False), c.ref) for c in node.columns))
        node = Join(node, again, (equal(node.columns[0].ref, again.columns[1].ref),))
        node = Project(node, _columns(node, i))
    return node


def shared_unions(depth: int) -> Node:
    node: Node = R
    for i in range(1, depth + 1):
        again = Project(node, tuple(Named(Column(f"{c.label}2#{i}", "string", False), c.ref) for c in node.columns))
        node = UnionAll((node, again), tuple(Column(f"{name}#{i}", "string", False) for name in "ab"))
    return node


def counted(node: Node) -> Node:
    return Aggregate(node, (node.columns[0].name,), (Call(Column("n#999", "bigint", False), "count"),))


def signed(view: Node) -> str:
    change = Derivation(CHANGED).d(view)
    assert change is not None
    return "\n".join(Page().lines("dV", Writer(change).write(change)))


DEEP: dict[str, Callable[[int], Node]] = {
    **{kind: joins(kind) for kind in ("inner", "left", "full", "semi", "anti")},  # type: ignore[arg-type]
    "except": differences,
    "shared joins": shared_joins,
    "shared unions": shared_unions,
}
FORMS: dict[str, Callable[[Node], str]] = {
    "algebra": lambda view: pairs_algebra(view, CHANGED),
    "sql": lambda view: pairs_sql(view, CHANGED),
    "signed": signed,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DEEP)
def test_the_text_of_a_view_40_deep_is_linear_in_its_depth(name: str, form: str) -> None:
    """But for EXCEPT ALL of bags, whose operands are restricted to the change at every level, down to the tables."""
    restricted = (name, form) == ("except", "signed")
    half, whole = (len(FORMS[form](DEEP[name](depth))) for depth in ((10, 20) if restricted else (20, 40)))
    assert half < whole < (4.3 if restricted else 2.3) * half


@pytest.mark.parametrize("name", DEEP)
def test_the_steps_of_a_deep_view_are_planned_in_seconds(name: str) -> None:
    began = process_time()
    staged = cut(counted(DEEP[name](20 if "shared" in name else 40)))
    assert maintenance_steps(staged, CHANGED)
    assert process_time() - began < 5


@pytest.mark.parametrize("name", ["left", "full", "shared joins"])
def test_the_sql_for_people_of_a_deep_view_is_there_in_seconds(name: str) -> None:
    """Half a million characters, with a line for each subquery: laid out, each of them would take seconds."""
    began = process_time()
    text = pairs_sql(DEEP[name](40), CHANGED, write=lambda plan: sql_text(plan, lambda scan: scan.table))
    assert len(text) > LONGEST
    assert text.count("\n") > 400
    assert process_time() - began < 5


def test_qian_and_wiederholds_rewriting_shares_what_it_moves() -> None:
    for view in (shared_joins(20), shared_unions(20), joins("inner")(40)):
        pair = qian_wiederhold.solution(set_form(view), CHANGED)
        assert pair.delete is not None


def test_an_aggregate_over_a_deep_join_is_read_as_sets_or_says_that_it_cannot_be() -> None:
    assert "∇V" in pairs_algebra(counted(joins("left")(40)), CHANGED)
    text = pairs_algebra(counted(shared_joins(20)), CHANGED)
    assert "more than 1,000 columns tell the copies of rows apart" in text
