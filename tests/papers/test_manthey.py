"""Manthey, "Reflections on some fundamental issues of rule-based incremental update propagation": every example, and
every erratum with the case that the printed rule gets wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, compress, product

import pytest

from nabla.dev.testing.maintained_programs import MaintainedProgram, SetChange, by_delta_rules
from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import Clause
from nabla.frontends.datalog.evaluate import evaluate_in_memory
from nabla.frontends.datalog.program import Program, parse_program
from nabla.frontends.datalog.propagate import DeltaRules, show
from nabla.frontends.datalog.terms import Atom, Variable, Wildcard

TABLES = {"edge": [("a", "int"), ("b", "int")], "q": [("x", "int")], "r": [("x", "int")]}
LINK = "link(X, Y) :- edge(X, Y). link(X, Y) :- edge(X, Z), edge(Z, Y)."
PATH = "path(X, Y) :- edge(X, Y). path(X, Y) :- edge(X, Z), path(Z, Y)."
EDGES = [(1, 2), (2, 3), (3, 4)]
UPDATE = {"edge": ([(4, 3)], [(3, 4)])}
Facts = dict[str, set[tuple[int, ...]]]


def program(text: str) -> Program:
    return parse_program(text, TABLES)


def rules_of(text: str, predicate: str) -> list[str]:
    return [str(clause) for clause in DeltaRules(program(text), predicate).clauses]


def applied(clauses: Iterable[Clause], facts: Facts) -> Facts:
    """The heads of rules without arithmetic, all tried once: a fixpoint step over any rule set, stratifiable or not."""
    values = sorted({value for rows in facts.values() for row in rows for value in row})
    heads: Facts = {}
    for clause in clauses:
        names = sorted({a.name for atom in clause.atoms for a in atom.arguments if isinstance(a, Variable)})
        for row in product(values, repeat=len(names)):
            bound = dict(zip(names, row, strict=True))
            if all(_holds(atom, bound, facts) for atom in clause.atoms):
                head = tuple(bound[a.name] for a in clause.arguments if isinstance(a, Variable))
                heads.setdefault(clause.predicate, set()).add(head)
    return heads


def _holds(atom: Atom, bound: dict[str, int], facts: Facts) -> bool:
    wanted = [None if isinstance(a, Wildcard) else bound[str(a)] for a in atom.arguments]
    rows = facts.get(atom.predicate, set())
    found = any(all(w is None or w == v for w, v in zip(wanted, row, strict=True)) for row in rows)
    return found is not atom.negated


def fixpoint(clauses: Iterable[Clause], facts: Facts) -> Facts:
    """Plain iteration, as for a stratifiable rule set: what was derived once stays."""
    made, state = list(clauses), {name: set(rows) for name, rows in facts.items()}
    while True:
        before = {name: set(rows) for name, rows in state.items()}
        for name, rows in applied(made, before).items():
            state.setdefault(name, set()).update(rows)
        if state == before:
            return state


# Section 2.1


def test_the_difference_of_the_motivating_example() -> None:
    a, b, c, d, e, f = range(6)
    maintained = MaintainedProgram(
        program("p(X) :- q(X), not r(X)."), {"q": [(a,), (b,), (c,)], "r": [(a,), (d,), (e,)]}
    )
    found = maintained.apply({"q": ([(d,)], [(b,)]), "r": ([(f,)], [(a,)])})
    assert found["p"] == SetChange(frozenset({(a,)}), frozenset({(b,)}))
    assert by_delta_rules(maintained, "p", found) == found["p"]


# Section 3.1: the table, folded

TABLE = {
    "projection": (
        "p(X) :- edge(X, Y).",
        [
            "p⁺(X) ⇐ edge⁺(X, Y), not edgeᵒ(X, _).",
            "p⁻(X) ⇐ edge⁻(X, Y), not edge⁺(X, _), not p⁰(X).",
            "p⁰(X) ⇐ edge⁻(X, Y), edgeᵒ(X, Y′), not edge⁻(X, Y′).",
        ],
    ),
    "union": (
        "p(X) :- q(X). p(X) :- r(X).",
        [
            "p⁺(X) ⇐ q⁺(X), not rᵒ(X).",
            "p⁺(X) ⇐ r⁺(X), not qᵒ(X).",
            "p⁻(X) ⇐ q⁻(X), not rᵒ(X), not r⁺(X).",
            "p⁻(X) ⇐ q⁻(X), r⁻(X), not r⁺(X).",
            "p⁻(X) ⇐ r⁻(X), not qᵒ(X), not q⁺(X).",
            "p⁻(X) ⇐ r⁻(X), q⁻(X), not q⁺(X).",
        ],
    ),
    "intersection": (
        "p(X) :- q(X), r(X).",
        [
            "p⁺(X) ⇐ q⁺(X), rᵒ(X), not r⁻(X).",
            "p⁺(X) ⇐ r⁺(X), q⁺(X).",
            "p⁺(X) ⇐ r⁺(X), qᵒ(X), not q⁻(X).",
            "p⁻(X) ⇐ q⁻(X), rᵒ(X), not r⁻(X).",
            "p⁻(X) ⇐ r⁻(X), q⁻(X).",
            "p⁻(X) ⇐ r⁻(X), qᵒ(X), not q⁻(X).",
        ],
    ),
    "difference": (
        "p(X) :- q(X), not r(X).",
        [
            "p⁺(X) ⇐ q⁺(X), not rᵒ(X), not r⁺(X).",
            "p⁺(X) ⇐ q⁺(X), r⁻(X), not r⁺(X).",
            "p⁺(X) ⇐ r⁻(X), qᵒ(X), not q⁻(X).",
            "p⁺(X) ⇐ r⁻(X), q⁺(X).",
            "p⁻(X) ⇐ q⁻(X), not rᵒ(X).",
            "p⁻(X) ⇐ r⁺(X), qᵒ(X).",
        ],
    ),
    "product": (
        "p(X, Y) :- q(X), r(Y).",
        [
            "p⁺(X, Y) ⇐ q⁺(X), rᵒ(Y), not r⁻(Y).",
            "p⁺(X, Y) ⇐ r⁺(Y), q⁺(X).",
            "p⁺(X, Y) ⇐ r⁺(Y), qᵒ(X), not q⁻(X).",
            "p⁻(X, Y) ⇐ q⁻(X), rᵒ(Y), not r⁻(Y).",
            "p⁻(X, Y) ⇐ r⁻(Y), q⁻(X).",
            "p⁻(X, Y) ⇐ r⁻(Y), qᵒ(X), not q⁻(X).",
        ],
    ),
    "join": (
        "p(X, Y, Z) :- edge(X, Z), edge(Z, Y).",
        [
            "p⁺(X, Y, Z) ⇐ edge⁺(X, Z), edgeᵒ(Z, Y), not edge⁻(Z, Y).",
            "p⁺(X, Y, Z) ⇐ edge⁺(Z, Y), edge⁺(X, Z).",
            "p⁺(X, Y, Z) ⇐ edge⁺(Z, Y), edgeᵒ(X, Z), not edge⁻(X, Z).",
            "p⁻(X, Y, Z) ⇐ edge⁻(X, Z), edgeᵒ(Z, Y), not edge⁻(Z, Y).",
            "p⁻(X, Y, Z) ⇐ edge⁻(Z, Y), edge⁻(X, Z).",
            "p⁻(X, Y, Z) ⇐ edge⁻(Z, Y), edgeᵒ(X, Z), not edge⁻(X, Z).",
        ],
    ),
}


@pytest.mark.parametrize("operator", TABLE)
def test_the_table_of_delta_rules(operator: str) -> None:
    text, expected = TABLE[operator]
    assert rules_of(text, "p") == expected


@pytest.mark.parametrize("operator", TABLE)
def test_the_table_holds_on_all_small_states(operator: str) -> None:
    """Every old and new state of the operands over a domain of two values (three of the four edges vary)."""
    text, _ = TABLE[operator]
    checked = program(text)
    edges = [(1, 1), (1, 2), (2, 1)]
    domains = {"edge": edges, "q": [(1,), (2,)], "r": [(1,), (2,)]}
    changing = list(checked.sources("p"))
    rows = [(name, row) for name in changing for row in domains[name]]
    states = [set(compress(rows, there)) for there in product((False, True), repeat=len(rows))]

    def facts(state: set[tuple[str, tuple[int, ...]]]) -> dict[str, list[tuple[int, ...]]]:
        return {n: [r for m, r in state if m == n] for n in changing}

    maintained = MaintainedProgram(checked, facts(states[0]))
    there = states[0]
    expected = [evaluate_in_memory(checked, facts(state))["p"] for state in states]

    def move_to(number: int) -> None:
        nonlocal there
        inserts, deletes = facts(states[number] - there), facts(there - states[number])
        before, after = maintained.rows("p"), expected[number]
        found = maintained.apply({n: (inserts[n], deletes[n]) for n in changing})
        assert maintained.rows("p") == after
        assert found.get("p", SetChange()) == SetChange(after - before, before - after)
        assert by_delta_rules(maintained, "p", found) == SetChange(after - before, before - after)
        there = states[number]

    for one, other in combinations(range(len(states)), 2):
        for number in (one, other, one):
            move_to(number)


def test_the_delta_rules_of_link_are_those_of_the_paper_with_the_footnote_put_right() -> None:
    assert rules_of(LINK, "link") == [
        "link2⁺(X, Y, Z) ⇐ edge⁺(X, Z), edgeᵒ(Z, Y), not edge⁻(Z, Y).",
        "link2⁺(X, Y, Z) ⇐ edge⁺(Z, Y), edge⁺(X, Z).",
        "link2⁺(X, Y, Z) ⇐ edge⁺(Z, Y), edgeᵒ(X, Z), not edge⁻(X, Z).",
        "link2⁻(X, Y, Z) ⇐ edge⁻(X, Z), edgeᵒ(Z, Y), not edge⁻(Z, Y).",
        "link2⁻(X, Y, Z) ⇐ edge⁻(Z, Y), edge⁻(X, Z).",
        "link2⁻(X, Y, Z) ⇐ edge⁻(Z, Y), edgeᵒ(X, Z), not edge⁻(X, Z).",
        "link1⁺(X, Y) ⇐ link2⁺(X, Y, Z), not link2ᵒ(X, Y, _).",
        "link1⁻(X, Y) ⇐ link2⁻(X, Y, Z), not link2⁺(X, Y, _), not link1⁰(X, Y).",
        "link1⁰(X, Y) ⇐ link2⁻(X, Y, Z), link2ᵒ(X, Y, Z′), not link2⁻(X, Y, Z′).",
        "link⁺(X, Y) ⇐ edge⁺(X, Y), not link1ᵒ(X, Y).",
        "link⁺(X, Y) ⇐ link1⁺(X, Y), not edgeᵒ(X, Y).",
        "link⁻(X, Y) ⇐ edge⁻(X, Y), not link1ᵒ(X, Y), not link1⁺(X, Y).",
        "link⁻(X, Y) ⇐ edge⁻(X, Y), link1⁻(X, Y), not link1⁺(X, Y).",
        "link⁻(X, Y) ⇐ link1⁻(X, Y), not edgeᵒ(X, Y), not edge⁺(X, Y).",
        "link⁻(X, Y) ⇐ link1⁻(X, Y), edge⁻(X, Y), not edge⁺(X, Y).",
    ]


# Section 3.2: link


def test_links_before_and_after_the_update() -> None:
    maintained = MaintainedProgram(program(LINK), {"edge": EDGES})
    assert maintained.rows("link") == {(1, 2), (2, 3), (3, 4), (1, 3), (2, 4)}
    found = maintained.apply(UPDATE)
    assert found["link"] == SetChange(frozenset({(4, 3)}), frozenset({(3, 4), (2, 4)}))
    assert by_delta_rules(maintained, "link", found) == found["link"]


# The errata


def test_erratum_1_an_insertion_into_r_deletes_from_the_difference() -> None:
    """Printed: p⁻(X) ⇐ r⁻(X), qᵒ(X)."""
    maintained = MaintainedProgram(program("p(X) :- q(X), not r(X)."), {"q": [(1,), (2,)], "r": [(2,)]})
    found = maintained.apply({"r": ([(1,)], [(2,)])})
    assert found["p"] == by_delta_rules(maintained, "p", found) == SetChange(frozenset({(2,)}), frozenset({(1,)}))
    printed = Clause("p⁻", (Variable("X"),), (Atom("r⁻", (Variable("X"),)), Atom("qᵒ", (Variable("X"),))))
    assert applied([printed], {"r⁻": {(2,)}, "qᵒ": {(1,), (2,)}}) == {"p⁻": {(2,)}}


def test_erratum_2_an_inserted_edge_joins_at_its_end() -> None:
    """Printed: p⁺(X, Y, Z) ⇐ q⁺(X, Y), r⁰(Z, Y)."""
    maintained = MaintainedProgram(program("p(X, Y, Z) :- edge(X, Z), edge(Z, Y)."), {"edge": [(2, 3)]})
    found = maintained.apply({"edge": ([(1, 2)], [])})
    assert found["p"] == by_delta_rules(maintained, "p", found) == SetChange(frozenset({(1, 3, 2)}), frozenset())
    x, y, z = map(Variable, "XYZ")
    printed = Clause("p⁺", (x, y, z), (Atom("edge⁺", (x, y)), Atom("edgeᵒ", (z, y))))
    assert applied([printed], {"edge⁺": {(1, 2)}, "edgeᵒ": {(2, 3)}}) == {}


def test_erratum_3_a_preserved_derivation_keeps_the_diamond_together() -> None:
    """The footnote folds `not link2ⁿ(X, Y, _)` to `not link2⁺(X, Y, _)`."""
    diamond = [(1, 2), (2, 4), (1, 3), (3, 4)]
    maintained = MaintainedProgram(program(LINK), {"edge": diamond})
    found = maintained.apply({"edge": ([], [(1, 2)])})
    assert (1, 4) in maintained.rows("link")
    assert found["link"] == by_delta_rules(maintained, "link", found) == SetChange(frozenset(), frozenset({(1, 2)}))
    correct = DeltaRules(program(LINK), "link").clauses
    footnote = [
        Clause(c.predicate, c.arguments, tuple(b for b in c.body if not str(b).startswith("not link1⁰")))
        for c in correct
    ]
    link2 = {(x, y, z) for x, z in diamond for z2, y in diamond if z == z2}
    facts: Facts = {"edgeᵒ": set(diamond), "edge⁻": {(1, 2)}, "link2ᵒ": link2, "link1ᵒ": {(x, y) for x, y, _ in link2}}
    # Stratum by stratum, so that nothing but the footnote differs.
    for name in ("link2⁺", "link2⁻", "link1⁺", "link1⁻", "link⁺", "link⁻"):
        facts |= applied([c for c in footnote if c.predicate == name], facts)
    assert facts["link⁻"] == {(1, 2), (1, 4)}


# Section 3.2: path


def test_the_delta_rules_of_path_are_not_stratifiable() -> None:
    with pytest.raises(NablaError, match="NABLA_RULES_CYCLE") as raised:
        _ = DeltaRules(program(PATH), "path").runnable
    assert "path2⁺" in raised.value.message
    assert "path⁻" in raised.value.message


def test_plain_iteration_over_them_invents_paths() -> None:
    clauses = DeltaRules(program(PATH), "path").clauses
    path = set(evaluate_in_memory(program(PATH), {"edge": EDGES})["path"])
    path2 = {(x, y, z) for x, z in EDGES for z2, y in path if z == z2}
    facts: Facts = {"edgeᵒ": set(EDGES), "edge⁺": {(4, 3)}, "edge⁻": {(3, 4)}, "pathᵒ": path, "path2ᵒ": path2}
    facts["path1ᵒ"] = {(x, y) for x, y, _ in path2}
    wrong = fixpoint(clauses, facts)["path⁺"]
    assert (4, 4) in wrong
    insertions_first = evaluate_in_memory(program(PATH), {"edge": [*EDGES, (4, 3)]})["path"] - path
    assert insertions_first >= {(4, 4), (3, 3)}


def test_the_vicious_update_of_path() -> None:
    maintained = MaintainedProgram(program(PATH), {"edge": EDGES})
    found = maintained.apply(UPDATE)
    assert found["path"] == SetChange(frozenset({(4, 3)}), frozenset({(1, 4), (2, 4), (3, 4)}))


def test_what_reads_a_recursive_predicate_is_propagated_by_rules_again() -> None:
    text = PATH + " end(X) :- edge(_, X), not path(X, _). far(X, Y) :- path(X, Y), not edge(X, Y)."
    maintained = MaintainedProgram(program(text), {"edge": EDGES})
    found = maintained.apply(UPDATE)
    assert found["end"] == by_delta_rules(maintained, "end", found) == SetChange(frozenset({(3,)}), frozenset({(4,)}))
    assert found["far"] == by_delta_rules(maintained, "far", found)


def test_the_printed_rules_say_how_recursion_is_handled() -> None:
    text = show(program(LINK + PATH))
    assert "link⁻(X, Y) ⇐ link1⁻(X, Y), not edgeᵒ(X, Y), not edge⁺(X, Y)." in text
    assert "% path: recursive" in text
    for rule in (
        "pathˣ(X, Y) ⇐ edge⁻(X, Z), pathᵒ(Z, Y).",
        "pathˣ(X, Y) ⇐ pathˣ(Z, Y), edgeᵒ(X, Z).",
        "pathᵃ(X, Y) ⇐ pathˣ(X, Y), edgeⁿ(X, Z), pathˢ(Z, Y).",
        "path⁺(X, Y) ⇐ pathᵃ(X, Y), not pathᵒ(X, Y).",
        "path⁻(X, Y) ⇐ pathˣ(X, Y), not pathᵃ(X, Y).",
    ):
        assert rule in text
