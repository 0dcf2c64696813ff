"""Nested tables and views through the public API: changed by ⊕ and ⊖, maintained from the change, equal to the operators."""

from __future__ import annotations

from typing import Any

import pytest
from comparing import refreshed
from pyspark.sql import SparkSession

import nabla
from nabla.dev import fuzz_nested
from nabla.engine.driver import key_lookup
from nabla.errors import NablaError
from nabla.frontends.nested import model
from nabla.frontends.nested.meaning import NestedSource, evaluate, schema_of
from nabla.frontends.nested.operators import difference, expansion, union
from nabla.frontends.nested.schema import Schema
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

STUD = (
    "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<testName: STRING, Mark: INT>>>>, "
    "Tels ARRAY<STRUCT<Tel: STRING>>"
)
TEACH = "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Lects: ARRAY<STRUCT<Lect: STRING>>>>"
STUD_TEL = "Name STRING, Tels ARRAY<STRUCT<Tel: STRING>>"

JACK = ("Jack", [("Java", 1997, [("exam", 80)]), ("DB", 1998, [("test2", 90), ("test1", 81)])], [("2302",), ("1435",)])
JOHN = ("John", [("DB", 1998, [("test1", 60)])], None)
LECTURES = [("Jack", [("DB", 1998, [("Tom",), ("Ben",)])]), ("John", [("DB", 1998, [("Ben",)])])]
GOOD = {"where": "Year = 1998", "Marks": {"where": "Mark >= 90", "is": "nonempty"}, "is": "nonempty"}

ROUNDS: list[list[tuple[str, str, list[Any]]]] = [
    [
        ("merge", "stud", [{"Name": "Sean", "Subjs": [{"sjName": "DB", "Year": 1998, "Marks": [("exam", 95)]}]}]),
        (
            "merge",
            "stud",
            [{"Name": "John", "Subjs": [("DB", 1998, [("test2", 91)])], "Tels": [("7",)]}, {"Name": None}],
        ),
    ],
    [
        ("remove", "stud", [{"Name": "Jack", "Subjs": [("DB", 1998, [("test2", 90)])]}, {"Name": "nobody"}]),
        ("remove", "stud", [{"Name": "Sean", "Subjs": [("DB", 1998, [("exam", 95)])]}]),
        ("merge", "stud", [{"Name": "Jack"}]),
        ("remove", "teach", [("John", [("DB", 1998, [("Ben",)])])]),
    ],
]


def relation_of(lake: Lake, name: str, schema: Schema) -> model.Relation:
    return model.relation(lake.read(name).toArrow().to_pylist(), schema)


def test_views_are_maintained_from_merges_and_removals(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)  # small tables are looked up like large ones
    stud = lake.create_nested("stud", STUD, data=[JACK, JOHN])
    lake.create_nested("teach", TEACH, data=LECTURES)
    good = stud.select(Subjs=GOOD)
    views = {
        "good": good.join("teach").project("Name", Subjs=["Lects"]),
        "others": stud.difference(good),
        "all_of_them": stud.project().expand(TEACH).union("teach"),
        "common": stud.intersect(stud.select("Name LIKE 'J%'", Tels={"where": "Tel > '2'", "is": "any"})),
    }
    for name, view in views.items():
        lake.create_view(name, view)
    lake.create_view("again", nabla.nested("good").union(nabla.nested("good").select("Name = 'Sean'")))
    schemas = {"stud": Schema.of(STUD), "teach": Schema.of(TEACH)}
    sources = {name: NestedSource(schema) for name, schema in schemas.items()}
    state = {name: relation_of(lake, name, schema) for name, schema in schemas.items()}
    for updates in ROUNDS:
        with lake.transaction() as tx:
            for how, table, rows in updates:
                getattr(tx, how)(table, rows)
                d = model.relation(rows, schemas[table])
                state[table] = (union if how == "merge" else difference)(state[table], d)
        assert all(relation_of(lake, table, schemas[table]) == state[table] for table in schemas)
        report = refreshed(lake, mode="strict")
        assert {report[name].mode for name in views} <= {"incremental", "skip"}
        for name, view in views.items():
            expected = evaluate(view, sources, state)
            assert relation_of(lake, name, schema_of(view, sources)) == expected, (name, updates)


