"""Rules mean what they say: plans against answers worked out by hand, and the specification against the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from datalog_programs import TABLES, rules
from sqlglot import parse_one

from nabla.algebra.expressions import Foreign, quote
from nabla.algebra.json import load_plan, to_data
from nabla.algebra.nodes import Aggregate, Distinct, Join, Project, Scan
from nabla.algebra.sql import to_sql
from nabla.calculus.recursion.relations import Present, deleted_name, inserted_name, set_changes
from nabla.frontends.datalog.evaluate import evaluate_in_memory
from nabla.frontends.datalog.naive import naive
from nabla.frontends.datalog.program import Program, parse_program
from nabla.frontends.datalog.terms import Term, sql_of

FACTS: dict[str, list[tuple[Any, ...]]] = {
    "edge": [(1, 2), (2, 3), (3, 1), (3, 3), (1, 2), (None, 1), (4, None)],
    "node": [(1,), (2,), (5,), (None,)],
    "person": [("Ada", date(1815, 12, 10), Decimal("10.50")), ("Bob", date(1990, 1, 1), Decimal("2.25"))],
    "sale": [(1, "x", 5), (2, "x", 5), (3, "y", None), (4, "y", 2), (5, None, 1)],
}
MEANINGS: dict[str, tuple[str, set[tuple[Any, ...]]]] = {
    "constants and repeated variables": ("p(X) :- edge(X, X), edge(3, X).", {(3,)}),
    "NULL is a value that joins": ("p(X, Y) :- edge(X, Y), node(X).", {(1, 2), (2, 3), (None, 1)}),
    "NULL is matched by null": ("p(Y) :- edge(null, Y).", {(1,)}),
    "NULL compares with nothing": ("p(X) :- edge(X, Y), Y != 7, X != 7.", {(1,), (2,), (3,)}),
    "a definition passes NULL on": ("p(X, Y) :- node(X), Y = X + 1.", {(1, 2), (2, 3), (5, 6), (None, None)}),
    "negation with wildcards": ("p(X) :- node(X), not edge(X, _).", {(5,)}),
    "negation without variables": ("p(X) :- node(X), not edge(7, _), not edge(1, 1).", {(1,), (2,), (5,), (None,)}),
    "negation of repeated variables": ("p(X) :- edge(X, _), !edge(X, X).", {(1,), (2,), (None,), (4,)}),
    "by name": ("p(X) :- edge(to: X, from: 2).", {(3,)}),
    "expression as argument": ("p(X) :- node(X), edge(X + 1, _).", {(1,), (2,), (None,)}),
    "expression in a negation": ("p(X) :- node(X), not edge(X + 1, _), X > 0.", {(5,)}),
    "product": ("p(X, N) :- edge(X, 1), person(N, _, _).", {(x, n) for x in (3, None) for n in ("Ada", "Bob")}),
    "yes or no": ("p(X) :- edge(X, 3), edge(_, _), node(5).", {(2,), (3,)}),
    "no yes": ("p(X) :- edge(X, 3), node(6).", set()),
    "dates and decimals": ('p(N, P * 2) :- person(N, B, P), B < "1900-01-01".', {("Ada", Decimal("21.00"))}),
    "facts": ("p(1, 'a'). p(2, null). p(1, 'a').", {(1, "a"), (2, None)}),
    "facts widen": ("p(1). p(2.5). p(X) :- node(X), X < 2.", {(Decimal("1.0"),), (Decimal("2.5"),)}),
    "alternatives": ("p(X) :- node(X), X > 2; edge(X, 3).", {(5,), (2,), (3,)}),
    "all operators": (
        "p(X + 1, X - 1, X * 2, X / 2, X div 2, X mod 2, -X) :- node(X), X = 5.",
        {(6, 4, 10, 2.5, 2, 1, -5)},
    ),
    "texts one after the other": (
        "p(N || '-' || B || P) :- person(N, B, P), N = 'Bob'.",
        {("Bob-1990-01-012.25",)},
    ),
    "functions": ("p(upper(N), length(N)) :- person(N, _, _).", {("ADA", 3), ("BOB", 3)}),
    "aggregates see facts, not values": ("p(S, sum(A)) :- sale(_, S, A).", {("x", 10), ("y", 2), (None, 1)}),
    "duplicates of facts count once": ("p(X, count(Y)) :- edge(X, Y), X < 2.", {(1, 1)}),
    "aggregate without groups": ("p(count(*), max(A)) :- sale(_, _, A).", {(5, 5)}),
    "aggregate of nothing": ("p(count(*)) :- sale(_, _, 99).", set()),
    "expression of aggregates": ("p(S, sum(A) + count(*)) :- sale(_, S, A), A > 1.", {("x", 12), ("y", 3)}),
    "distinct": ("p(S, count(distinct A)) :- sale(_, S, A).", {("x", 1), ("y", 1), (None, 1)}),
    "grouped by an expression": ("p(A mod 2, count(*)) :- sale(_, _, A), A > 0.", {(1, 3), (0, 1)}),
    "count in braces, zero too": (
        "p(X, N) :- node(X), N = count : { edge(X, _) }.",
        {(1, 1), (2, 1), (5, 0), (None, 1)},
    ),
    "sum in braces": ("p(N) :- N = sum A : { sale(_, 'z', A) }.", {(0,)}),
    "least of nothing fails": ("p(X, M) :- node(X), M = min Y : { edge(X, Y) }.", {(1, 2), (2, 3), (None, 1)}),
    "braces in an expression": ("p(X) :- node(X), 1 + count : { edge(X, _) } < 2.", {(5,)}),
    "braces in the head": ("p(count : { node(X) } * 2).", {(8,)}),
    "braces with values from outside": (
        "p(X, N) :- node(X), N = count : { edge(Y, _), Y < X }.",
        {(1, 0), (2, 1), (5, 5), (None, 0)},
    ),
    "braces within braces": (
        "p(N) :- N = count : { node(X), M = count : { edge(X, _) }, M > 0 }.",
        {(3,)},
    ),
    "local names of braces": (
        "p(A + B) :- A = count : { node(X) }, B = count : { edge(X, X) }.",
        {(5,)},
    ),
    "nullary": ("some() :- edge(3, 3). p(1) :- some. p(2) :- not some().", {(1,)}),
    "mutual recursion": (
        "q(X) :- edge(1, X). p(Y) :- q(X), edge(X, Y). q(Y) :- p(X), edge(X, Y).",
        {(1,), (2,), (3,)},
    ),
    "arithmetic in recursion": ("p(1). p(X * 2) :- p(X), X < 20.", {(1,), (2,), (4,), (8,), (16,), (32,)}),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_a_rule_means_what_it_says(case: str) -> None:
    text, expected = MEANINGS[case]
    program = rules(text)
    assert naive(program, FACTS)["p"] == expected
    assert evaluate_in_memory(program, FACTS)["p"] == expected


def _nodes(program: Program, kind: type) -> int:
    return sum(isinstance(node, kind) for node in program.plan("p").walk())


def test_a_rule_that_shows_all_of_its_facts_needs_no_distinct() -> None:
    base = "q(X, Y) :- edge(X, Y).\n"
    assert _nodes(rules(base + "p(X, Y) :- q(X, Y), not node(X)."), Distinct) == 0
    assert _nodes(rules(base + "p(X) :- q(X, _)."), Distinct) == 1
    assert _nodes(rules("p(X, Y) :- edge(X, Y)."), Distinct) == 1  # a table may hold a row twice


def test_a_count_in_braces_is_one_outer_join_and_one_aggregate() -> None:
    program = rules("p(X, N) :- node(X), N = count : { edge(X, _) }.")
    joins = [node.kind for node in program.plan("p").walk() if isinstance(node, Join)]
    assert joins == ["left"]
    assert _nodes(program, Aggregate) == 1


def test_joins_follow_shared_variables_and_read_only_what_is_needed() -> None:
    program = rules("p(X) :- edge(X, Y), node(Z), edge(Y, Z), sale(Y2, _, _), Y2 = Z.")
    assert [n.table for n in program.plan("p").walk() if isinstance(n, Scan)].count("edge") == 2
    joins = [node for node in program.plan("p").walk() if isinstance(node, Join)]
    assert [bool(node.on) for node in joins] == [False, True, True]
    assert {len(node.columns) for node in program.plan("p").walk() if not node.inputs} == {1, 2}


def test_columns_that_cannot_be_null_join_with_a_plain_equality() -> None:
    program = parse_program("p(X) :- a(X), b(X).", {"a": [("x", "int not null")], "b": [("x", "int")]})
    (join,) = (node for node in program.plan("p").walk() if isinstance(node, Join))
    assert [c.null_safe for c in join.on] == [False]
    assert not program.columns("p")[0].nullable


def test_columns_are_named_after_the_first_head() -> None:
    program = rules("p(X, Shop, X, 1) :- node(X), sale(_, Shop, _). q(number: X, kind: 'a') :- node(X).")
    assert [c.name for c in program.columns("p")] == ["c0", "shop", "c2", "c3"]
    assert [(c.name, c.type) for c in program.columns("q")] == [("number", "int"), ("kind", "string")]


def test_types_widen_across_rules_and_recursion() -> None:
    program = rules("p(1). p(X) :- sale(X, _, _). p(X + 0.5) :- p(X), X < 3.")
    assert [c.type for c in program.columns("p")] == ["decimal(38,1)"]
    assert [c.type for c in rules("p(X) :- node(X). p(1e0).").columns("p")] == ["double"]


def test_types_may_come_from_spark_which_is_asked_once() -> None:
    asked = []

    def type_of(term: Term, columns: Mapping[str, str]) -> str:
        asked.append((sql_of(term), dict(columns)))
        return "string"

    program = parse_program("p(soundex(N)) :- person(N, _, _). q(X) :- p(X), X = soundex(X).", TABLES, type_of)
    assert program.columns("p")[0].type == "string"
    assert asked == [("soundex(`N`)", {"N": "string"}), ("soundex(`X`)", {"X": "string"})]
    again = Program.from_json(json.loads(json.dumps(program.to_json())))
    assert again.plan("p") == program.plan("p")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("p(year(B)) :- person(_, B, _).", "p(date_part('year', B)) :- person(_, B, _)."),
        ("p(lcase(N)) :- person(N, _, _).", "p(lower(N)) :- person(N, _, _)."),
        ("p(bigint(1), X) :- node(X).", "p(bigint(bigint(1)), X) :- node(X)."),
        ("p(X) :- node(X), 3 < X.", "p(X) :- node(X), X > 3."),
        ("p(nvl(X, 0)) :- node(X).", "p(ifnull(X, 0)) :- node(X)."),
        ("p(N || 'x' || N) :- person(N, _, _).", "p(concat(N, 'x', N)) :- person(N, _, _)."),
        ("p(B - 5) :- person(_, B, _).", "p(date_add(B, -5)) :- person(_, B, _)."),
    ],
)
def test_two_spellings_of_a_rule_are_one_plan(one: str, other: str) -> None:
    assert rules(one).plan("p") == rules(other).plan("p")


def test_a_function_that_the_tree_does_not_know_keeps_its_text() -> None:
    program = parse_program("p(soundex(upper(N))) :- person(N, _, _).", TABLES, lambda term, columns: "string")
    (output,) = (named.expr for node in program.plan("p").walk() if isinstance(node, Project) for named in node.outputs)
    assert isinstance(output, Foreign)
    assert output.template == "soundex(`{0}`)"
    assert [str(part) for part in output.inputs] == ["upper(name)"]


def test_a_program_is_stored_as_text_and_types() -> None:
    program = rules("p(X, count(Y)) :- edge(X, Y).")
    again = Program.from_json(program.to_json())
    assert again.plan("p") == program.plan("p")
    assert again.tables == program.tables


def test_every_query_of_a_program_is_spark_sql_and_can_be_stored() -> None:
    program = rules("""
      path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z), not node(Z).
      total(S, sum(A) / count(*)) :- sale(_, S, A), A > 0.
      busy(X, N) :- node(X), N = count : { edge(X, _) }, not path(X, X).
    """)
    queries, group = program.group("path").queries, program.group("path")
    made = {name(i) for i in group.inputs for name in (inserted_name, deleted_name)}
    everything = Present(stored=True, gone=frozenset({"path"}), added=frozenset({"path"}))
    nodes = [program.plan("total"), program.plan("busy"), queries.fresh_rows("path", everything)]
    nodes += [queries.start()["path"], queries.lost(made)["path"], queries.lost_step({"path"})["path"]]
    nodes += [queries.found(made, everything)["path"], queries.step(everything, {"path"})["path"]]
    nodes += set_changes({"edge": program.columns("edge")}).values()
    for node in nodes:
        text = to_sql(node, lambda scan: quote(f"{scan.table}@{scan.at.value}"))
        assert parse_one(text, dialect="spark")
        assert load_plan(to_data(node)) == node
