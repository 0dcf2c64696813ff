"""Views that could answer queries, made from these."""

from __future__ import annotations

from nabla.advise.candidates import Candidate, Measure, candidates_of
from nabla.advise.text import text_of
from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Literal, Ref
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Project, Scan
from nabla.answer.answers import ViewIndex, find_answer
from nabla.answer.facts import Sizes
from nabla.answer.match import StoredView

SIZES = Sizes({"sales": 1000, "shops": 10, "view": 20})


def column(name: str, type_: str = "int") -> Column:
    return Column(name, type_)


def sales(*keys: str, where: tuple[str, int] | None = None, function: str = "sum") -> Node:
    """SELECT keys, function(amount) FROM sales JOIN shops ON shop = id [WHERE column = value] GROUP BY keys"""
    left = Scan("sales", At.NEW, tuple(map(column, ("shop#1", "day#1", "amount#1"))), ("shop", "day", "amount"))
    right = Scan("shops", At.NEW, tuple(map(column, ("id#2", "city#2", "size#2"))), ("id", "city", "size"))
    joined: Node = Join(left, right, (equal(left.columns[0].ref, right.columns[0].ref),))
    if where is not None:
        joined = Filter(joined, (equal(joined.column(where[0]).ref, Literal(str(where[1]), "int")),))
    needed = tuple(Named(c, c.ref) for c in joined.columns if c.name in (*keys, "amount#1"))
    call = Call(Column("total#3", "bigint"), function, (joined.column("amount#1").ref,))
    return Aggregate(Project(joined, needed), keys, (call,))


def answers(candidate: Candidate, query: Node) -> bool:
    view = StoredView("view", candidate.plan, candidate.labels)
    return find_answer(query, ViewIndex([view]), sizes=SIZES).views == ("view",)


def test_a_query_has_its_own_candidate_and_one_for_all_constants() -> None:
    one, other = sales("day#1", where=("city#2", 1)), sales("day#1", where=("city#2", 2))
    own, general = candidates_of([one])
    assert len(own.kept) == 1
    assert {key.column for key in general.keys} == {"sales.day", "shops.city"}
    assert answers(own, one)
    assert not answers(own, other)
    assert answers(general, one)
    assert answers(general, other)


def test_two_queries_have_a_common_candidate() -> None:
    queries = [sales("day#1"), sales("city#2", function="max")]
    *_, merged = candidates_of(queries)
    assert {key.column for key in merged.keys} == {"sales.day", "shops.city"}
    assert {m.function for m in merged.measures} == {"sum", "max", "count"}
    assert all(answers(merged, query) for query in queries)


def test_an_average_is_kept_as_sum_and_count() -> None:
    (only,) = candidates_of([sales("day#1", function="avg")])
    amount = Ref("sales.amount", "int", True)
    assert {Measure("sum", amount, "bigint"), Measure("count", amount, "bigint")} <= only.measures


def test_a_function_without_parts_makes_no_candidate() -> None:
    assert candidates_of([sales("day#1", function="median")]) == ()


def test_a_candidate_is_written_as_a_person_would() -> None:
    _, general = candidates_of([sales("day#1", where=("city#2", 1))])
    assert text_of(general) == (
        "SELECT sales.day, shops.city, count(*) AS rows, sum(sales.amount) AS sum_amount\n"
        "FROM sales\n"
        "JOIN shops ON (sales.shop = shops.id)\n"
        "GROUP BY sales.day, shops.city"
    )


def test_names_that_need_quotes_get_them() -> None:
    odd: Expr = Ref("my table.a`b", "int", True)
    none = frozenset[Expr]()
    one = Candidate(
        frozenset({"my table"}), none, none, frozenset({odd}), frozenset({Measure("count", None, "bigint")})
    )
    assert text_of(one) == "SELECT `my table`.`a``b`, count(*) AS rows\nFROM `my table`\nGROUP BY `my table`.`a``b`"
