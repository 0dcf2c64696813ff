"""The language of nested views: its text, its plans and its errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import nabla
from nabla.algebra.nodes import Distinct, Scan
from nabla.algebra.reference.interpreter import Bag, Database, evaluate
from nabla.errors import NablaError
from nabla.frontends.nested import model
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.meaning import NestedSource, schema_of
from nabla.frontends.nested.notes import forms
from nabla.frontends.nested.plans import to_plan
from nabla.frontends.nested.schema import Schema
from nabla.frontends.nested.updates import unnest_sql

STUD = Schema.of(
    "Name STRING, Subjs ARRAY<STRUCT<sjName STRING, Year INT, Marks ARRAY<STRUCT<testName STRING, Mark INT>>>>, "
    "Tels ARRAY<STRUCT<Tel STRING>>"
)
TEACH = Schema.of("Name STRING, Subjs ARRAY<STRUCT<Year INT, sjName STRING, Lects ARRAY<STRUCT<Lect STRING>>>>")
TEST = Schema.of("sjName STRING, Year INT, TestNames ARRAY<STRUCT<TestName STRING, Description STRING>>")
SOURCES = {
    "stud": NestedSource(STUD),
    "teach": NestedSource(TEACH),
    "rows": NestedSource(STUD, pnf=False),
    "test": NestedSource(TEST),
}
GOOD = {"where": "Year = 1998", "Marks": {"where": "Mark >= 90", "is": "nonempty"}, "is": "nonempty"}

stud = nabla.nested("stud")


def test_the_package_is_the_function_that_begins_a_view() -> None:
    view = nabla.nested("stud").select(Subjs=GOOD).join("teach").project("Name", Subjs=["Lects"])
    assert isinstance(view, Nested)
    assert str(view) == f"nested('stud').select(Subjs={GOOD}).join('teach').project('Name', Subjs=['Lects'])"
    assert schema_of(view, SOURCES).text == "{Name, Subjs*: {sjName, Year, Lects*: {Lect}}}"


def test_names_are_found_in_any_case() -> None:
    view = nabla.nested("STUD").select("name = 'x'", subjs={"where": "`year` > 1", "marks": {"is": "empty"}})
    assert schema_of(view, SOURCES) == STUD
    assert schema_of(stud.project("tels"), SOURCES).structured == ("Tels",)


@pytest.mark.parametrize(
    ("one", "other"),
    [("name <> 'x'", "NOT (`Name` = 'x')"), ("name IN ('b', 'a')", "NAME IN ('a', 'b')"), ("'x' < name", "name > 'x'")],
)
def test_two_spellings_of_a_condition_are_one_plan(one: str, other: str) -> None:
    assert to_plan(stud.select(one), SOURCES) == to_plan(stud.select(other), SOURCES)


@pytest.mark.parametrize(
    ("view", "code", "what"),
    [
        (lambda: nabla.nested("nobody"), "NABLA_UNKNOWN_TABLE", "nobody"),
        (lambda: stud.select("Mark > 3"), "NABLA_NESTED_ATTRIBUTE", "level 1.*There are: Name"),
        (lambda: stud.select(Subjs={"where": "Mark > 3"}), "NABLA_NESTED_ATTRIBUTE", "level 2, Subjs.*sjName, Year"),
        (lambda: stud.select(Marks={"is": "empty"}), "NABLA_NESTED_ATTRIBUTE", "structured attribute.*Subjs, Tels"),
        (lambda: stud.select(Subjs={"is": "full"}), "NABLA_NESTED_CONDITION", "'full'.*level 2"),
        (lambda: stud.select(Subjs="Year = 1"), "NABLA_NESTED_CONDITION", "Write Subjs="),
        (lambda: stud.select("Name = "), "NABLA_NESTED_CONDITION", "Spark SQL"),
        (lambda: stud.select("Name = 1; DROP"), "NABLA_NESTED_CONDITION", "Spark SQL"),
        (lambda: stud.select("Name = 1 -- all"), "NABLA_NESTED_CONDITION", "Spark SQL"),
        (lambda: stud.select("rand() > 0.5"), "NABLA_NESTED_CONDITION", "another value each time"),
        (lambda: stud.select("Name > current_date()"), "NABLA_NESTED_CONDITION", "another value each time"),
        (lambda: stud.select("max(Name) = 'x'"), "NABLA_NESTED_CONDITION", "an aggregate function"),
        (lambda: stud.select("Name IN (SELECT 1)"), "NABLA_NESTED_CONDITION", "a subquery"),
        (lambda: stud.project("Year"), "NABLA_NESTED_ATTRIBUTE", "Name, Subjs, Tels"),
        (lambda: stud.project(Name=["x"]), "NABLA_NESTED_ATTRIBUTE", "atomic"),
        (lambda: stud.project(Subjs=["Lects"]), "NABLA_NESTED_ATTRIBUTE", "level 2, Subjs"),
        (lambda: stud.union("teach"), "NABLA_NESTED_OPERANDS", "union"),
        (lambda: stud.join(nabla.nest("teach", "Subjs")), "NABLA_NESTED_ATTRIBUTE", "column"),
        (lambda: stud.join(stud.expand("Name INT")), "NABLA_NOT_PRIME", "expand"),
        (lambda: stud.join(nabla.nested("other")), "NABLA_NOT_JOINABLE", "Name int"),
        (lambda: stud.join("test"), "NABLA_NOT_JOINABLE", "cannot be joined.*level 1.*must be the same"),
        (lambda: stud.join("test", at="Tels"), "NABLA_NOT_JOINABLE", "level 2, Tels"),
        (lambda: stud.join("test", at="Subjects"), "NABLA_NESTED_ATTRIBUTE", "level 1.*There are: Subjs, Tels"),
        (lambda: stud.join("test", at="Name"), "NABLA_NESTED_ATTRIBUTE", 'structured attribute "Name"'),
        (lambda: stud.join("test", at="Subjs.Tests"), "NABLA_NESTED_ATTRIBUTE", "level 2, Subjs.*There are: Marks"),
        (lambda: stud.join("test", at="Tels.Tel"), "NABLA_NESTED_ATTRIBUTE", "There are none at this level"),
        (lambda: stud.union("test", at="Subjs"), "NABLA_NESTED_OPERANDS", "union at level 2, Subjs"),
        (lambda: stud.project("Tels", at="Subjs"), "NABLA_NESTED_ATTRIBUTE", "level 2, Subjs"),
        (lambda: stud.expand("Tel INT", at="Tels"), "NABLA_NOT_PRIME", "expand at level 2, Tels"),
        (lambda: stud.select("Tel > 1", at="Subjs"), "NABLA_NESTED_ATTRIBUTE", "level 2, Subjs"),
        (lambda: stud.join("clashing", at="Subjs"), "NABLA_NESTED_SCHEMA", 'two attributes .* are called "marks"'),
        (lambda: stud.join("test", at=3), "NABLA_ARGUMENT", "the path of a level"),  # type: ignore[arg-type]
        (lambda: stud.join("test", at="Subjs."), "NABLA_ARGUMENT", "the path of a level"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(view: Callable[[], Nested], code: str, what: str) -> None:
    clashing = Schema.of("sjName STRING, Year INT, marks ARRAY<STRUCT<x INT>>")
    more = {"other": NestedSource(Schema.of("Name INT")), "clashing": NestedSource(clashing)}
    sources = {**SOURCES, **more}
    with pytest.raises(NablaError, match=what) as error:
        to_plan(view(), sources)
    assert error.value.code == code


def test_only_tables_and_expressions_can_be_operands() -> None:
    with pytest.raises(NablaError, match="NABLA_NOT_NESTED"):
        stud.join(3)  # type: ignore[arg-type]


def test_a_nested_table_is_read_as_it_is() -> None:
    assert isinstance(to_plan(stud, SOURCES), Scan)


def database(rows: dict[str, Bag]) -> Database:
    return Database({name: SOURCES[name].schema.names for name in rows}, rows, rows)


def test_any_other_table_is_read_as_the_union_of_its_rows() -> None:
    """NULLs, keys that are there twice at any level, unsorted arrays: the result is in PNF."""
    db = model.structs(model.relation([("DB", 1, [("t", 1)])], STUD["Subjs"]), STUD["Subjs"])
    more = model.structs(model.relation([("DB", 1, [("s", 2)]), ("A", 1, [])], STUD["Subjs"]), STUD["Subjs"])
    tel = model.structs(model.relation([("9",)], STUD["Tels"]), STUD["Tels"])
    rows: Bag = Counter({("Jack", db, None): 2, ("Jack", (*more[::-1], *db, None), tel): 1, (None, (), ()): 1})
    found = evaluate(to_plan(nabla.nested("rows"), SOURCES), database({"rows": rows}))
    expected = model.relation(
        [("Jack", [("A", 1, []), ("DB", 1, [("s", 2), ("t", 1)])], [("9",)]), (None, [], [])], STUD
    )
    assert found == Counter(map(tuple, model.structs(expected, STUD)))
    flat = {"flat": NestedSource(Schema.of("a INT"), pnf=False)}
    assert isinstance(to_plan(nabla.nested("flat"), flat), Distinct)


def test_operands_may_have_their_attributes_in_another_order() -> None:
    """TEACH has Year before sjName: joined by name, in the order of the left operand."""
    r = model.relation([("Jack", [("DB", 1998, [("t", 90)])], [])], STUD)
    t = model.relation([("Jack", [(1998, "DB", [("Ben",)])])], TEACH)
    rows = {"stud": Counter(map(tuple, model.structs(r, STUD))), "teach": Counter(map(tuple, model.structs(t, TEACH)))}
    plan = to_plan(stud.join("teach").project(Subjs=["Lects"]), SOURCES)
    assert evaluate(plan, database(rows)) == Counter({("Jack", (("DB", 1998, (("Ben",),)),)): 1})
    swapped = {"stud": NestedSource(STUD), "teach": NestedSource(Schema(STUD.atoms, STUD.parts[::-1]))}
    plan = to_plan(stud.union("teach"), swapped)
    assert [column.label for column in plan.columns] == ["Name", "Subjs", "Tels"]


def test_a_name_inside_a_text_is_no_attribute() -> None:
    plan = to_plan(stud.select("lower(Name) LIKE 'j%' AND Name <> '`Name`'"), SOURCES)
    (conjunct,) = plan.conjuncts  # type: ignore[attr-defined]
    assert conjunct.sql == "((lower(`Name#1`) LIKE 'j%') AND (`Name#1` <> '`Name`'))"


def test_a_condition_with_a_function_that_the_tree_does_not_know_keeps_its_text() -> None:
    plan = to_plan(stud.select("soundex(Name) <> '`Name`' OR Name = 'x'"), SOURCES)
    (conjunct,) = plan.conjuncts  # type: ignore[attr-defined]
    assert conjunct.sql == "(soundex(`Name#1`) <> '`Name`' OR `Name#1` = 'x')"


def test_explain_names_the_form_of_every_operator() -> None:
    lines = forms(stud.select(Subjs=GOOD).join("teach").project("Name", Subjs=["Lects"]), SOURCES)
    assert [line.split("[")[0] for line in lines] == ["σ̂", "⋈", "π̂"]
    assert lines[0] == (
        "σ̂[Subjs*: (Year = 1998 ∧ Marks*: (Mark >= 90) ≠ ∅) ≠ ∅] implementation form: σ̂(r±δ) = [σ̂(r)]∉K ⊕ σ̂([r]∈K ± δ); "
        "if δ has only new keys, the limited standard form is used: rows are added, and none is looked for (lemma 4.4)"
    )
    assert "; for ⊕ it equals the standard form; " in lines[1]
    assert "a ⊖ needs no source" in lines[2]


def test_explain_names_the_level_and_what_a_change_of_the_other_operand_touches() -> None:
    (line,) = forms(stud.join("test", at="subjs"), SOURCES)
    assert line.startswith("⋈@Subjs[{Name, Subjs*: {sjName, Year, Marks*: {testName, Mark}, TestNames*: ")
    assert "r ⋈@Subjs (s±δ) = [r ⋈@Subjs s]∉K ⊕ ([r]∈K ⋈@Subjs (s±δ)) with K the keys of r that meet δ at Subjs" in line
    assert "; for ⊕ it equals the standard form" in line


def test_operators_work_below_the_top_level() -> None:
    view = stud.select("Mark >= 90", at="Subjs.Marks").join("test", at="Subjs").project("TestNames", at=("Subjs",))
    assert str(view) == (
        "nested('stud').select(Subjs={'Marks': {'where': 'Mark >= 90'}}).join('test', at='Subjs')"
        ".project('TestNames', at='Subjs')"
    )
    assert schema_of(view, SOURCES).text == (
        "{Name, Subjs*: {sjName, Year, TestNames*: {TestName, Description}}, Tels*: {Tel}}"
    )
    assert str(eval(str(view), {"nested": nabla.nested})) == str(view)


def test_the_flat_form_as_a_query() -> None:
    assert unnest_sql("stud", STUD).splitlines() == [
        "SELECT `stud`.`Name` AS `Name`, part_1.`sjName` AS `sjName`, part_1.`Year` AS `Year`, "
        "part_2.`testName` AS `testName`, part_2.`Mark` AS `Mark`, part_3.`Tel` AS `Tel`",
        "FROM `stud`",
        "LATERAL VIEW OUTER explode(`stud`.`Subjs`) AS part_1",
        "LATERAL VIEW OUTER explode(part_1.`Marks`) AS part_2",
        "LATERAL VIEW OUTER explode(`stud`.`Tels`) AS part_3",
    ]
