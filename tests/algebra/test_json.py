"""Plans as JSON, and as version 0.1 wrote them."""

from __future__ import annotations

import json

import pytest

from nabla.algebra.build import number
from nabla.algebra.calls import CURRENT_ROW, UNBOUNDED_PRECEDING, Bound, Call, Frame, Order, WindowCall
from nabla.algebra.expressions import Column, Literal
from nabla.algebra.json import load_plan, to_data
from nabla.algebra.nodes import At, Node, Scan, Window

K, V, S = Column("k#1", "int"), Column("v#2", "int"), Column("s#3", "bigint")
TABLE = Scan("t", At.NEW, (K, V), ("k", "v"))
DAYS = Literal("INTERVAL '2' DAY", "interval day")


def windowed(frame: Frame | None) -> Node:
    return Window(TABLE, (), (WindowCall(Call(S, "sum", (V.ref,)), (Order(K.ref),), frame),))


FRAMES: list[tuple[Frame | None, str]] = [
    (None, ""),
    (Frame("rows", UNBOUNDED_PRECEDING, CURRENT_ROW), "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    (
        Frame("rows", Bound("preceding", number(1, "int")), Bound("following", number(3, "int"))),
        "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING",
    ),
    (
        Frame("range", Bound("preceding", DAYS), Bound("following")),
        "RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND UNBOUNDED FOLLOWING",
    ),
]


@pytest.mark.parametrize(("frame", "text"), FRAMES, ids=[text for _, text in FRAMES])
def test_a_frame_is_written_stored_and_read(frame: Frame | None, text: str) -> None:
    plan = windowed(frame)
    assert plan.calls[0].over(()).endswith(f"{text})")  # type: ignore[attr-defined]
    assert load_plan(json.loads(json.dumps(to_data(plan)))) == plan


@pytest.mark.parametrize(("frame", "text"), FRAMES, ids=[text for _, text in FRAMES])
def test_frames_and_calls_that_were_stored_as_text_are_read(frame: Frame | None, text: str) -> None:
    plan = windowed(frame)
    data = to_data(plan)
    (call,) = data["calls"]
    stored = {"_": "WindowCall", "order": call["order"], "column": call["call"]["column"]}
    stored["call"] = {"_": "Expr", "sql": "sum(`v#2`)", "type": "bigint"}
    stored |= {"frame": text} if text else {}
    assert load_plan({**data, "calls": [stored]}) == plan
