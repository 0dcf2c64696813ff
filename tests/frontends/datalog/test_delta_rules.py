"""Delta rules of whole programs; the laws themselves are in tests/papers/test_manthey.py."""

from __future__ import annotations

from typing import Any

import pytest
from datalog_programs import rules

from nabla.dev.testing.maintained_programs import MaintainedProgram, by_delta_rules
from nabla.frontends.datalog.propagate import DeltaRules

FACTS: dict[str, list[tuple[Any, ...]]] = {
    "edge": [(1, 2), (2, 3), (3, 3), (2, 4)],
    "node": [(1,), (2,), (4,)],
    "sale": [(1, "x", 5), (2, "x", 5), (3, "y", 2)],
}
CHANGES: list[dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]] = [
    {"edge": ([(4, 1)], [(1, 2)]), "node": ([(3,)], []), "sale": ([(4, "z", 1)], [(3, "y", 2)])},
    {"edge": ([(1, 2), (1, 4)], [(3, 3)]), "node": ([], [(1,), (4,)]), "sale": ([(3, "x", 7)], [])},
    {"edge": ([], [(2, 3), (2, 4), (4, 1)])},
    {"edge": ([], [(1, 2), (1, 4)]), "node": ([(7,)], [])},
    {"sale": ([], [(1, "x", 5), (2, "x", 5), (3, "x", 7), (4, "z", 1)])},
]
PROGRAMS = {
    "three rules": "p(X) :- node(X). p(X) :- edge(X, _). p(X) :- edge(_, X), X > 2. p(9).",
    "three atoms": "p(X, W) :- edge(X, Y), edge(Y, Z), edge(Z, W), X != W.",
    "repeated variables": "p(X) :- edge(X, X). p(Y) :- edge(Y, Z), edge(Z, Z).",
    "two negations": "p(X) :- node(X), not edge(X, _), not edge(_, X).",
    "definitions": "p(Y, X) :- edge(X, Z), Y = X + Z, not node(Y).",
    "constants": "p(1, X, 'a') :- edge(X, 3), not edge(1, X).",
    "only negation": "p(1) :- not edge(1, 2), not node(4).",
    "groups": "p(S, sum(A), count(*)) :- sale(_, S, A).",
    "one group": "p(count(*), max(A)) :- sale(_, _, A), A > 1.",
    "names that clash": "p(N1, count(W1)) :- edge(N1, W1). p(W1, 0) :- node(W1), not edge(W1, _).",
    "braces": "p(X, N) :- node(X), N = count : { edge(X, _) }.",
    "braces below an aggregate": "p(N, count(X)) :- node(X), N = count : { edge(X, _) }.",
    "braces without variables": "p(N) :- N = count : { node(1) }, edge(2, 3).",
    "braces with outer values": "p(X, N) :- node(X), N = count : { edge(Y, _), Y < X }.",
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_delta_rules_give_what_maintenance_gives(case: str) -> None:
    maintained = MaintainedProgram(rules(PROGRAMS[case]), FACTS)
    moved = False
    for change in CHANGES:
        before = maintained.rows("p")
        found = maintained.apply(change)
        after = maintained.rows("p")
        rule_based = by_delta_rules(maintained, "p", found)
        assert (rule_based.inserted, rule_based.deleted) == (after - before, before - after)
        moved = moved or before != after
    assert moved


def test_rules_read_changes_and_old_states_only() -> None:
    for text in PROGRAMS.values():
        delta = DeltaRules(rules(text), "p")
        for clause in delta.clauses:
            assert all(atom.predicate[-1] in "⁺⁻ᵒ⁰ᵗᵇᵃ" for atom in clause.atoms)
            assert any(atom.predicate[-1] in "⁺⁻ᵗᵇᵃ" and not atom.negated for atom in clause.atoms)


def test_facts_have_no_changes() -> None:
    assert DeltaRules(rules("p(1). p(2)."), "p").clauses == ()
    shown = [str(c) for c in DeltaRules(rules("p(1). p(X) :- node(X)."), "p").clauses]
    assert shown == ["p⁺(X1) ⇐ node⁺(X1), not p1ᵒ(X1).", "p⁻(X1) ⇐ node⁻(X1), not p1ᵒ(X1)."]
