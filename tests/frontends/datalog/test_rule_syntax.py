from __future__ import annotations

import pytest

from nabla.frontends.datalog.syntax import parse_query, parse_rules
from nabla.frontends.datalog.terms import (
    Aggregation,
    Apply,
    Atom,
    Comparison,
    Constant,
    Operation,
    Position,
    Variable,
    Wildcard,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p(X) :- q(X, Y), not r(Y).", "p(X) ⇐ q(X, Y), not r(Y)."),
        ("p(X) :- q(X), !r(X).", "p(X) ⇐ q(X), not r(X)."),
        ("p(X) ⇐ q(X, _).", "p(X) ⇐ q(X, _)."),
        ("p(X) :- edge(from: X, to: 3).", "p(X) ⇐ edge(from: X, to: 3)."),
        ("p(X + 1 * 2) :- q(X).", "p(X + (1 * 2)) ⇐ q(X)."),
        ("p((X + 1) * 2) :- q(X).", "p((X + 1) * 2) ⇐ q(X)."),
        ("p(X) :- q(X), X mod 2 = 1, X div 2 != 0.", "p(X) ⇐ q(X), X mod 2 = 1, X div 2 != 0."),
        ("p(upper(N)) :- q(N), length(N) >= 2.", "p(upper(N)) ⇐ q(N), length(N) >= 2."),
        ("total(C, sum(A), count(*)) :- q(C, A).", "total(C, sum(A), count(*)) ⇐ q(C, A)."),
        ("n(count(distinct X)) :- q(X).", "n(count(distinct X)) ⇐ q(X)."),
        ("p(N) :- N = count : { q(X), X > 1 }.", "p(N) ⇐ N = count : { q(X), X > 1 }."),
        ("p(N) :- N = sum X + 1 : { q(X) }.", "p(N) ⇐ N = sum X + 1 : { q(X) }."),
        ("p(N) :- N = percentile(X, 0.5) : { q(X) }.", "p(N) ⇐ N = percentile(X, 0.5) : { q(X) }."),
        ("p(-1, 1.50, true, null, 'it\\'s').", 'p(-1, 1.50, true, null, "it\'s").'),
        ("raining. wet() :- raining.", "raining()."),
        ("`my table`(X) :- q(X).", "my table(X) ⇐ q(X)."),
        ("_p1(X) :- q(X).", "_p1(X) ⇐ q(X)."),
        ("note(X) :- nothing(X).", "note(X) ⇐ nothing(X)."),
    ],
)
def test_rules_read_back_as_they_were_meant(text: str, shown: str) -> None:
    assert str(parse_rules(text)[0]) == shown


def test_comments_of_every_kind_are_skipped() -> None:
    text = "% one\n// two\n# three\n/* four\n five */ p(X) :- /* six */ q(X). % seven\nr(X) :- q(X)."
    assert [rule.head.predicate for rule in parse_rules(text)] == ["p", "r"]


def test_strings_keep_what_looks_like_a_comment() -> None:
    (rule,) = parse_rules('p("50% // # /*").')
    assert str(rule.head.arguments[0]) == '"50% // # /*"'


def test_alternatives_become_rules() -> None:
    assert [str(r) for r in parse_rules("p(X) :- q(X), X > 1; r(X).")] == ["p(X) ⇐ q(X), X > 1.", "p(X) ⇐ r(X)."]


def test_every_part_knows_its_place() -> None:
    (_, rule) = parse_rules('a(1).\n  p(X, sum(Y)) :- q(X, _),\n    Y = X + 2,\n    not r("a").')
    assert rule.place == rule.head.place == Position(2, 3)
    assert [a.place for a in rule.head.arguments] == [Position(2, 5), Position(2, 8)]
    atom, comparison, negation = rule.body
    assert (atom.place, comparison.place, negation.place) == (Position(2, 19), Position(3, 5), Position(4, 5))
    assert isinstance(atom, Atom)
    assert isinstance(atom.arguments[1], Wildcard)
    assert isinstance(comparison, Comparison)
    assert isinstance(comparison.right, Operation)
    assert comparison.right.operands[1].place == Position(3, 13)


def test_constants_have_the_types_that_spark_gives_them() -> None:
    (rule,) = parse_rules('p(1, 3000000000, 1.50, 1e3, "a", true, null, -7).')
    kinds = [a.type for a in rule.head.arguments if isinstance(a, Constant)]
    assert kinds == ["int", "bigint", "decimal(3,2)", "double", "string", "boolean", "void", "int"]


def test_strings_are_escaped_for_spark() -> None:
    (rule,) = parse_rules('p("say \\"hi\\"\\n", \'a\\\\b\').')
    assert [a.sql for a in rule.head.arguments if isinstance(a, Constant)] == ["'say \"hi\"\n'", "'a\\\\b'"]


def test_aggregates_in_heads_are_functions_and_in_bodies_have_braces() -> None:
    (rule,) = parse_rules("p(sum(X)) :- q(X), N = min X : { q(X) }, N > 0.")
    assert isinstance(rule.head.arguments[0], Apply)
    comparison = rule.body[1]
    assert isinstance(comparison, Comparison)
    assert isinstance(comparison.right, Aggregation)
    assert comparison.right.arguments == (Variable("X"),)


def test_a_question_is_one_atom() -> None:
    assert str(parse_query("path(1, X)")) == "path(1, X)"
    assert str(parse_query(" path(from: 1). ")) == "path(from: 1)"
