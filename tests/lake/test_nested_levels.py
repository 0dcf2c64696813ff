"""Joins below the top level of nested views, through the public API: changes of either operand, maintained and explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparing import refreshed

import nabla
from nabla.errors import NablaError
from nabla.frontends.nested import model
from nabla.frontends.nested.meaning import NestedSource, evaluate, schema_of
from nabla.frontends.nested.operators import difference, union
from nabla.frontends.nested.schema import Schema
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

STUD = (
    "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<TestName: STRING, Mark: INT>>>>, "
    "Tels ARRAY<STRUCT<Tel: STRING>>"
)
TEST = "sjName STRING, Year INT, TestNames ARRAY<STRUCT<TestName: STRING, Description: STRING>>"
ROWS = {
    "stud": [
        ("Jack", [("DB", 1998, [("test1", 81)]), ("Java", 1997, [("exam", 80)])], [("2302",)]),
        ("John", [("DB", 1998, [("test1", 60)])], []),
    ],
    "test": [("DB", 1998, [("test1", "joins")]), ("AI", 1999, [("exam", "all")])],
}
stud = nabla.nested("stud")
VIEWS = {
    "tests": stud.join(nabla.nested("test").select("Year > 1996"), at="Subjs").project("TestNames", at="Subjs"),
    "known": stud.join("test", at="Subjs", on={"Marks": "TestNames"}).select(Subjs={"is": "nonempty"}),
    "phones": stud.project("Tels"),
}
ROUNDS = [
    [("merge", "stud", [{"Name": "Sean", "Subjs": [("AI", 1999, [("exam", 95)])]}])],
    [("merge", "test", [("Java", 1997, [("exam", "loops")]), ("DB", 1998, [("test2", "sets")])])],
    [
        ("remove", "test", [("DB", 1998, [("test1", "joins"), ("test2", "sets")])]),
        ("merge", "stud", [{"Name": "John", "Subjs": [("AI", 1999, [("exam", 1)])], "Tels": [("7",)]}]),
        ("remove", "stud", [{"Name": "Jack", "Tels": [("2302",)]}]),
    ],
]


def test_views_follow_changes_of_either_operand(lake: Lake) -> None:
    schemas = {"stud": Schema.of(STUD), "test": Schema.of(TEST)}
    for name, rows in ROWS.items():
        lake.create_nested(name, {"stud": STUD, "test": TEST}[name], data=rows)
    sources = {name: NestedSource(schema) for name, schema in schemas.items()}
    state = {name: model.relation(rows, schemas[name]) for name, rows in ROWS.items()}
    for name, view in VIEWS.items():
        lake.create_view(name, view, detached=name == "phones")
    assert lake.self_maintenance("phones")[0].maintainable  # section 4.6: ⊖ of a projection needs no source
    for number, updates in enumerate(ROUNDS):
        with lake.transaction() as tx:
            for how, table, rows in updates:
                getattr(tx, how)(table, rows)
                change = union if how == "merge" else difference
                state[table] = change(state[table], model.relation(rows, schemas[table]))
        text = str(lake.explain("tests"))
        assert ("limited standard form: none of them was there" in text) == (number == 0), text
        report = refreshed(lake, mode="strict")
        assert {report[name].mode for name in VIEWS} <= {"incremental", "skip"}
        for name, view in VIEWS.items():
            found = model.relation(lake.read(name).toArrow().to_pylist(), schema_of(view, sources))
            assert found == evaluate(view, sources, state), (name, updates)


def test_a_level_that_is_not_there_is_refused_with_its_place(lake: Lake) -> None:
    lake.create_nested("stud", STUD, data=ROWS["stud"])
    lake.create_nested("test", TEST, data=ROWS["test"])
    with pytest.raises(NablaError, match=r"NABLA_NESTED_ATTRIBUTE.*level 1.*Subjs, Tels"):
        lake.create_view("wrong", stud.join("test", at="Subjects"))
    with pytest.raises(NablaError, match=r"NABLA_NOT_JOINABLE.*no atomic attribute in common"):
        lake.create_view(
            "wrong", stud.join(nabla.nest("test", "Year", "sjName", X=["Year"]), at="Subjs", on={"Marks": "X"})
        )


def test_a_difference_of_a_projection_reads_the_change_and_no_row_of_its_source(lake: Lake) -> None:
    """Section 4.6 keeps counts for this. Here the change of a table has its old and new rows whole: what is hidden is in it."""
    lake.create_nested("stud", STUD, data=ROWS["stud"])
    lake.create_view("phones", stud.project("Tels"))
    lake.create_view("marks", stud.project("Subjs", Subjs=["Marks"]))
    with lake.transaction() as tx:
        tx.remove("stud", [{"Name": "Jack", "Tels": [("2302",)]}])  # Jack stays: his subjects are hidden
        tx.remove("stud", [{"Name": "John", "Subjs": [("DB", 1998, [("test1", 60)])]}])  # nothing of John is left
    state = lake.context.log.state()
    stored = lake.context.log.snapshot(state.entries["stud"].parts["data"])
    files = [Path(stored.folder, file.path) for file in stored.files]
    for file in files:
        file.rename(f"{file}-away")
    report = lake.refresh(mode="strict")
    assert {view.mode for view in report.values()} == {"incremental"}
    assert [tuple(row) for row in lake.read("phones").collect()] == [("Jack", [])]
    for file in files:
        Path(f"{file}-away").rename(file)
    lake.verify()
