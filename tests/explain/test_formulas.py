"""Maintenance expressions as a person reads them."""

from __future__ import annotations

import pytest
import sqlglot

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column, Expr, quote
from nabla.algebra.nodes import Aggregate, At, Distinct, Filter, Join, Node, Project, Scan, TopK, Window
from nabla.algebra.notation.tree import notation, tree
from nabla.calculus.stages import Staged, cut
from nabla.dev.testing.expressions import read_text
from nabla.explain.formulas import Formulas
from nabla.explain.sql import sql_text
from nabla.explain.sql_layout import WIDTH
from nabla.planner.delta_steps import maintenance_steps, rebuild_steps
from nabla.planner.steps import Settle, Step


def table(name: str, *columns: str) -> Scan:
    output = tuple(Column(c, "int") for c in columns)
    return Scan(name, At.NEW, output, tuple(c.label for c in output))


ORDERS = table("orders", "id#1", "customer#2", "amount#3")
CUSTOMERS = table("customers", "id#4", "region#5")
REGIONS = table("regions", "id#6", "name#7")


def ref(name: str) -> Expr:
    return read_text(quote(name), "int")


def joined() -> Node:
    sold = Join(ORDERS, CUSTOMERS, (equal(ref("customer#2"), ref("id#4")),))
    return Join(sold, REGIONS, (equal(ref("region#5"), ref("id#6")),))


def revenue(function: str = "sum") -> Node:
    call = Call(Column("total#8", "bigint"), function, (ref("amount#3"),))
    return Aggregate(joined(), ("name#7",), (call,))


def written(view: str, plan: Node, *changed: str) -> list[str]:
    staged = cut(plan)
    steps = maintenance_steps(staged, frozenset(changed))
    formulas = Formulas(view, staged, steps)
    lines = []
    for step in steps:
        lines += formulas.lines(step)
        if isinstance(step, Settle) and step.finish is not None:
            lines += formulas.finish_lines()
    return lines


def test_a_join_names_its_parts_and_the_tables_of_columns_that_share_a_name() -> None:
    assert written("sales", joined(), "orders", "customers", "regions") == [
        "X1 = d orders ⋈[customer = customers.id] customers₀",
        "X2 = (X1 + d customers ⋈[customer = customers.id] orders) ⋈[region = regions.id] regions₀",
        "d sales = X2 + d regions ⋈[region = regions.id] customers ⋈[customer = customers.id] orders",
    ]


def test_only_what_changed_gives_a_term() -> None:
    assert written("sales", joined(), "orders") == [
        "d sales = d orders ⋈[customer = customers.id] customers ⋈[region = regions.id] regions"
    ]


def test_a_change_table_is_merged_into_what_is_stored() -> None:
    assert written("revenue", revenue(), "orders") == [
        "X1 = d orders ⋈[customer = customers.id] customers ⋈[region = regions.id] regions",
        "□A = γ±[name; d rows, d total.count, d total.sum](X1)",
        "X2 = A₀ ⋉[name] □A",
        "X3 = π[name, rows + d rows, total.count + d total.count, total.sum + d total.sum](□A ⟕[name] X2)",
        "dA = σ[rows > 0](X3) − X2",
        "d revenue = dA",
    ]


def test_affected_groups_are_read_again() -> None:
    found = written("spread", revenue("stddev"), "orders")
    assert found[0].startswith("groups(A) = G[name](d orders ⋈[customer = customers.id] customers ⋈")
    assert found[1:] == [
        "X1 = (regions ⋉[name] groups(A)) ⋈[region = regions.id] customers",
        "dA = γ[name; stddev(amount) → total](X1 ⋈[customer = customers.id] orders) − A₀ ⋉[name] groups(A)",
        "d spread = dA",
    ]


def test_a_deleted_extreme_is_looked_for() -> None:
    staged = cut(revenue("max"))
    steps = maintenance_steps(staged, frozenset({"orders"}))
    formulas = Formulas("top", staged, steps)
    settle = next(s for s in steps if isinstance(s, Settle))
    formulas.lines(settle)
    text = "\n".join(formulas.lines_if_lost(settle))
    assert "σ[∇total.max was the extreme]" in text
    assert "max(amount) → total" in text


def test_a_table_that_is_read_twice_is_two_relations() -> None:
    other = table("orders", "id#11", "customer#12", "amount#13")
    pairs = Join(ORDERS, other, (equal(ref("customer#2"), ref("customer#12")),))
    assert notation(pairs) == "orders ⋈[orders.customer = orders·2.customer] orders·2"
    assert "scan orders·2 (id, customer, amount)" in tree(pairs)


def everything() -> dict[str, Node]:
    rank = WindowCall(Call(Column("place#9", "int"), "rank"), (Order(ref("total#8")),))
    renamed = Project(revenue(), (Named(Column("region#20", "int"), ref("name#7")),))
    return {
        "join": joined(),
        "sum": revenue(),
        "max": revenue("max"),
        "groups": revenue("stddev"),
        "all": Aggregate(ORDERS, (), (Call(Column("n#8", "bigint"), "count"),)),
        "distinct": Distinct(Filter(CUSTOMERS, (read_text("(`region#5` > 1)", "boolean"),))),
        "left": Join(CUSTOMERS, REGIONS, (equal(ref("region#5"), ref("id#6")),), "left"),
        "anti": Join(CUSTOMERS, REGIONS, (equal(ref("region#5"), ref("id#6")),), "anti"),
        "window": Window(revenue(), (), (rank,)),
        "top": TopK(ORDERS, (Order(ref("amount#3")),), 3),
        "project": renamed,
    }


def all_steps(plan: Node) -> tuple[Staged, tuple[Step, ...]]:
    staged = cut(plan)
    return staged, (*maintenance_steps(staged, frozenset({"orders", "customers", "regions"})), *rebuild_steps(staged))


@pytest.mark.parametrize("name", everything())
def test_formulas_hide_the_machinery_and_fit_the_page(name: str) -> None:
    staged, steps = all_steps(everything()[name])
    formulas = Formulas(name, staged, steps)
    for step in steps:
        lines = formulas.lines(step)
        if isinstance(step, Settle) and step.finish is not None:
            lines += formulas.finish_lines()
        assert lines
        assert not [line for line in lines if "weight" in line or "copies" in line or "#" in line or "@" in line]
        assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("name", everything())
def test_the_sql_for_people_is_sql_without_made_up_names(name: str) -> None:
    for step in all_steps(everything()[name])[1]:
        for query in step.all_queries:
            text = sql_text(query, lambda scan: f"{scan.at.value} {scan.table}")
            sqlglot.parse_one(text, read="spark")
            assert "#" not in text
            assert max(map(len, text.splitlines())) <= WIDTH
