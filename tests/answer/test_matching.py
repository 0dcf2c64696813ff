"""Queries answered from views, without data: which plan is found, and why a view is not used."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest

from nabla.algebra.build import compare, equal, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Literal
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Project, Scan
from nabla.answer.answers import FoundAnswer, ViewIndex, find_answer
from nabla.answer.facts import Proofs, Sizes
from nabla.answer.predicates import Known
from nabla.answer.stored_view import StoredView
from nabla.dev.testing.fuzz_answers import RULES, fuzz, try_case
from nabla.dev.testing.random_answers import Answers
from nabla.dev.testing.random_star import random_star

SALES = Scan(
    "sales",
    At.NEW,
    tuple(Column(f"{n}#{i}", t) for i, (n, t) in enumerate((("city", "string"), ("day", "int"), ("price", "bigint")))),
    ("city", "day", "price"),
)
CITIES = Scan("cities", At.NEW, (Column("name#7", "string"), Column("nation#8", "string")), ("name", "nation"))


def col(plan: Node, label: str) -> Expr:
    return next(c.ref for c in plan.columns if c.label == label)


def grouped(plan: Node, *keys: str, calls: tuple[str, ...] = ("sum", "count")) -> Node:
    names = tuple(col(plan, key).column or "" for key in keys)
    price = col(plan, "price")
    made = {
        "sum": Call(Column("total#90", "bigint"), "sum", (price,)),
        "count": Call(Column("n#91", "bigint", False), "count"),
        "avg": Call(Column("mean#92", "double"), "avg", (price,)),
        "max": Call(Column("top#93", "bigint"), "max", (price,)),
    }
    return Aggregate(plan, names, tuple(made[c] for c in calls))


def late(plan: Node, day: int) -> Node:
    return Filter(plan, (compare(col(plan, "day"), ">=", number(day, "int")),))


def view(plan: Node, name: str = "v") -> StoredView:
    return StoredView(name, plan, tuple(c.label for c in plan.columns))


def ask(query: Node, *views: StoredView, proofs: Proofs | None = None) -> FoundAnswer:
    return find_answer(query, ViewIndex(views), proofs or Proofs(), Sizes({"sales": 1000, "cities": 50, "v": 10}))


def test_an_equal_query_scans_the_view_and_nothing_else() -> None:
    found = ask(grouped(SALES, "city"), view(grouped(SALES, "city")))
    assert found.views == ("v",)
    assert [s.table for s in found.plan.scans] == ["v"]
    assert not any(isinstance(node, Aggregate) for node in found.plan.walk())


def test_coarser_groups_are_added_up() -> None:
    found = ask(grouped(SALES, "city"), view(grouped(SALES, "city", "day")))
    assert found.fired >= {"roll up sum", "roll up count"}
    assert (
        ask(grouped(SALES, "city", calls=("avg",)), view(grouped(SALES, "city", "day"))).reasons[0].short == "AGGREGATE"
    )


def test_a_stronger_filter_is_applied_to_the_view_and_a_weaker_one_is_refused() -> None:
    wide, narrow = view(grouped(late(SALES, 5), "city", "day")), view(grouped(late(SALES, 9), "city", "day"))
    assert ask(grouped(late(SALES, 7), "city"), wide).views == ("v",)
    (reason,) = find_answer(
        grouped(late(SALES, 7), "city", calls=("sum",)), ViewIndex([narrow]), sizes=Sizes({"sales": 10, "v": 10})
    ).reasons
    assert reason.code in ("NABLA_ANSWER_PREDICATE", "NABLA_ANSWER_COST")


def test_what_a_view_lacks_is_read_from_the_tables() -> None:
    found = ask(grouped(late(SALES, 7), "city"), view(grouped(late(SALES, 9), "city", "day")))
    assert found.fired >= {"union of groups"}
    assert {s.table for s in found.plan.scans} == {"sales", "v"}


def test_a_range_with_two_ends_leaves_both_outsides_to_the_tables() -> None:
    between = Filter(late(SALES, 3), (compare(col(SALES, "day"), "<", number(9, "int")),))
    found = ask(grouped(SALES, "city"), view(grouped(between, "city")))
    assert found.fired >= {"union of groups"}
    assert {s.table for s in found.plan.scans} == {"sales", "v"}


def test_groups_are_joined_with_a_table_that_only_the_query_reads() -> None:
    joined = Join(SALES, CITIES, (equal(col(SALES, "city"), col(CITIES, "name")),))
    found = ask(grouped(joined, "nation"), view(grouped(SALES, "city")))
    assert "groups joined with tables" in found.fired


def test_a_join_of_the_view_alone_has_to_be_proved_lossless() -> None:
    joined = Join(SALES, CITIES, (equal(col(SALES, "city"), col(CITIES, "name")),))
    stored = view(grouped(joined, "city", "nation"))
    query = grouped(SALES, "city")
    assert ask(query, stored).reasons[0].code == "NABLA_ANSWER_KEY"
    unique = Proofs(unique=lambda t, f: t == "cities" and "name" in f)
    assert ask(query, stored, proofs=unique).reasons[0].code == "NABLA_ANSWER_KEY"
    proved = Proofs(unique.unique, lambda *names: True, lambda t, f: True)
    assert ask(query, stored, proofs=proved).views == ("v",)
    assert ask(query, stored, proofs=Proofs(unique.unique, lambda *n: True)).reasons[0].message.endswith("may be NULL")


def test_conjuncts_imply_what_follows_from_them() -> None:
    a, b = Column("a#1", "int").ref, Column("b#2", "int").ref
    known = Known([compare(a, ">", number(5, "int")), equal(a, b)])
    assert known.implies(compare(b, ">=", number(6, "int")))
    assert known.implies(compare(a, "<>", number(2, "int")))
    assert not known.implies(compare(b, ">", number(6, "int")))
    assert not Known([]).implies(equal(a, a))  # NULL = NULL is not true
    assert not known.implies(Literal(None, "boolean"))


def test_random_answers_are_the_plain_querys() -> None:
    findings = fuzz(100, processes=1)
    assert findings.wrong == []
    assert findings.share >= 0.95


def test_the_fuzzer_notices_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Known, "implies", lambda self, goal: True)
    assert any(try_case(seed).wrong for seed in range(4))
    assert len(set(RULES)) == len(RULES)


def test_a_hundred_views_are_matched_in_milliseconds() -> None:
    rng = Random(7)
    schema = random_star(rng)
    answers = Answers(rng, schema)
    specs = [answers.view() for _ in range(100)]
    views = [
        StoredView(f"v{i}", s.plan(schema), tuple(f"c{j}" for j in range(len(s.shown)))) for i, s in enumerate(specs)
    ]
    index = ViewIndex(views)
    queries = [answers.weaker(spec).plan(schema) for spec in specs[:5]]
    for query in queries:
        find_answer(query, index)
    begun = process_time()
    for query in queries:
        find_answer(query, index)
    assert (process_time() - begun) / len(queries) < 0.2  # 20 ms on a machine with nothing else to do


def test_projections_and_names_do_not_hide_a_match() -> None:
    renamed = Project(SALES, tuple(Named(c.rename(f"{c.label}x#{50 + i}"), c.ref) for i, c in enumerate(SALES.columns)))
    price, city = renamed.columns[2], renamed.columns[0]
    plan = Aggregate(renamed, (city.name,), (Call(Column("s#70", "bigint"), "sum", (price.ref,)),))
    assert ask(plan, view(grouped(SALES, "city", "day"))).views == ("v",)


def test_a_row_without_a_key_is_not_taken_for_one_that_an_outer_join_did_not_meet() -> None:
    on = (equal(col(SALES, "city"), col(CITIES, "name")),)
    stored = view(grouped(Join(SALES, CITIES, on, "left"), "nation"))
    query = grouped(
        Filter(Join(SALES, CITIES, on), (compare(col(CITIES, "name"), ">", Literal("B", "string")),)), "nation"
    )
    unique = Proofs(unique=lambda t, f: t == "cities" and "nation" in f)
    (reason,) = ask(query, stored, proofs=unique).reasons
    assert reason.code == "NABLA_ANSWER_COLUMN"
    assert ask(query, stored, proofs=Proofs(unique.unique, has_values=lambda t, f: True)).views == ("v",)
