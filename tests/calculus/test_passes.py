"""The passes that rewrite plans: they keep the columns and the rows, and one that does not is named."""

from __future__ import annotations

import pytest

import nabla
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, MalformedPlan, Negate, Node, Project, Scan
from nabla.algebra.reference.interpreter import evaluate
from nabla.calculus.delta import Derivation
from nabla.dev.testing.random_plans import ALL, random_scenario
from nabla.frontends.datalog.program import parse_program
from nabla.frontends.nested.meaning import NestedSource
from nabla.frontends.nested.plans import to_plan
from nabla.frontends.nested.schema import Schema
from nabla.rewrite.passes import AFTER_DERIVATION, BEFORE_DERIVATION, DEFINITION, Keys, Pass, Sizes, rewrite

R = Scan("r", At.NEW, (Column("a#1", "int"), Column("b#2", "int")), ("a", "b"))


def _keep(node: Node, *columns: Column) -> Node:
    return Project(node, tuple(Named(c, node.columns[0].ref) for c in columns))


@pytest.mark.parametrize(
    "broken",
    [
        _keep(R, R.columns[0]),
        _keep(R, R.columns[1], R.columns[0]),
        _keep(R, R.columns[0], Column("b#2", "bigint")),
        _keep(R, R.columns[0], Column("c#2", "int")),
        Negate(R),
    ],
    ids=["dropped", "in another order", "of another type", "of another name", "with weights"],
)
def test_a_pass_that_breaks_the_columns_is_named(broken: Node) -> None:
    passes = (Pass("stay", lambda plan, known: plan, ""), Pass("spoil", lambda plan, known: broken, ""))
    with pytest.raises(MalformedPlan, match="the pass spoil "):
        rewrite(R, passes, None)


def test_every_pass_has_a_reason_for_its_place() -> None:
    for phase in (DEFINITION, BEFORE_DERIVATION, AFTER_DERIVATION):
        assert all(step.name and step.reason for step in phase)


def test_the_passes_of_a_definition_keep_its_rows_and_find_nothing_to_do_in_their_result() -> None:
    for seed in range(40_000, 40_060):
        scenario = random_scenario(seed, ALL)
        keys = Keys(lambda table, field: True)
        defined = rewrite(scenario.plan, DEFINITION, keys)
        assert evaluate(defined, scenario.database) == evaluate(scenario.plan, scenario.database), f"seed {seed}"
        assert rewrite(defined, DEFINITION, Keys()) == defined, f"seed {seed}"


def test_the_passes_around_a_derivation_keep_the_change() -> None:
    for seed in range(41_000, 41_040):
        scenario = random_scenario(seed, ALL)
        change = Derivation(scenario.changed).d(scenario.plan)
        ordered = rewrite(scenario.plan, BEFORE_DERIVATION, Sizes(scenario.changed))
        derived = Derivation(scenario.changed).d(ordered)
        assert (change is None) == (derived is None)
        if change is not None and derived is not None:
            near = rewrite(derived, AFTER_DERIVATION, Sizes(scenario.changed))
            assert evaluate(near, scenario.database) == evaluate(change, scenario.database), f"seed {seed}"


def test_plans_of_rules_have_been_through_the_passes_of_a_definition() -> None:
    program = parse_program("p(X, count(Y)) :- q(X, Y, Z), Z = 1.", {"q": [(c, "int") for c in "xyz"]})
    plan = program.plan("p")
    assert rewrite(plan, DEFINITION, Keys()) == plan
    assert not any(isinstance(node, Project) and len(node.outputs) > 2 for node in plan.walk())


def test_plans_of_nested_views_have_been_through_the_passes_of_a_definition() -> None:
    schema = Schema.of("a INT, s ARRAY<STRUCT<b: INT>>, t ARRAY<STRUCT<c: INT>>")
    plan = to_plan(nabla.nested("r").project("s"), {"r": NestedSource(schema)})
    assert rewrite(plan, DEFINITION, Keys()) == plan
    assert [node.fields for node in plan.walk() if isinstance(node, Scan)] == [("a", "s")]
