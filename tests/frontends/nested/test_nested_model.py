"""Nested relations in Python: schemas, PNF, and the flat form."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random

import pytest

from nabla.dev.testing.random_nested import random_relation, random_schema, random_update
from nabla.errors import NablaError
from nabla.frontends.nested.model import Relation, contained, dicts, disjoint, nest, relation, structs, unnest
from nabla.frontends.nested.schema import Schema, same

ORDERS = Schema.of(
    "id BIGINT, lines ARRAY<STRUCT<item STRING, price DECIMAL(10,2), parts ARRAY<STRUCT<n INT>>>>, "
    "tags ARRAY<STRUCT<tag STRING>>"
)


def test_a_schema_has_the_types_that_spark_writes() -> None:
    assert ORDERS.types == {
        "id": "bigint",
        "lines": "array<struct<item:string,price:decimal(10,2),parts:array<struct<n:int>>>>",
        "tags": "array<struct<tag:string>>",
    }


def test_the_order_of_attributes_means_nothing() -> None:
    assert same(
        Schema.of("a INT, b STRING, P ARRAY<STRUCT<x INT>>"), Schema.of("P ARRAY<STRUCT<x INT>>, b STRING, a INT")
    )


def test_an_array_of_anything_but_structs_is_atomic() -> None:
    assert Schema.of("id INT, words ARRAY<STRING>").key == ("id", "words")


@pytest.mark.parametrize(
    ("ddl", "what"),
    [
        ("P ARRAY<STRUCT<x INT>>", "no atomic attribute"),
        ("a INT, P ARRAY<STRUCT<Q ARRAY<STRUCT<x INT>>>>", "no atomic attribute"),
        ("a INT, A ARRAY<STRUCT<x INT>>", 'two attributes of one level are called "a"'),
        ("a INT, m MAP<STRING, INT>", "cannot be part of a key"),
        ("a INT, P ARRAY<STRUCT<`x y` INT>>", 'called "x y"'),
        ("a INT, P ARRAY<", "cannot read the schema"),
    ],
)
def test_what_is_no_schema_of_a_nested_relation_is_refused(ddl: str, what: str) -> None:
    with pytest.raises(NablaError, match=what) as error:
        Schema.of(ddl)
    assert error.value.code == "NABLA_NESTED_SCHEMA"


def test_a_key_that_is_there_twice_is_named_with_its_level() -> None:
    rows = [{"id": 7, "lines": [{"item": "cup", "price": 1, "parts": [(1,), (2,), (1,)]}]}]
    with pytest.raises(NablaError) as error:
        relation(rows, ORDERS, "orders")
    assert error.value.code == "NABLA_PNF"
    assert error.value.message == "two tuples have the key (n=1) inside of (id=7), (item='cup', price=1)"
    assert error.value.place == 'table "orders", level 3, lines.parts'


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"id": 1, "lines": [{"item": "cup"}]}, 'no value for "price"'),
        ({"id": 1, "line": []}, 'an attribute "line"'),
        ((1, []), "2 values"),
        ("x", "'x'"),
    ],
)
def test_rows_of_another_form_are_refused(row: object, what: str) -> None:
    with pytest.raises(NablaError, match=what) as error:
        relation([row], ORDERS)
    assert error.value.code == "NABLA_COLUMNS"


def test_values_have_one_form() -> None:
    schema = Schema.of("x DOUBLE, P ARRAY<STRUCT<y DOUBLE>>")
    one = relation([(float("nan"), [(-0.0,)]), (None, [])], schema)
    assert one == relation([(None, None), (-math.nan, [(0.0,)])], schema)
    with pytest.raises(NablaError, match="NABLA_PNF"):
        relation([(0.0, []), (-0.0, [])], schema)


def test_a_relation_is_written_in_the_order_in_which_spark_sorts() -> None:
    schema = Schema.of("a INT, P ARRAY<STRUCT<x STRING, y INT>>")
    r = relation([(2, [("b", 1), (None, 5), ("a", 2), ("a", None)]), (None, []), (1, [])], schema)
    assert structs(r, schema) == ((None, ()), (1, ()), (2, ((None, 5), ("a", None), ("a", 2), ("b", 1))))
    assert [row["a"] for row in dicts(r, schema)] == [None, 1, 2]
    assert relation(dicts(r, schema), schema) == r


def test_the_flat_form_combines_subrelations_and_pads_empty_ones() -> None:
    r = relation([(1, [("cup", Decimal(2), [(1,), (2,)])], [("x",), ("y",)]), (2, [], [("z",)])], ORDERS)
    flat = unnest(r, ORDERS)
    assert [row["id"] for row in flat] == [1, 1, 1, 1, 2]
    assert flat[0] == {"id": 1, "item": "cup", "price": Decimal(2), "n": 1, "tag": "x"}
    assert flat[4] == {"id": 2, "item": None, "price": None, "n": None, "tag": "z"}
    assert nest(flat, ORDERS) == r


def test_attributes_of_one_name_are_told_apart_by_their_path() -> None:
    schema = Schema.of("name STRING, P ARRAY<STRUCT<name STRING, x INT>>")
    assert schema.flat == ("name", "P_name", "x")


def test_nesting_undoes_unnesting() -> None:
    for seed in range(300):
        rng = Random(seed)
        schema = random_schema(rng)
        r = _without_nulls(random_relation(rng, schema))
        assert nest(unnest(r, schema), schema) == r


def test_containment_and_disjointness_are_those_of_the_flat_forms() -> None:
    """Precise, as the paper calls it; on relations without empty subrelations, which a flat relation cannot show."""
    seen = set()
    for seed in range(600):
        rng = Random(seed)
        schema = random_schema(rng)
        r = _full(random_relation(rng, schema))
        d = _full(random_update(rng, r, schema))
        ours, theirs = ({tuple(row.values()) for row in unnest(part, schema)} for part in (d, r))
        assert contained(d, r) == (ours <= theirs)
        assert disjoint(d, r) == ours.isdisjoint(theirs)
        seen.add((contained(d, r), disjoint(d, r)))
    assert len(seen) == 4


def _full(r: Relation) -> Relation:
    """Only tuples none of whose subrelations is empty."""
    kept = {k: {n: _full(part) for n, part in t.items()} for k, t in r.items()}
    return {k: t for k, t in kept.items() if all(t.values())}


def _without_nulls(r: Relation) -> Relation:
    return {k: {n: _without_nulls(part) for n, part in t.items()} for k, t in r.items() if None not in k}
