"""Questions: the answer is what filtering the whole result gives, and less is derived."""

from __future__ import annotations

from typing import Any

import pytest
from datalog_programs import GRAPH, rules

from nabla.calculus.recursion.fixpoint import Round
from nabla.frontends.datalog.evaluate import evaluate_in_memory, evaluate_program, memory_of
from nabla.frontends.datalog.magic import ask, ask_in_memory, question

FACTS: dict[str, list[tuple[Any, ...]]] = {
    "edge": [(1, 2), (2, 3), (3, 2), (7, 8), (8, 9), (9, 7), (None, 7)],
    "node": [(1,), (4,), (9,)],
    "sale": [(1, "x", 5), (2, "y", 7)],
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("path(1, X)", {(1, 2), (1, 3)}),
        ("path(X, 3)", {(1, 3), (2, 3), (3, 3)}),
        ("path(1, 3)", {(1, 3)}),
        ("path(1, 7)", set()),
        ("path(X, X)", {(2, 2), (3, 3), (7, 7), (8, 8), (9, 9)}),
        ("path(null, Y)", {(None, 7), (None, 8), (None, 9)}),
        ("path(x: 2)", {(2, 2), (2, 3)}),
        ("link(1, _)", {(1, 2), (1, 3)}),
        ("isolated(4)", {(4,)}),
        ("isolated(X)", {(4,)}),
        ("edge(7, X)", {(7, 8)}),
        ("edge(_, _)", set(FACTS["edge"])),
    ],
)
def test_an_answer_is_the_filtered_result(asked: str, expected: set[tuple[Any, ...]]) -> None:
    assert ask_in_memory(rules(GRAPH), FACTS, asked) == expected


def test_only_what_is_needed_is_derived() -> None:
    program = rules(GRAPH)
    memory = memory_of(program, {"edge": [(i, i + 1) for i in range(200)]})
    rounds: list[Round] = []
    assert len(ask(program, "path(195, X)", memory, rounds=rounds).bag) == 5
    assert sum(size for r in rounds for name, size in r.sizes.items() if name.startswith("path")) == 15


def test_a_nonlinear_rule_asks_itself() -> None:
    program = rules("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z).")
    whole = evaluate_in_memory(program, FACTS)["path"]
    assert ask_in_memory(program, FACTS, "path(1, X)") == {row for row in whole if row[0] == 1}


def test_what_is_negated_or_aggregated_is_evaluated_whole() -> None:
    program = rules("""
      busy(X, count(Y)) :- edge(X, Y).
      quiet(X, N) :- node(X), not busy(X, _), N = count : { sale(_, _, _) }.
    """)
    asked = question(program, "quiet(4, N)")
    assert {"busy", "quiet/bf", "magic quiet/bf", "answer"} <= set(asked.predicates)
    assert ask_in_memory(program, FACTS, "quiet(4, N)") == {(4, 2)}
    assert ask_in_memory(program, FACTS, "busy(3, N)") == {(3, 1)}


def test_the_answer_has_the_columns_of_what_was_asked() -> None:
    program = rules(GRAPH)
    relation = evaluate_program(question(program, "path(1, Who)"), memory_of(program, FACTS))["answer"]
    assert relation.fields == ("x", "y")


def test_computed_heads_are_asked_by_value() -> None:
    program = rules("n(0). n(X + 1) :- n(X), X < 9. even(X * 2) :- n(X).")
    assert ask_in_memory(program, {}, "even(6)") == {(6,)}
    assert ask_in_memory(program, {}, "n(4)") == {(4,)}
