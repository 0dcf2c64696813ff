"""Window functions over one partition."""

from __future__ import annotations

from typing import Any

import pytest

from nabla.algebra.build import number
from nabla.algebra.calls import (
    CURRENT_ROW,
    UNBOUNDED_FOLLOWING,
    UNBOUNDED_PRECEDING,
    Bound,
    Frame,
    Order,
    WindowCall,
)
from nabla.algebra.expressions import Column, Ref
from nabla.algebra.parse import read_call
from nabla.algebra.reference.evaluator import CannotEvaluate, Slot, compile_window, parse_type

LAYOUT = {"k": Slot(0, parse_type("int")), "v": Slot(1, parse_type("int"))}
# In the order of k: NULL, 1, 1, 2, 5. The two rows with k = 1 are peers; the total order puts the smaller v first.
ROWS = [(5, 50), (1, 20), (None, 7), (1, 10), (2, None)]

UP = (Order(Ref("k", "int")),)
DOWN = (Order(Ref("k", "int"), ascending=False, nulls_first=False),)


def over(text: str, order: tuple[Order, ...] = UP, frame: Frame | None = None) -> list[Any]:
    """The values for NULL, 1 (v 10), 1 (v 20), 2, 5."""
    call = WindowCall(read_call(text, Column("w#1", "?"), {}), order, frame)
    values = compile_window(call, LAYOUT)(ROWS)
    return [values[i] for i in (2, 3, 1, 4, 0)]


def before(rows: int) -> Bound:
    return Bound("preceding", number(rows, "int"))


def after(rows: int) -> Bound:
    return Bound("following", number(rows, "int"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("row_number()", [1, 2, 3, 4, 5]),
        ("rank()", [1, 2, 2, 4, 5]),
        ("dense_rank()", [1, 2, 2, 3, 4]),
        ("percent_rank()", [0.0, 0.25, 0.25, 0.75, 1.0]),
        ("cume_dist()", [0.2, 0.6, 0.6, 0.8, 1.0]),
        ("ntile(2)", [1, 1, 1, 2, 2]),
        ("ntile(7)", [1, 2, 3, 4, 5]),
        ("lag(`v`)", [None, 7, 10, 20, None]),
        ("lag(`v`, 2, -1)", [-1, -1, 7, 10, 20]),
        ("lead(`v`, 1)", [10, 20, None, 50, None]),
        ("first_value(`v`)", [7, 7, 7, 7, 7]),
        ("last_value(`v`)", [7, 20, 20, None, 50]),
        ("last_value(`v`) IGNORE NULLS", [7, 20, 20, 20, 50]),
        ("nth_value(`v`, 2)", [None, 10, 10, 10, 10]),
        ("sum(`v`)", [7, 37, 37, 37, 87]),
        ("count(*)", [1, 3, 3, 4, 5]),
        ("count(`v`)", [1, 3, 3, 3, 4]),
        ("count(`v`) FILTER (WHERE `v` > 7)", [0, 2, 2, 2, 3]),
        ("avg(`v`)", [7.0, 37 / 3, 37 / 3, 37 / 3, 21.75]),
        ("min(`v`)", [7, 7, 7, 7, 7]),
        ("max(`v`)", [7, 20, 20, 20, 50]),
        ("collect_list(`v`)", [(7,), (7, 10, 20), (7, 10, 20), (7, 10, 20), (7, 10, 20, 50)]),
    ],
)
def test_in_ascending_order_with_the_default_frame(text: str, expected: list[Any]) -> None:
    assert over(text) == expected


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame("rows", UNBOUNDED_PRECEDING, CURRENT_ROW), [7, 17, 37, 37, 87]),
        (Frame("rows", UNBOUNDED_PRECEDING, UNBOUNDED_FOLLOWING), [87] * 5),
        (Frame("rows", before(1), after(1)), [17, 37, 30, 70, 50]),
        (Frame("rows", before(2), before(1)), [None, 7, 17, 30, 20]),
        (Frame("rows", after(-1), CURRENT_ROW), [7, 17, 30, 20, 50]),
        (Frame("rows", after(1), UNBOUNDED_FOLLOWING), [80, 70, 50, 50, None]),
        (Frame("range", UNBOUNDED_PRECEDING, CURRENT_ROW), [7, 37, 37, 37, 87]),
        (Frame("range", CURRENT_ROW, UNBOUNDED_FOLLOWING), [87, 80, 80, 50, 50]),
        (Frame("range", CURRENT_ROW, CURRENT_ROW), [7, 30, 30, None, 50]),
    ],
    ids=str,
)
def test_a_sum_over_a_frame(frame: Frame, expected: list[Any]) -> None:
    assert over("sum(`v`)", UP, frame) == expected


def test_without_an_order_the_frame_is_the_partition() -> None:
    assert over("sum(`v`)", ()) == [87] * 5
    assert over("rank()", ()) == [1] * 5


def test_descending_with_nulls_last_is_the_reverse() -> None:
    assert over("rank()", DOWN) == [5, 3, 3, 2, 1]
    assert over("lag(`v`)", DOWN) == [20, None, 10, 50, None]


def test_the_total_order_breaks_ties_by_the_row_also_when_descending() -> None:
    assert over("row_number()", DOWN) == [5, 3, 4, 2, 1]


def test_a_range_by_value_is_refused() -> None:
    with pytest.raises(CannotEvaluate, match="RANGE 1 PRECEDING"):
        over("sum(`v`)", UP, Frame("range", before(1), CURRENT_ROW))


def test_an_unknown_window_function_is_refused() -> None:
    with pytest.raises(CannotEvaluate):
        over("session_window(`v`)")
