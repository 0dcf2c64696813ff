"""Attribution of a violation to changed rows."""

from __future__ import annotations

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Join, Node, Project, Scan, UnionAll
from nabla.calculus.attribution import Attribution, attributions
from nabla.dev.testing.expressions import read_text


def table(name: str, *columns: str) -> Scan:
    return Scan(name, At.NEW, tuple(Column(f"{name}.{c}#1", "int") for c in columns), columns)


LINES, ORDERS = table("lines", "order_id", "amount"), table("orders", "id", "customer")
ON = (equal(Column("lines.order_id#1", "int").ref, Column("orders.id#1", "int").ref),)


def only(node: Node, *names: str) -> Project:
    return Project(
        node, tuple(Named(node.column(n).rename(f"out{i}#9"), node.column(n).ref) for i, n in enumerate(names))
    )


def test_a_missing_partner_is_found_by_what_it_is_equated_with() -> None:
    found = attributions(Join(LINES, ORDERS, ON, "anti"))
    assert set(found) == {
        Attribution("lines", ("order_id", "amount"), (0, 1)),
        Attribution("orders", ("id",), (0,)),
    }


def test_groups_point_to_their_rows() -> None:
    groups = Aggregate(LINES, ("lines.order_id#1",), (Call(Column("n#1", "bigint"), "count"),))
    assert attributions(groups) == (Attribution("lines", ("order_id",), (0,)),)


def test_computed_columns_point_to_nothing() -> None:
    doubled = Project(LINES, (Named(Column("d#1", "int"), read_text("(`lines.amount#1` * 2)", "int")),))
    assert attributions(doubled) == ()


def test_every_member_of_a_union_is_followed() -> None:
    union = UnionAll((only(LINES, "lines.order_id#1"), only(ORDERS, "orders.id#1")), (Column("k#1", "int"),))
    assert set(attributions(union)) == {Attribution("lines", ("order_id",), (0,)), Attribution("orders", ("id",), (0,))}