def test_a_view_is_stored_with_its_text_and_its_equations(lake: Lake, spark: SparkSession) -> None:
    stud = lake.create_nested("stud", STUD, data=[JACK])
    lake.create_view("good", stud.select(Subjs=GOOD))
    explained = nabla.open(lake.path, spark=spark).explain("good")
    assert explained.definition == f"nested('stud').select(Subjs={GOOD})"
    assert explained.notes[0].startswith("σ̂[Subjs*: (Year = 1998 ∧ Marks*: (Mark >= 90) ≠ ∅) ≠ ∅] implementation form")
    with pytest.raises(NablaError, match="NABLA_SQL_ANALYSIS"):
        lake.create_view("bad", stud.select("no_such_function(Name)"))


def test_updates_as_rows_and_as_dataframes_are_the_same(lake: Lake, spark: SparkSession) -> None:
    for name in ("as_rows", "as_frame"):
        lake.create_nested(name, STUD, data=[JACK, JOHN])
    frames: list[tuple[str, str, list[Any]]] = [
        ("merge", STUD_TEL, [("Jack", [("9",), ("1435",)]), ("Ann", [])]),
        ("remove", STUD_TEL, [("Jack", [("2302",), ("x",)]), ("Ann", [])]),
        ("merge", STUD, [("Jack", [("DB", 1998, [("new", None)])], []), (None, [("A", None, [])], [])]),
    ]
    schema = Schema.of(STUD)
    expected = relation_of(lake, "as_rows", schema)
    for how, ddl, rows in frames:
        update = spark.createDataFrame(rows, ddl)
        with lake.transaction() as tx:
            getattr(tx, how)("as_rows", update.toArrow())
            getattr(tx, how)("as_frame", update)
            getattr(tx, how)("as_frame", update)  # as it is a set, twice is once
        d = expansion(model.relation(rows, Schema.of(ddl)), schema)
        expected = (union if how == "merge" else difference)(expected, d)
        for name in ("as_rows", "as_frame"):
            assert relation_of(lake, name, schema) == expected, (how, rows, name)
            assert lake.read(name).toArrow().num_rows == len(expected)


def test_what_is_not_in_pnf_is_not_written(lake: Lake, spark: SparkSession) -> None:
    lake.create_nested("stud", STUD, data=[JACK, JOHN])
    lake.create_table("flat", "id INT")
    shape = lake.read("stud").schema
    twice = [("Q", [("DB", 1, [("t", 1), ("t", 1)])], [])]
    wrong: list[tuple[str, str, Any]] = [
        ("insert", "Name='Jack'.*level 1", [("Jack", [], [])]),
        ("insert", "testName='t', Mark=1.*inside of .*Name='Q'.*level 3, Subjs.Marks", twice),
        ("insert", "testName='t', Mark=1.*level 3, Subjs.Marks", spark.createDataFrame(twice, shape)),
        ("insert", "Name='Jack'.*level 1", spark.createDataFrame([JACK], shape)),
        ("merge", "Name='Q'.*level 1", [{"Name": "Q"}, {"Name": "Q"}]),
        ("merge", "Name='Q'.*level 1", spark.createDataFrame([("Q", []), ("Q", [])], STUD_TEL)),
        ("remove", "Mark=1.*level 3", spark.createDataFrame(twice, shape)),
    ]
    for how, what, rows in wrong:
        with pytest.raises(NablaError, match=f"NABLA_PNF.*{what}"), lake.transaction() as tx:
            getattr(tx, how)("stud", rows)
    with pytest.raises(NablaError, match=r"NABLA_PNF.*Name='X'"), lake.transaction() as tx:
        tx.update("stud", set={"Name": "'X'"})
    with pytest.raises(NablaError, match=r"NABLA_PNF.*Tel='1435'"), lake.transaction() as tx:
        tx.update("stud", set={"Tels": "concat(Tels, Tels)"}, where="Name = 'Jack'")
    with pytest.raises(NablaError, match=r"NABLA_PNF.*level 1"):
        lake.create_nested("other", data=spark.createDataFrame([JACK, JACK], shape))
    with pytest.raises(NablaError, match="NABLA_NOT_PRIME"), lake.transaction() as tx:
        tx.merge("stud", spark.createDataFrame([("Q", [(1,)])], "Name STRING, Tels ARRAY<STRUCT<Tel: INT>>"))
    with pytest.raises(NablaError, match=r"NABLA_COLUMNS.*Yaer.*level 2"), lake.transaction() as tx:
        tx.merge("stud", [{"Name": "Q", "Subjs": [{"sjName": "DB", "Yaer": 1}]}])
    with pytest.raises(NablaError, match="NABLA_NOT_NESTED"), lake.transaction() as tx:
        tx.merge("flat", [(1,)])
    with pytest.raises(NablaError, match=r"NABLA_NESTED_SCHEMA.*Subjs"):
        lake.create_nested("odd", "a INT, Subjs ARRAY<STRUCT<P: ARRAY<STRUCT<x: INT>>, y: INT>>")
    assert lake.read("stud").count() == 2


