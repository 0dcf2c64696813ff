"""The names of inner columns and tables: what is made is read back. Stored lakes have them."""

from __future__ import annotations

import pytest

from nabla.algebra import names
from nabla.algebra.json import load_plan
from nabla.algebra.names import ColumnName, Mark, read_name
from nabla.algebra.nodes import Opaque
from nabla.storage.bags import N


@pytest.mark.parametrize(
    ("made", "text", "parts"),
    [
        (names.unique_name("amount", 12), "amount#12", ColumnName("amount", "12")),
        (names.unique_name("a#b.c'", 3), "a#b.c'#3", ColumnName("a#b.c'", "3")),
        (names.own_name("weight"), "weight#", ColumnName("weight")),
        (names.part_name("amount#12", "sum"), "amount#12.sum", ColumnName("amount", "12", "sum")),
        (
            names.mark_name("amount#12.min", Mark.DELETED),
            "amount#12.min~gone",
            ColumnName("amount", "12", "min", "~gone"),
        ),
        (names.mark_name("a#1?", Mark.OLD), "a#1?'", ColumnName("a", "1", marks="?'")),
        (names.stage_column("@0", "rows"), "@0.rows", ColumnName("rows", stage="@0")),
        (names.mark_name("@0.rows", Mark.NOW), "@0.rows=", ColumnName("rows", marks="=", stage="@0")),
    ],
)
def test_a_column_is_read_as_it_was_named(made: str, text: str, parts: ColumnName) -> None:
    assert made == text
    assert read_name(made) == parts
    assert parts.unmarked + parts.marks == text


@pytest.mark.parametrize("mark", Mark)
def test_every_mark_is_read(mark: Mark) -> None:
    found = read_name(names.mark_name("a#1", mark))
    assert found == ColumnName("a", "1", marks=mark.value)
    assert names.is_deleted(names.mark_name("a#1", mark)) == (mark is Mark.DELETED)


def test_other_names_are_not_read() -> None:
    assert [read_name(name) for name in ("amount", "@0.state.x", "")] == [None] * 3
    assert [names.number_of(name) for name in ("amount", "a#12", "a#12'", "weight#")] == [0, 12, 0, 0]
    assert [names.label_of(name) for name in ("amount", "a#b#12.sum", "weight#")] == ["amount", "a#b", "weight"]


def test_tables_of_a_stage() -> None:
    stage = names.stage_table(3)
    assert (stage, names.state_table(stage), names.touched_table(stage)) == ("@3", "@3.state", "@3.touched")
    for table in (stage, names.state_table(stage), names.touched_table(stage)):
        assert names.is_inner(table)
        assert names.stage_of(table) == stage
        assert names.stage_number(table) == 3
    assert [names.is_touched(t) for t in ("@3.state", "@3.touched", "orders")] == [False, True, False]


def test_tables_of_a_query() -> None:
    assert names.inserted_into(names.inserted_table("orders")) == "orders"
    assert names.inserted_into("orders") == "orders"
    assert names.is_touched(names.inserted_table("orders"))
    assert names.held_table(names.held_table("orders", 1), 2) == "@orders~2"
    assert [names.place_of(field) for field in names.stored_fields("abc")] == [0, 1, 2]


def test_storage_and_algebra_call_weights_the_same() -> None:
    assert names.WEIGHT_FIELD == N


def test_a_stored_query_without_algebra_tells_the_place_of_its_operator() -> None:
    """Older lakes have the place behind the name of the operator."""
    stored = {"_": "Opaque", "sql": "SELECT 1", "tables": [], "output": [], "code": "NABLA_X"}
    older = load_plan({**stored, "why": "PIVOT (line 3)"})
    assert older == Opaque("SELECT 1", (), (), "NABLA_X", "PIVOT", "line 3")
    assert load_plan({**stored, "why": "f(x) of (a)"}) == Opaque("SELECT 1", (), (), "NABLA_X", "f(x) of (a)")
