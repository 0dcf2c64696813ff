"""The steps that maintain a view are derived once, and again where what changed or the sizes of tables call for others."""

from __future__ import annotations

from dataclasses import replace

from nabla.algebra.build import equal
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Join, Scan
from nabla.calculus.stages import cut
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.steps import MOST_REMEMBERED, StepMemory

A, B, K, J = (Column(f"{name}#{i}", "bigint") for i, name in enumerate("abkj"))
LEFT = Scan("orders", At.NEW, (A, K), ("a", "k"))
RIGHT = Scan("customers", At.NEW, (B, J), ("b", "j"))
JOINED = Join(LEFT, RIGHT, (equal(K.ref, J.ref),))
TOTALS = cut(Aggregate(JOINED, (B.name,), (Call(Column("t#9", "bigint"), "sum", (A.ref,)),)))
ORDERS = frozenset({"orders"})


def test_steps_are_derived_once_while_sizes_are_of_the_same_order() -> None:
    derive = StepMemory(maintenance_steps)
    first = derive(TOTALS, ORDERS, {"orders": 1000, "customers": 70})
    assert derive(TOTALS, ORDERS, {"orders": 1003, "customers": 71}) is first
    assert first == maintenance_steps(TOTALS, ORDERS, {"orders": 1000, "customers": 70})


def test_other_changes_and_other_sizes_are_derived_again() -> None:
    derive = StepMemory(maintenance_steps)
    first = derive(TOTALS, ORDERS, {"orders": 1000})
    both = derive(TOTALS, frozenset({"orders", "customers"}), {"orders": 1000})
    assert both != first
    assert derive(TOTALS, ORDERS, {"orders": 9000}) is not first
    assert derive(TOTALS, ORDERS, {"orders": 1000}) is first


def test_a_view_by_key_and_the_same_without_are_told_apart() -> None:
    derive, by_key = StepMemory(maintenance_steps), cut(LEFT, key=("a",))
    assert by_key.keyed
    assert derive(by_key, ORDERS) != derive(replace(by_key, key=()), ORDERS)


def test_the_memory_is_bounded() -> None:
    derive = StepMemory(maintenance_steps)
    for size in range(2 * MOST_REMEMBERED):
        derive(TOTALS, ORDERS, {"orders": 1 << size})
    assert len(derive._steps) <= MOST_REMEMBERED
