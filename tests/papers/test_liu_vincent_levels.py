"""Liu, Vincent, sections 4.6 and 6.3.2: counts beside a projection, and joins below the top level."""

from __future__ import annotations

from typing import Any

import nabla
from nabla.dev.bench.table24 import Q_JN, Q_S, TABLE_24
from nabla.frontends.nested import counts, equations
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.level_equations import at_level, right_implementation, right_standard
from nabla.frontends.nested.levels import apply_at, meeting
from nabla.frontends.nested.meaning import NestedSource, evaluate
from nabla.frontends.nested.model import Relation, relation
from nabla.frontends.nested.operators import difference, projection, union
from nabla.frontends.nested.schema import Schema

SCHEMAS = {name: Schema.of(design.schema) for name, design in TABLE_24.relations.items()}
SOURCES = {name: NestedSource(schema) for name, schema in SCHEMAS.items()}
ABC = Schema.of("A STRING, B ARRAY<STRUCT<B STRING>>, C ARRAY<STRUCT<C STRING>>")
AB = Schema.of("A STRING, B ARRAY<STRUCT<B STRING>>")

# Table 1 under the schema of table 24; the tests of a subject and year stand once, for all students.
JACK = ("Jack", [("DB", 1998, [("test1", 81), ("test2", 90)]), ("Java", 1997, [("exam", 80), ("ass1", 60)])], [])
JOHN = ("John", [("DB", 1998, [("test1", 60), ("test2", 80)])], [])
STUD = relation([JACK, JOHN], SCHEMAS["stud"])
DB, JAVA = ("DB", 1998), ("Java", 1997)
TEST = relation([(*DB, [("test2", "joins")]), (*JAVA, [("quiz", "loops")])], SCHEMAS["test"])


def view_of(expression: Nested, stud: Relation = STUD, test: Relation = TEST) -> Relation:
    return evaluate(expression, SOURCES, {"stud": stud, "test": test})


def test_a_join_on_the_second_level_is_with_one_relation_for_all_students() -> None:
    joined = view_of(nabla.nested("stud").join("test", at="Subjs"))
    assert joined == at_level("⋈", STUD, TEST, ("Subjs",))
    assert set(joined["Jack",]["Subjs"]) == {DB, JAVA}
    assert all(set(joined[name,]["Subjs"][DB]["TestNames"]) == {("test2", "joins")} for name in ("Jack", "John"))


def test_q_jn_joins_on_the_second_and_the_third_level() -> None:
    """Of Jack's subjects DB has a test that `test` knows, and Java has none."""
    joined = view_of(Q_JN)
    assert {key: set(t["Subjs"]) for key, t in joined.items()} == {("Jack",): {DB}, ("John",): {DB}}
    assert view_of(Q_JN, test=difference(TEST, relation([(*DB, [("test2", "joins")])], SCHEMAS["test"]))) == {}


def sql_of(stud: Relation, test: Relation) -> set[Any]:
    """Q_jn as the paper prints it: the names of the students that it selects."""
    return {
        name
        for (name,), s in stud.items()
        if any(
            j == t and any(a == b for a, _ in marks["Marks"] for b, _ in names["TestNames"])
            for j, marks in s["Subjs"].items()
            for t, names in test.items()
        )
    }


def test_q_s_and_q_jn_select_the_students_that_their_sql_selects() -> None:
    assert {name for (name,) in view_of(Q_S)} == {"Jack"}
    more = union(TEST, relation([(*JAVA, [("exam", "all")])], SCHEMAS["test"]))
    for test in (TEST, more, {}):
        assert {name for (name,) in view_of(Q_JN, test=test)} == sql_of(STUD, test)


def test_a_change_of_the_right_operand_touches_the_students_that_meet_it() -> None:
    d, path = relation([(*JAVA, [("exam", "all")])], SCHEMAS["test"]), ("Subjs",)
    assert meeting(STUD, path, d) == [("Jack",)]
    view = at_level("⋈", STUD, TEST, path)
    expected = at_level("⋈", STUD, union(TEST, d), path)
    assert right_implementation("⋈", "⊕", view, STUD, TEST, d, path) == expected
    assert right_standard("⋈", view, STUD, d, path) == expected


def test_a_deletion_from_the_right_operand_has_no_standard_form() -> None:
    """(r ⋈@L s) ⊖ (r ⋈@L δ) takes away all that r itself has, too."""
    d, path = relation([(*DB, [("test2", "joins")])], SCHEMAS["test"]), ("Subjs",)
    view = at_level("⋈", STUD, TEST, path)
    expected = at_level("⋈", STUD, difference(TEST, d), path)
    assert difference(view, at_level("⋈", STUD, d, path)) != expected
    assert right_implementation("⋈", "⊖", view, STUD, TEST, d, path) == expected
    assert set(expected["John",]["Subjs"]) == set()


def test_lemma_4_7_holds_at_a_level_for_new_keys() -> None:
    d = relation([("Sean", [("DB", 1998, [("test2", 95)])], [])], SCHEMAS["stud"])

    def op(r: Relation) -> Relation:
        return at_level("⋈", r, TEST, ("Subjs",))

    assert equations.join_allows(STUD, d)
    for sign, update in equations.UPDATES.items():
        assert equations.standard(op, sign, op(STUD), d) == op(update(STUD, d))


def test_an_operator_at_a_level_keeps_tuples_that_have_nothing_left_there() -> None:
    none = apply_at(STUD, ("Subjs",), lambda u: {})
    assert {key: t["Subjs"] for key, t in none.items()} == {("Jack",): {}, ("John",): {}}
    good = view_of(nabla.nested("stud").select("Mark > 85", at="Subjs.Marks"))
    assert good["John",]["Subjs"] == {DB: {"Marks": {}}}


def sets(schema: Schema, *rows: tuple[str, ...]) -> Relation:
    return relation([(key, *([(item,) for item in part.split()] for part in parts)) for key, *parts in rows], schema)


def test_example_4_1_with_counts_needs_no_relation() -> None:
    """Table 14: π̂(r) ⊖ π̂(δ) loses a1, of which c1 is left. Its count beside the projection is 2, and δ takes one."""
    r = sets(ABC, ("a1", "b1", "c1"), ("a2", "b1 b2", "c1 c2"), ("a3", "b2 b3", "c1 c3"))
    d = sets(ABC, ("a1", "b1", "c2"), ("a2", "b1 b2", "c1 c2"), ("a3", "b3", "c3"))
    beside = counts.counted(r, AB)
    assert {key: number for (key,), (number, _) in beside.items()} == {"a1": 2, "a2": 4, "a3": 4}
    taken = counts.effective(r, d)
    assert taken == sets(ABC, ("a1", "b1", ""), ("a2", "b1 b2", "c1 c2"), ("a3", "b3", "c3"))
    after = counts.subtract(beside, taken)
    assert counts.shown(after) == projection(difference(r, d), AB) == sets(AB, ("a1", ""), ("a3", "b2"))
    assert {key: number for (key,), (number, _) in after.items()} == {"a1": 1, "a3": 2}


def test_a_tuple_that_gets_its_first_part_is_counted_once() -> None:
    r, d = sets(ABC, ("a1", "", "")), sets(ABC, ("a1", "", "c1 c2"))
    gone, come = counts.leaf_change(r, union(r, d))
    assert (gone, come) == (r, d)
    after = counts.subtract(counts.add(counts.counted(r, AB), come, AB), gone)
    assert after == {("a1",): (2, {"B": {}})}
