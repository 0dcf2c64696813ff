"""The format of a lake is the oldest that has all that is in it, so that an older Nabla opens whatever it understands."""

from __future__ import annotations

from typing import Any

import pytest

from nabla.errors import NablaError
from nabla.storage.catalog import (
    AHEAD,
    ENVIRONMENT,
    FORMAT,
    GONE,
    MARKS_ROWS,
    Entry,
    Part,
    format_of,
    from_table,
    to_table,
)


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
        ({"dev/": Entry("", ENVIRONMENT, {}, {})}, 6),
    ],
)
def test_a_lake_has_the_oldest_format_that_will_do(entries: dict[str, Entry], number: int) -> None:
    assert format_of(entries) == number <= FORMAT


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dev", ENVIRONMENT),
        ("v", GONE),
        ("dev/", "view"),
        ("a/b/c", "view"),
        ("/v", "view"),
        ("dev/../v", "view"),
        ("dev/v w", GONE),
    ],
)
def test_a_catalog_with_a_name_that_nabla_does_not_write_is_refused(name: str, kind: str) -> None:
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        from_table(to_table({name: Entry(name, kind, {}, {})}), "lake")


def test_an_entry_without_its_change_computed_ahead_is_the_entry_of_before() -> None:
    plain = Entry("v", "view", {}, {"data": Part("tables/v", 3)}, {"rows": 2})
    parts = {AHEAD: Part("tables/a", 0), f"{AHEAD}.@0": Part("tables/b", 0)}
    ahead = Entry("v", "view", {}, {**plain.parts, **parts}, {**plain.facts, AHEAD: {"sources": {}}})
    assert ahead.without_ahead == plain
    assert plain.without_ahead is plain
