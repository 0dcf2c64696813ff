"""The law of the whole calculus: maintaining a view gives what recomputing it gives, on random views and changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nabla.algebra import nodes
from nabla.algebra.nodes import At, Node
from nabla.algebra.reference.interpreter import added, evaluate, negated
from nabla.calculus import laws
from nabla.calculus.delta import Derivation
from nabla.calculus.laws import LAWS, Law
from nabla.dev.testing.maintained import check
from nabla.dev.testing.random_plans import ALL, CORE, random_scenario, reading
from nabla.rewrite.join_order import join_changed_first, join_outwards

CASES = 60


def test_stages_give_what_recomputing_gives() -> None:
    for seed in range(CASES):
        scenario = random_scenario(seed, CORE)
        check(scenario.plan, scenario.database, scenario.changed)


@pytest.mark.parametrize("block", range(2))
def test_stages_of_every_operator_give_what_recomputing_gives(block: int) -> None:
    for seed in range(10_000 + block * CASES, 10_000 + (block + 1) * CASES):
        scenario = random_scenario(seed, ALL)
        check(scenario.plan, scenario.database, scenario.changed)


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of terms that each rule has given."""
    counted: Counter[str] = Counter()

    def counting(law: Law) -> Law:
        def derive(q: Node, c: Derivation) -> Node | None:
            change = law.derive(q, c)
            counted[law.name] += change is not None
            return change

        return replace(law, derive=derive)

    for operator, entries in list(laws._BY_OPERATOR.items()):
        monkeypatch.setitem(laws._BY_OPERATOR, operator, [(counting(law), applies) for law, applies in entries])
    return counted


def test_every_rule_is_its_law_and_fires(fired: Counter[str]) -> None:
    """d(q) by the rules alone, without stages: evaluate(d q) = q₁ − q₀ for every operator."""
    for seed in range(20_000, 20_150):
        scenario = random_scenario(seed, ALL)
        change = Derivation(scenario.changed).d(scenario.plan)
        found = evaluate(change, scenario.database) if change is not None else Counter()
        new = evaluate(scenario.plan, scenario.database)
        old = evaluate(reading(scenario.plan, At.OLD), scenario.database)
        assert found == added(new, negated(old)), f"seed {seed}"
    elsewhere = {"negate", "select_by_clock", "recursion"}  # which have tests of their own
    never = {"constant"}  # no change is no term
    assert {name for name in LAWS if not fired[name]} == elsewhere | never, "a rule that no random plan used"


def test_reordering_joins_changes_nothing_but_the_order() -> None:
    for seed in range(30_000, 30_080):
        scenario = random_scenario(seed, ALL)
        reordered = join_changed_first(scenario.plan, scenario.changed)
        assert evaluate(reordered, scenario.database) == evaluate(scenario.plan, scenario.database), f"seed {seed}"
        assert reordered.columns == scenario.plan.columns
        change = Derivation(scenario.changed).d(scenario.plan)
        if change is not None:
            assert evaluate(join_outwards(change), scenario.database) == evaluate(change, scenario.database), (
                f"seed {seed}"
            )


def test_every_operator_of_a_definition_has_a_law() -> None:
    plumbing = {nodes.Weigh, nodes.Unweigh, nodes.Consolidate, nodes.Opaque}
    operators = {c for c in vars(nodes).values() if isinstance(c, type) and issubclass(c, Node) and c is not Node}
    assert {law.operator for law in LAWS.values()} == operators - plumbing