def test_other_changes_of_a_nested_table_keep_it_canonical(lake: Lake, spark: SparkSession) -> None:
    """Rows go in sorted, so that the same relation is the same rows, however it was written."""
    strict = STUD.replace("Tel: STRING", "Tel: STRING NOT NULL")
    lake.create_nested("stud", data=spark.createDataFrame([JACK, JOHN], strict))
    lake.create_view("copy", nabla.nested("stud"))
    with lake.transaction() as tx:
        tx.delete("stud", rows=[JACK])
        tx.insert("stud", [("Jack", JACK[1][::-1], JACK[2][::-1])])
        tx.insert("stud", spark.createDataFrame([("Ann", None, [("b",), ("a",)])], STUD))
        tx.update(
            "stud", set={"Tels": "array(named_struct('Tel', '2'), named_struct('Tel', '1'))"}, where="Name = 'John'"
        )
        tx.merge("stud", [{"Name": "Ann", "Tels": [("0",)]}])
    report = refreshed(lake, mode="strict")
    assert (report["copy"].inserted, report["copy"].deleted) == (2, 1)
    rows = {row["Name"]: row for row in lake.read("stud").toArrow().to_pylist()}
    assert [tel["Tel"] for tel in rows["Ann"]["Tels"]] == ["0", "a", "b"]
    assert rows["Ann"]["Subjs"] == []
    assert [tel["Tel"] for tel in rows["John"]["Tels"]] == ["1", "2"]


def test_flat_forms_and_back(lake: Lake) -> None:
    lake.create_nested("stud", STUD, data=[JACK, JOHN])
    lake.create_view("flat", lake.unnest("stud"))
    lake.create_view("means", "SELECT sjName, AVG(Mark) AS mean FROM flat GROUP BY sjName")
    subjects = ["sjName", "Year", {"Marks": ["testName", "Mark"]}]
    lake.create_view("back", nabla.nest("flat", "Name", Subjs=subjects, Tels=["Tel"]))
    lake.create_table("raw", STUD, data=[JACK, JACK, JOHN])
    lake.create_view("cooked", nabla.nested("raw").select("Name = 'Jack'"))
    with lake.transaction() as tx:
        tx.merge("stud", [{"Name": "Ann", "Subjs": [("Java", 1997, [("exam", 40)])]}])
        tx.remove("stud", [{"Name": "John", "Subjs": [("DB", 1998, [("test1", 60)])]}])
        tx.insert("raw", [("Jack", [("DB", 1998, [("more", 1)])], [("1435",)])])
    refreshed(lake, mode="strict")
    schema = Schema.of(STUD)
    assert relation_of(lake, "back", schema) == relation_of(lake, "stud", schema)
    assert model.nest(lake.unnest("stud").toArrow().to_pylist(), schema) == relation_of(lake, "stud", schema)
    (jack,) = relation_of(lake, "cooked", schema).values()
    assert len(jack["Subjs"]["DB", 1998]["Marks"]) == 3


@pytest.mark.usefixtures("spark")
def test_random_views_on_spark_are_the_operators() -> None:
    fuzz_nested.on_spark(12, seed=3)
