"""The loop over recursive groups: from scratch, and by over-deletion and rederivation."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from datalog_programs import GRAPH, rules

from nabla.calculus.recursion.fixpoint import Changed, Fixpoint, Round
from nabla.calculus.recursion.memory import MemoryRelation
from nabla.dev.testing.maintained_programs import MaintainedProgram, SetChange
from nabla.frontends.datalog.evaluate import evaluate_in_memory, evaluate_program, memory_of
from nabla.frontends.datalog.naive import naive

CHAIN = [(i, i + 1) for i in range(1, 6)]


def changed(text: str, facts: dict, change: dict) -> dict[str, SetChange]:  # type: ignore[type-arg]
    """The change by maintenance, checked against the specification."""
    program = rules(text)
    maintained = MaintainedProgram(program, facts)
    before = naive(program, facts)
    found = maintained.apply(change)
    after = naive(program, {t: list(maintained.memory.after[t]) for t in program.tables})
    for predicate in program.predicates:
        expected = SetChange(after[predicate] - before[predicate], before[predicate] - after[predicate])
        assert found.get(predicate, SetChange()) == expected
    return found


def test_rounds_and_frontiers_are_recorded() -> None:
    program, recorded = rules(GRAPH), []
    evaluate_program(program, memory_of(program, {"edge": CHAIN}), rounds=recorded)
    assert recorded == [Round("derive", n + 1, {"path": size}) for n, size in enumerate((5, 4, 3, 2, 1))]
    assert str(recorded[0]) == "derive round 1: path 5"


def test_nothing_happens_when_nothing_changed() -> None:
    program = rules(GRAPH)
    memory = memory_of(program, {"edge": CHAIN})
    changes: Changed[MemoryRelation] = Fixpoint(program.group("path"), memory).maintain(frozenset({"edge"}))
    assert changes == Changed({}, {}, [])


def test_a_copy_more_or_less_of_a_row_is_no_change() -> None:
    twice = [*CHAIN, (1, 2)]
    assert changed(GRAPH, {"edge": twice}, {"edge": ([], [(1, 2)])}) == {}
    assert changed(GRAPH, {"edge": CHAIN}, {"edge": ([(1, 2)], [])}) == {}


def test_an_insertion_alone_deletes_nothing() -> None:
    program = rules(GRAPH)
    maintained = MaintainedProgram(program, {"edge": CHAIN, "node": [(6,)]})
    found = maintained.apply({"edge": ([(6, 7)], [])})
    assert found["path"].inserted == {(i, 7) for i in range(1, 7)}
    assert [r.phase for r in maintained.rounds] == ["insert"] * 6
    assert found["isolated"] == SetChange(frozenset(), frozenset({(6,)}))


def test_a_cycle_that_supported_itself_disappears() -> None:
    facts = {"edge": [(1, 2), (2, 3), (3, 2)]}
    text = "from1(X) :- edge(1, X). from1(Y) :- from1(X), edge(X, Y)."
    assert changed(text, facts, {"edge": ([], [(1, 2)])})["from1"].deleted == {(2,), (3,)}


def test_what_has_another_derivation_stays() -> None:
    facts = {"edge": [(1, 2), (2, 4), (1, 3), (3, 4), (4, 5)]}
    found = changed(GRAPH, facts, {"edge": ([], [(1, 2)])})
    assert found["path"] == SetChange(frozenset(), frozenset({(1, 2)}))


def test_a_row_that_is_lost_and_derived_anew_is_no_change() -> None:
    found = changed(GRAPH, {"edge": [(1, 2), (2, 3)]}, {"edge": ([(1, 3), (2, 4), (4, 3)], [(2, 3)])})
    assert found["path"] == SetChange(frozenset({(1, 4), (2, 4), (4, 3)}), frozenset())


def test_negated_inputs_delete_by_insertion_and_insert_by_deletion() -> None:
    text = (
        "free(X) :- node(X), not edge(X, _). reach(X) :- free(X). reach(Y) :- reach(X), edge(Y, X), not sale(Y, _, _)."
    )
    facts = {"node": [(1,), (2,), (3,)], "edge": [(2, 1), (3, 2)], "sale": [(2, "x", 1)]}
    assert changed(text, facts, {"sale": ([], [(2, "x", 1)])})["reach"].inserted == {(2,), (3,)}
    assert changed(text, facts, {"edge": ([(1, 1)], [])})["reach"].deleted == {(1,)}
    assert changed(text, facts, {"sale": ([(2, "y", 9)], [])}) == {}


def test_aggregates_below_a_recursion_move_it() -> None:
    text = "p(X) :- node(X). p(Y) :- p(X), edge(X, Y), N = count : { edge(Y, _) }, N < 2."
    facts = {"node": [(1,)], "edge": [(1, 2), (2, 3), (2, 4), (3, 5)]}
    assert changed(text, facts, {"edge": ([], [(2, 4)])})["p"].inserted == {(2,), (3,), (5,)}
    assert changed(text, facts, {"edge": ([(1, 9)], [(2, 4), (2, 3)])})["p"].inserted == {(2,), (9,)}


def test_an_aggregating_rule_may_start_a_recursion() -> None:
    text = "p(X, count(Y)) :- edge(X, Y). p(Y, N) :- p(X, N), edge(X, Y), N > 1."
    facts = {"edge": [(1, 2), (1, 3), (3, 4)]}
    assert evaluate_in_memory(rules(text), facts)["p"] == {(1, 2), (3, 1), (2, 2), (3, 2), (4, 2)}
    assert changed(text, facts, {"edge": ([], [(1, 2)])})["p"].deleted == {(1, 2), (2, 2), (3, 2), (4, 2)}


def test_facts_of_a_recursive_predicate_stay() -> None:
    text = "p(1). p(Y) :- p(X), edge(X, Y)."
    assert changed(text, {"edge": [(1, 2), (2, 1)]}, {"edge": ([], [(2, 1)])}) == {}
    assert changed(text, {"edge": [(1, 2), (2, 1)]}, {"edge": ([], [(1, 2)])})["p"].deleted == {(2,)}


def test_mutual_recursion_loses_and_gains_together() -> None:
    text = "even(0). odd(Y) :- even(X), edge(X, Y). even(Y) :- odd(X), edge(X, Y)."
    facts = {"edge": [(0, 1), (1, 2), (2, 3), (3, 0)]}
    found = changed(text, facts, {"edge": ([(0, 2)], [(1, 2)])})
    assert found == {
        "odd": SetChange(frozenset({(0,), (2,)}), frozenset()),
        "even": SetChange(frozenset({(1,), (3,)}), frozenset()),
    }
    found = changed(text, facts, {"edge": ([], [(1, 2)])})
    assert found == {
        "odd": SetChange(frozenset(), frozenset({(3,)})),
        "even": SetChange(frozenset(), frozenset({(2,)})),
    }


def test_a_head_that_computes_is_rederived() -> None:
    text = "far(0, 0). far(Y, D + 1) :- far(X, D), edge(X, Y), D < 5."
    facts = {"edge": [(0, 1), (1, 2), (0, 3), (3, 2), (2, 4)]}
    assert changed(text, facts, {"edge": ([], [(1, 2)])}) == {}
    assert changed(text, facts, {"edge": ([(0, 2)], [(1, 2), (3, 2)])})["far"].inserted == {(2, 1), (4, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_transitive_closure_of_random_graphs(seed: int) -> None:
    """Larger than what random programs have: many rounds, many derivations of each row."""
    rng = Random(seed)
    edges = {(rng.randrange(25), rng.randrange(25)) for _ in range(40)}
    program = rules("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z).")
    maintained = MaintainedProgram(program, {"edge": edges})
    for _ in range(6):
        gone = set(rng.sample(sorted(edges), 4))
        come = {(rng.randrange(25), rng.randrange(25)) for _ in range(4)} - edges
        before, edges = maintained.rows("path"), (edges - gone) | come
        found = maintained.apply({"edge": (come, gone)}).get("path", SetChange())
        after = evaluate_in_memory(program, {"edge": edges})["path"]
        assert found == SetChange(after - before, before - after)
        assert Counter(after) == maintained.memory.after["path"]
