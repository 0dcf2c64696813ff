"""Denials as constraints: a transaction that makes one true is refused, with the bindings that show it."""

from __future__ import annotations

import pytest

import nabla
from nabla.errors import NablaError
from nabla.lake.constraints.violations import Violated
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

UP = "up(X, Y) :- boss(X, Y). up(X, Y) :- boss(X, Z), up(Z, Y)."


@pytest.fixture
def firm(lake: Lake) -> Lake:
    lake.create_table("boss", schema="a INT, b INT", data=[(1, 2), (2, 3), (3, 4)])
    return lake


@pytest.mark.parametrize("maintain", ["deferred", "immediate"])
def test_a_transaction_that_closes_a_loop_is_refused_with_the_loop(firm: Lake, maintain: str) -> None:
    firm.create_rules("hierarchy", UP, maintain=maintain)
    firm.create_constraint("acyclic", rules=":- up(X, X).")
    with pytest.raises(Violated) as refused, firm.transaction() as tx:
        tx.insert("boss", [(4, 2)])
    (violation,) = refused.value.violations
    assert violation.names == ("x",)
    assert sorted(violation.listed) == [(2,), (3,), (4,)]
    assert firm.read("boss").count() == 3
    with firm.transaction() as tx:
        tx.insert("boss", [(4, 5)])
    assert not firm.check().violated
    firm.refresh()
    assert firm.read("up").count() == 10
    firm.verify()


def test_a_denial_may_bring_rules_of_its_own_and_constants(firm: Lake) -> None:
    firm.create_constraint(
        "nobody_above_one", rules="over(X, Y) :- boss(X, Y). over(X, Y) :- boss(X, Z), over(Z, Y). :- over(9, 4)."
    )
    with firm.transaction() as tx:
        tx.insert("boss", [(9, 10), (10, 11)])
    with pytest.raises(Violated), firm.transaction() as tx:
        tx.insert("boss", [(11, 1)])
    assert "over(9, 4)" in str(firm.explain("nobody_above_one"))


def test_a_denial_over_tables_is_maintained_as_any_constraint(firm: Lake) -> None:
    firm.create_table("fired", schema="id INT", data=[(7,)])
    firm.create_constraint("no_ghosts", rules=":- boss(X, Y), fired(Y).")
    with pytest.raises(Violated) as refused, firm.transaction() as tx:
        tx.insert("fired", [(3,)])
    assert refused.value.violations[0].listed == [(2, 3)]


def test_negation_is_checked_after_deletions_too(firm: Lake) -> None:
    firm.create_table("person", schema="id INT", data=[(1,), (2,), (3,), (4,)])
    firm.create_rules("hierarchy", UP)
    firm.create_constraint("one_top", rules=":- person(X), X > 1, not up(1, X).")
    with pytest.raises(Violated) as refused, firm.transaction() as tx:
        tx.delete("boss", where="a = 2")
    assert sorted(refused.value.violations[0].listed) == [(3,), (4,)]


def test_one_that_only_warns_keeps_its_violations_and_lets_them_go(firm: Lake) -> None:
    firm.create_rules("hierarchy", UP)
    firm.create_constraint("acyclic", rules=":- up(X, X).", on_violation="warn")
    with firm.transaction() as tx:
        tx.insert("boss", [(4, 3)])
    assert sorted(map(tuple, firm.read("acyclic").collect())) == [(3,), (4,)]
    firm.verify("acyclic")
    with firm.transaction() as tx:
        tx.insert("boss", [(3, 1)])
        tx.delete("boss", where="a = 4")
    assert sorted(map(tuple, firm.read("acyclic").collect())) == [(1,), (2,), (3,)]
    firm.verify("acyclic")


def test_what_a_denial_asks_cannot_change_behind_its_back(firm: Lake) -> None:
    firm.create_rules("hierarchy", UP)
    firm.create_constraint("acyclic", rules=":- up(X, X).")
    for change in (lambda: firm.drop_rules("hierarchy"), lambda: firm.create_rules("hierarchy", UP, rebuild=True)):
        with pytest.raises(NablaError, match="acyclic") as refused:
            change()
        assert refused.value.code == "NABLA_IN_USE"
    firm.drop_constraint("acyclic")
    firm.drop_rules("hierarchy")


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("up(X, Y) :- boss(X, Y).", "NABLA_RULES_SYNTAX"),
        (":- boss(X, X). :- boss(X, 1).", "NABLA_RULES_SYNTAX"),
        (":- boss(X).", "NABLA_RULES_ARITY"),
        (":- nobody(X).", "NABLA_RULES_UNKNOWN"),
        ("boss(X, Y) :- boss(Y, X). :- boss(X, X).", "NABLA_RULES"),
    ],
)
def test_bad_denials_are_refused(firm: Lake, rules: str, code: str) -> None:
    with pytest.raises(NablaError) as refused:
        firm.create_constraint("wrong", rules=rules)
    assert refused.value.code.startswith(code), refused.value
    assert list(firm.status()) == ["boss"]


def test_a_denial_is_no_rule_and_a_constraint_is_made_in_one_way(firm: Lake) -> None:
    with pytest.raises(NablaError, match="create_constraint"):
        firm.create_rules("wrong", ":- boss(X, X).")
    for given in ({}, {"query": "SELECT 1 AS one FROM boss", "rules": ":- boss(X, X)."}):
        with pytest.raises(NablaError, match="in one way"):
            firm.create_constraint("wrong", **given)


def test_immediate_rules_follow_in_the_same_commit_and_are_said_to(firm: Lake) -> None:
    firm.create_rules("hierarchy", UP, maintain="immediate")
    with firm.transaction() as tx:
        tx.insert("boss", [(4, 5)])
        tx.delete("boss", where="a = 1")
    assert firm.read("up").count() == 6
    assert not firm.status()["up"].stale
    firm.verify()
    with pytest.raises(NablaError) as refused:
        firm.create_rules("wrong", "top(X) :- boss(X, _).", maintain="sometimes")
    assert refused.value.code == "NABLA_MAINTAIN"


def test_a_transaction_can_ask_what_it_would_make_true(firm: Lake) -> None:
    firm.create_rules("hierarchy", UP)
    firm.create_view("direct", "SELECT a, COUNT(*) AS n FROM boss GROUP BY a")
    firm.create_view("busy", "SELECT * FROM direct WHERE n > 1")
    with firm.transaction() as tx:
        tx.insert("boss", [(4, 5), (1, 6)])
        assert sorted(row.y for row in tx.ask("up(3, X)").collect()) == [4, 5]
        assert tx.read("up", fresh=True).count() == 11
        assert [tuple(row) for row in tx.read("busy", fresh=True).collect()] == [(1, 2)]
        assert tx.read("busy").count() == 0
    assert firm.read("busy").count() == 0
    other = nabla.open(firm.path)
    with pytest.raises(NablaError) as refused, firm.transaction() as tx:
        tx.ask("up(1, X)")
        with other.transaction() as first:
            first.insert("boss", [(6, 7)])
        tx.insert("boss", [(9, 9)])
    assert refused.value.code == "NABLA_CONFLICT"
