"""The format of a lake is the oldest that has all that is in it, so that an older Nabla opens whatever it understands."""

from __future__ import annotations

from typing import Any

import pytest

from nabla.storage.catalog import AHEAD, FORMAT, MARKS_ROWS, Entry, Part, format_of


def view(**definition: Any) -> dict[str, Entry]:
    return {"v": Entry("v", "view", definition, {"data": Part("tables/v", 0)})}


@pytest.mark.parametrize(
    ("entries", "number"),
    [
        ({}, 1),
        (view(), 1),
        (view(maintain="1 hour"), 1),
        (view(maintain="1000 rows"), 1),  # an older Nabla takes it for deferred
        (view(**{MARKS_ROWS: True}), 2),
        (view(maintain={"orders": "immediate"}), 3),
        (view(**{AHEAD: True}), 3),
    ],
)
def test_a_lake_has_the_oldest_format_that_will_do(entries: dict[str, Entry], number: int) -> None:
    assert format_of(entries) == number <= FORMAT


def test_an_entry_without_its_change_computed_ahead_is_the_entry_of_before() -> None:
    plain = Entry("v", "view", {}, {"data": Part("tables/v", 3)}, {"rows": 2})
    parts = {AHEAD: Part("tables/a", 0), f"{AHEAD}.@0": Part("tables/b", 0)}
    ahead = Entry("v", "view", {}, {**plain.parts, **parts}, {**plain.facts, AHEAD: {"sources": {}}})
    assert ahead.without_ahead == plain
    assert plain.without_ahead is plain
