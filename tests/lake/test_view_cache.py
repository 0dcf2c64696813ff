"""Loaded views are kept, but not all of them for ever."""

from __future__ import annotations

from typing import Any

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Scan
from nabla.lake.objects.view import View, ViewCache, load_view


def definition(table: str) -> dict[str, Any]:
    plan = Scan(table, At.NEW, (Column("a#0", "int"),), ("a",))
    return View.of("v", plan, ("a",), None, ()).to_json()


def test_a_definition_is_loaded_once() -> None:
    stored = definition("t")
    assert load_view("v", stored) is load_view("v", stored)


def test_one_definition_under_two_names_is_two_views() -> None:
    stored = definition("t")
    assert [load_view(name, stored).name for name in ("v", "w", "v")] == ["v", "w", "v"]


def test_another_definition_is_another_view_even_at_the_address_of_one_that_is_gone() -> None:
    cache = ViewCache(2)
    for number in range(200):
        assert cache.load("v", definition(f"t{number}")).sources == (f"t{number}",)


def test_the_views_that_were_asked_for_last_stay() -> None:
    cache = ViewCache(2)
    a, b, c = (definition(table) for table in "abc")
    first, second = cache.load("v", a), cache.load("v", b)
    assert cache.load("v", a) is first
    cache.load("v", c)
    assert len(cache) == 2
    assert cache.load("v", a) is first
    assert cache.load("v", b) is not second
