"""Every error names its code, what is wrong, the line and column, and what to do."""

from __future__ import annotations

import pytest
from datalog_programs import TABLES, rules

from nabla.errors import NablaError
from nabla.frontends.datalog.magic import ask_in_memory
from nabla.frontends.datalog.program import parse_program

WRONG = {
    "syntax": ("p(X) :- edge(X Y).", "NABLA_RULES_SYNTAX", "line 1, column 16", '"Y" is not expected'),
    "end": ("p(X) :-\n  node(X)", "NABLA_RULES_SYNTAX", "line 2, column 10", "the end of the text"),
    "constant without quotes": ("p(abc).", "NABLA_RULES_SYNTAX", "line 1, column 6", '")" is not expected'),
    "percent": ("p(X) :- node(X), X % 2 = 0.\nq(1).", "NABLA_RULES_SYNTAX", "line 2, column 1", "X mod 2"),
    "mixed arguments": ("p(X) :- edge(from: X, 3).", "NABLA_RULES_SYNTAX", "line 1, column 9", "by name"),
    "head": ("p(X,\n  Y) :- node(X).", "NABLA_RULES_UNSAFE", "line 2, column 3", "Y is in the head"),
    "negation": ("p(X) :- node(X), not edge(X, Y).", "NABLA_RULES_UNSAFE", "line 1, column 30", "write _"),
    "comparison": ("p(X) :- node(X), Y > X.", "NABLA_RULES_UNSAFE", "line 1, column 18", "Y has no value in Y > X"),
    "equations in a circle": ("p(X) :- X = Y, Y = X.", "NABLA_RULES_UNSAFE", "line 1, column 9", "X has no value"),
    "wildcard in head": ("p(_) :- node(X).", "NABLA_RULES_UNSAFE", "line 1, column 3", "_ stands for any value"),
    "value of braces": ("p(X) :- N = count : { node(X) }.", "NABLA_RULES_UNSAFE", "line 1, column 13", "braces"),
    "unbound in braces": (
        "p(X) :- node(X), N = count : { node(Y), Y < Z }, Z = N.",
        "NABLA_RULES_UNSAFE",
        "line 1, column 22",
        "Z is used around and inside of count",
    ),
    "negative cycle": (
        "p(X) :- node(X), not q(X).\nq(X) :- r(X).\nr(X) :- p(X).",
        "NABLA_RULES_CYCLE",
        "line 1, column 18",
        "p → not q → r → p",
    ),
    "own negation": ("p(X) :- node(X), !p(X).", "NABLA_RULES_CYCLE", "line 1, column 18", "p → not p"),
    "aggregate cycle": (
        "p(X, sum(Y)) :- q(X, Y).\nq(X, Y) :- p(Y, X).",
        "NABLA_RULES_CYCLE",
        "line 1, column 17",
        "p → γ q → p",
    ),
    "braces cycle": (
        "p(X) :- node(X), N = count : { p(X) }, N < 1.",
        "NABLA_RULES_CYCLE",
        "line 1, column 32",
        "count in p → γ p → count in p",
    ),
    "arity of a table": ("p(X) :- edge(X).", "NABLA_RULES_ARITY", "line 1, column 9", "Its columns are from, to"),
    "arity of a predicate": ("p(1).\nq(X) :- p(X, _).", "NABLA_RULES_ARITY", "line 2, column 9", "as in line 1"),
    "two heads": ("p(1).\np(1, 2).", "NABLA_RULES_ARITY", "line 2, column 1", "2 arguments here and 1"),
    "unknown": ("p(X) :- nodes(X).", "NABLA_RULES_UNKNOWN", "line 1, column 9", "Did you mean node?"),
    "unknown in braces": ("p(N) :- N = count : { oops(_) }.", "NABLA_RULES_UNKNOWN", "line 1, column 23", "oops"),
    "head is a table": ("p(1).\nedge(1, 2).", "NABLA_RULES_HEAD", "line 2, column 1", '"edge" is a table'),
    "unknown column": ("p(X) :- edge(form: X).", "NABLA_RULES_COLUMN", "line 1, column 9", "Did you mean from?"),
    "column twice": ("p(X) :- edge(to: X, to: 1).", "NABLA_RULES_COLUMN", "line 1, column 9", "twice"),
    "joined types": ("p(X) :- node(X), person(X, _, _).", "NABLA_RULES_TYPE", "line 1, column 25", "X is int"),
    "constant's type": ("p(X) :- node(X), edge(X, 'a').", "NABLA_RULES_TYPE", "line 1, column 26", "is string"),
    "compared types": ('p(X) :- node(X), X < "a".', "NABLA_RULES_TYPE", "line 1, column 18", "int with string"),
    "heads' types": ("p(X) :- node(X).\np('a').", "NABLA_RULES_TYPE", "line 2, column 3", "int in line 1, column 3"),
    "no type": ("p(X) :- p(X).", "NABLA_RULES_TYPE", "line 1, column 1", "every rule for it reads it"),
    "unknown function": ("p(foo(X)) :- node(X).", "NABLA_RULES_TYPE", "line 1, column 3", "foo"),
    "aggregate in body": ("p(X) :- node(X), X = max(X).", "NABLA_RULES_AGGREGATE", "line 1, column 22", "greatest"),
    "aggregate of one": ("p(sum(count(X))) :- node(X).", "NABLA_RULES_AGGREGATE", "line 1, column 3", "of its own"),
    "beside an aggregate": ("p(X + sum(Y)) :- edge(X, Y).", "NABLA_RULES_AGGREGATE", "line 1, column 3", "group by"),
    "no aggregate": ("p(N) :- N = foo X : { node(X) }.", "NABLA_RULES_AGGREGATE", "line 1, column 13", "foo is not"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_tells_code_place_and_remedy(case: str) -> None:
    text, code, place, words = WRONG[case]
    with pytest.raises(NablaError) as raised:
        rules(text)
    assert (raised.value.code, raised.value.place) == (code, place)
    assert words in str(raised.value)


def test_a_program_that_does_not_end_says_so() -> None:
    from nabla.frontends.datalog.evaluate import evaluate_in_memory

    program = rules("n(0).\nn(X + 1) :- n(X).")
    with pytest.raises(NablaError, match="did not settle within 50 rounds") as raised:
        evaluate_in_memory(program, {}, bound=50)
    assert raised.value.code == "NABLA_RULES_ROUNDS"
    assert "line 2, column 1" in raised.value.place


def test_a_question_about_nothing_names_what_there_is() -> None:
    program = parse_program("path(X, Y) :- edge(X, Y).", TABLES)
    with pytest.raises(NablaError, match="Did you mean path"):
        ask_in_memory(program, {}, "paths(1, X)")
    with pytest.raises(NablaError, match="NABLA_RULES_QUESTION"):
        ask_in_memory(program, {}, "path(1 + 1, X)")
