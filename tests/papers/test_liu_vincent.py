"""Liu, Vincent: Derivation of Incremental Equations for PNF Nested Relations. Definitions, examples and errata.

Where the paper's instances contradict each other, the one used here is said to be ours.
"""

from __future__ import annotations

from typing import Any

import pytest

from nabla.errors import NablaError
from nabla.frontends.nested import equations
from nabla.frontends.nested.conditions import Condition, condition
from nabla.frontends.nested.model import Relation, attribute_disjoint, contained, disjoint, inside, outside, relation
from nabla.frontends.nested.operators import difference, expansion, intersection, join, projection, selection, union
from nabla.frontends.nested.schema import Schema, is_prime, join_schemas

STUD = Schema.of(
    "Name STRING, Subjs ARRAY<STRUCT<sjName STRING, Year INT, Marks ARRAY<STRUCT<testName STRING, Mark INT>>>>, "
    "Tels ARRAY<STRUCT<Tel STRING>>"
)
STUD_TEL = Schema.of("Name STRING, Tels ARRAY<STRUCT<Tel STRING>>")
ADDR = Schema.of("Name STRING, Addr ARRAY<STRUCT<Addr STRING>>")
AB = Schema.of("A STRING, B ARRAY<STRUCT<B STRING>>")
ABC = Schema.of("A STRING, B ARRAY<STRUCT<B STRING>>, C ARRAY<STRUCT<C STRING>>")
ACD = Schema.of("A STRING, C ARRAY<STRUCT<C STRING>>, D ARRAY<STRUCT<D STRING>>")
ABCD = Schema.of("A STRING, B ARRAY<STRUCT<B STRING>>, C ARRAY<STRUCT<C STRING>>, D ARRAY<STRUCT<D STRING>>")

RowSet = list[Any]


def stud(*rows: Any) -> Relation:
    return relation(rows, STUD)


def tels(*numbers: str) -> RowSet:
    return [(number,) for number in numbers]


def sets(schema: Schema, *rows: tuple[str, ...]) -> Relation:
    """Rows as the paper's small tables write them: ("a1", "b1 b2", "") is ⟨a1, {b1, b2}, ∅⟩."""
    return relation([(key, *([(item,) for item in part.split()] for part in parts)) for key, *parts in rows], schema)


# Table 1. John's year is 1998 here and 1999 later in the paper; ours is 1998 throughout. The paper's text counts two
# tuples for Jack, which PNF forbids; ours is the one that the table prints.
JACK_DB = ("DB", 1998, [("test1", 81), ("test2", 90)])
JACK_JAVA = ("Java", 1997, [("exam", 80), ("ass1", 60)])
JACK = ("Jack", [JACK_DB, JACK_JAVA], tels("04143", "1435", "2302"))
JOHN = ("John", [("DB", 1998, [("test1", 60), ("test2", 80)])], tels("2354"))
PSTUD = stud(JACK, JOHN)
# Table 4.
D_PSTUD = stud(
    ("Jack", [("Java", 1997, [("ass1", 60), ("ass2", 70)])], tels("54111")),
    ("Andrew", [("DB", 1999, [("test1", 60)])], []),
)


class TestSection2:
    def test_example_2_1_the_schema_of_students(self) -> None:
        assert STUD.key == ("Name",)
        assert STUD.structured == ("Subjs", "Tels")
        assert STUD.height == 3
        assert {name for _, name, _ in STUD.all_atoms} == {"Name", "sjName", "Year", "Tel", "testName", "Mark"}
        assert STUD.text == "{Name, Subjs*: {sjName, Year, Marks*: {testName, Mark}}, Tels*: {Tel}}"

    def test_definition_2_1_prime_subschema(self) -> None:
        """Example 2.2. The subschema sjTest of example 2.1 is none: it lacks Year, and it starts at another level."""
        assert is_prime(STUD_TEL, STUD)
        assert is_prime(STUD, STUD)
        assert is_prime(Schema.of("Name STRING"), STUD)
        assert not is_prime(STUD, STUD_TEL)
        assert not is_prime(Schema.of("Name STRING, Subjs ARRAY<STRUCT<sjName STRING>>"), STUD)
        assert not is_prime(Schema.of("sjName STRING, Tels ARRAY<STRUCT<Tel STRING>>"), STUD)

    def test_example_2_3_two_tuples_for_jack_are_not_in_pnf(self) -> None:
        with pytest.raises(NablaError, match=r"NABLA_PNF.*Name='Jack'.*level 1"):
            stud(("Jack", [JACK_DB], tels("04143", "1435")), ("Jack", [JACK_JAVA], tels("2302")), JOHN)

    def test_example_2_4_expansion(self) -> None:
        s = relation([("Tony", tels("51234", "51535"))], STUD_TEL)
        assert expansion(s, STUD) == stud(("Tony", [], tels("51234", "51535")))

    def test_example_2_5_projection(self) -> None:
        """Table 2."""
        expected = relation([("Jack", tels("04143", "1435", "2302")), ("John", tels("2354"))], STUD_TEL)
        assert projection(PSTUD, STUD_TEL) == expected

    def test_examples_2_6_and_2_7_selection(self) -> None:
        """Table 3, with all of Jack's telephone numbers."""
        marks = {"where": "Mark >= 90", "is": "nonempty"}
        c = condition({"where": "Name = 'Jack'", "Subjs": {"Marks": marks, "is": "nonempty"}}, STUD)
        assert c.text == "Name = 'Jack' ∧ Subjs*: (Marks*: (Mark >= 90) ≠ ∅) ≠ ∅"
        assert selection(PSTUD, c, STUD) == stud(
            ("Jack", [("DB", 1998, [("test2", 90)])], tels("04143", "1435", "2302"))
        )

    def test_definition_2_6_a_selection_may_ask_for_nothing_of_a_subrelation(self) -> None:
        c = condition({"Subjs": {"where": "Year = 1997", "is": "any"}}, STUD)
        assert selection(PSTUD, c, STUD) == stud(("Jack", [JACK_JAVA], JACK[2]), ("John", [], JOHN[2]))

    def test_example_2_8_union(self) -> None:
        """Table 5."""
        java = ("Java", 1997, [("exam", 80), ("ass1", 60), ("ass2", 70)])
        assert union(PSTUD, D_PSTUD) == stud(
            ("Jack", [JACK_DB, java], tels("54111", "04143", "1435", "2302")),
            JOHN,
            ("Andrew", [("DB", 1999, [("test1", 60)])], []),
        )

    def test_example_2_9_difference(self) -> None:
        """Table 6. It shows an exam among Jack's tests of DB, which table 1 does not have."""
        expected = stud(("Jack", [JACK_DB, ("Java", 1997, [("exam", 80)])], JACK[2]), JOHN)
        assert difference(PSTUD, D_PSTUD) == expected

    def test_definition_2_9_a_tuple_stays_while_one_of_its_subrelations_does(self) -> None:
        """The definition reads as if all subrelations had to be non-empty; its use in the proofs says at least one."""
        assert difference(sets(ABC, ("a1", "b1", "c1")), sets(ABC, ("a1", "b1", ""))) == sets(ABC, ("a1", "", "c1"))
        assert difference(sets(ABC, ("a1", "b1", "c1")), sets(ABC, ("a1", "b1", "c1 c2"))) == {}
        assert difference(sets(ABC, ("a1", "", "")), sets(ABC, ("a1", "", ""))) == {}

    def test_example_2_10_intersection(self) -> None:
        """Tables 7 and 8 agree on an exam in DB, which table 1 does not have: ours agree on test2."""
        pstud_1 = stud(("Jack", [("DB", 1998, [("exam", 80), ("test2", 90)])], tels("8330")))
        assert intersection(PSTUD, pstud_1) == stud(("Jack", [("DB", 1998, [("test2", 90)])], []))

    def test_example_2_11_joinable_schemas(self) -> None:
        t = join_schemas(STUD, ADDR)
        assert t.text == "{Name, Subjs*: {sjName, Year, Marks*: {testName, Mark}}, Tels*: {Tel}, Addr*: {Addr}}"
        assert is_prime(STUD, t)
        assert is_prime(ADDR, t)
        assert set(t.all_atoms) == set(STUD.all_atoms) | set(ADDR.all_atoms)

    def test_definition_2_11_schemas_with_different_keys_are_not_joinable(self) -> None:
        with pytest.raises(NablaError, match="NABLA_NOT_JOINABLE"):
            join_schemas(STUD, Schema.of("sjName STRING, Addr ARRAY<STRUCT<Addr STRING>>"))
        with pytest.raises(NablaError, match=r"NABLA_NOT_JOINABLE.*level 2, Subjs"):
            join_schemas(STUD, Schema.of("Name STRING, Subjs ARRAY<STRUCT<sjName STRING>>"))

    def test_example_2_12_join(self) -> None:
        """Tables 9 and 10."""
        addresses = tels("12 Newton st", "5 Darling av")
        expected = relation([(*JOHN, addresses)], join_schemas(STUD, ADDR))
        assert join(PSTUD, relation([("John", addresses)], ADDR)) == expected


class TestSection3:
    def test_definition_3_1_containment(self) -> None:
        """Table 11: contained, though not a subset."""
        d, r = sets(AB, ("a1", "b1")), sets(AB, ("a1", "b1 b2"))
        assert contained(d, r)
        assert not contained(r, d)

    @pytest.mark.parametrize("d", [("a1", "b1"), ("a1", ""), ("a1", "b3"), ("a2", "b1")])
    def test_theorem_3_1_three_ways_to_say_contained(self, d: tuple[str, str]) -> None:
        update, r = sets(AB, d), sets(AB, ("a1", "b1 b2"))
        assert contained(update, r) == (intersection(r, update) == update) == (union(r, update) == r)

    def test_definition_3_2_disjointness(self) -> None:
        """Table 12: a common key, and disjoint subrelations. One pair of them is enough."""
        d = sets(ABC, ("a", "b1", "c1"))
        assert disjoint(d, sets(ABC, ("a", "b2", "c2")))
        assert disjoint(d, sets(ABC, ("a", "b1", "c2")))
        assert disjoint(d, {})
        assert disjoint(d, sets(ABC, ("b", "b1", "c1")))
        assert not disjoint(d, sets(ABC, ("a", "b1", "c1")))
        assert not disjoint(sets(ABC, ("a", "", "")), sets(ABC, ("a", "b1", "")))

    def test_example_3_1_attribute_disjointness(self) -> None:
        """Table 13, with R − Y = {A, D*}."""
        schema = Schema.of("A STRING, B STRING, C ARRAY<STRUCT<C STRING>>, D ARRAY<STRUCT<D STRING>>")
        c, d = tels("c1", "c2"), tels("d1", "d2")
        r_0 = relation([("a1", "b1", c, d), ("a2", "b1", c, d)], schema)
        r_1, r_2 = relation([("a1", "b2", c, tels("d1"))], schema), relation([("a1", "b2", c, d)], schema)
        assert attribute_disjoint(r_0, r_1, schema, ["A", "D"])
        assert not attribute_disjoint(r_0, r_2, schema, ["A", "D"])
        assert attribute_disjoint(inside(r_0, [("a2", "b1")]), r_2, schema, ["A", "D"])


class TestSection4:
    def test_example_4_1_projection_and_difference_do_not_commute(self) -> None:
        """Table 14."""
        r = sets(ABC, ("a1", "b1", "c1"), ("a2", "b1 b2", "c1 c2"), ("a3", "b2 b3", "c1 c3"))
        d = sets(ABC, ("a1", "b1", "c2"), ("a2", "b1 b2", "c1 c2"), ("a3", "b3", "c3"))
        recomputed = sets(AB, ("a1", ""), ("a3", "b2"))

        def op(r: Relation) -> Relation:
            return projection(r, AB)

        assert op(difference(r, d)) == recomputed
        assert equations.standard(op, "⊖", op(r), d) == sets(AB, ("a3", "b2"))
        assert not equations.projection_allows(r, d, AB)
        assert equations.with_recomputation(op, op(r), r, d) == recomputed
        assert equations.implementation(op, "⊖", op(r), r, d) == recomputed
        assert equations.projection_allows(outside(r, [("a1",)]), d, AB)

    def test_example_4_2_selection_is_not_monotone(self) -> None:
        """Table 15. It prints r ⊖ δ as ⟨a5, {b1}, ∅⟩, which must read ⟨a1, {b1}, ∅⟩."""
        r, d = sets(ABC, ("a1", "b1", ""), ("a5", "b5", "")), sets(ABC, ("a1", "b2", "c2"), ("a5", "b5 b6", ""))
        c = condition({"B": {"is": "nonempty"}, "C": {"is": "empty"}}, ABC)
        assert union(r, d) == sets(ABC, ("a1", "b1 b2", "c2"), ("a5", "b5 b6", ""))
        assert difference(r, d) == sets(ABC, ("a1", "b1", ""))
        assert selection(r, c, ABC) == r
        assert selection(union(r, d), c, ABC) == sets(ABC, ("a5", "b5 b6", ""))
        assert selection(difference(r, d), c, ABC) == sets(ABC, ("a1", "b1", ""))
        assert not contained(selection(r, c, ABC), selection(union(r, d), c, ABC))
        assert not contained(selection(r, c, ABC), selection(difference(r, d), c, ABC))

    def test_example_4_3_a_test_that_the_update_hides(self) -> None:
        """Table 16."""
        r, d = sets(ABC, ("a1", "b1", "c1")), sets(ABC, ("a1", "b2", ""))
        c = condition({"where": "A = 'a1'", "C": {"is": "empty"}}, ABC)

        def op(r: Relation) -> Relation:
            return selection(r, c, ABC)

        assert op(union(r, d)) == {}
        assert equations.standard(op, "⊕", op(r), d) == d
        assert not equations.selection_allows(r, d, c, ABC, "⊕")
        assert equations.implementation(op, "⊕", op(r), r, d) == {}

    def test_erratum_lemma_4_4_is_sufficient_and_not_necessary(self) -> None:
        """The paper says "iff". Tuples that fail the condition on atoms are in neither side, whatever their tests."""
        r, d = sets(ABC, ("a1", "b1", "c1")), sets(ABC, ("a1", "b2", ""))
        c = condition({"where": "A = 'other'", "C": {"is": "empty"}}, ABC)
        assert selection(union(r, d), c, ABC) == union(selection(r, c, ABC), selection(d, c, ABC))
        assert not equations.selection_allows(r, d, c, ABC, "⊕")

    def test_lemma_4_4_holds_where_its_condition_does(self) -> None:
        r, d = sets(ABC, ("a1", "b1 b2", "")), sets(ABC, ("a1", "b1", ""))
        c = condition({"B": {"is": "nonempty"}, "C": {"is": "empty"}}, ABC)
        for sign, update in equations.UPDATES.items():
            assert equations.selection_allows(r, d, c, ABC, sign)
            assert selection(update(r, d), c, ABC) == update(selection(r, c, ABC), selection(d, c, ABC))

    def test_examples_4_4_and_4_5_intersection_and_difference(self) -> None:
        """Tables 17 and 18."""
        r = sets(AB, ("a1", "b1 b2"), ("a2", "b2 b3"), ("a3", "b4"), ("a4", "b5"))
        d = sets(AB, ("a1", "b1 b3"), ("a2", "b1 b2"), ("a3", "b3 b4"))
        s = sets(AB, ("a1", "b1"), ("a2", "b2 b3"), ("a3", "b4"), ("a4", "b5"))
        recomputed = sets(AB, ("a1", ""), ("a2", "b3"), ("a4", "b5"))

        def op(r: Relation) -> Relation:
            return intersection(r, s)

        assert op(difference(r, d)) == recomputed
        assert equations.standard(op, "⊖", op(r), d) == sets(AB, ("a2", "b3"), ("a4", "b5"))
        assert not equations.intersection_allows(r, d, s)
        assert op(r) == s
        z_1, z_2 = outside(op(r), d), op(difference(inside(r, d), d))
        assert z_1 == sets(AB, ("a4", "b5"))
        assert z_2 == sets(AB, ("a1", ""), ("a2", "b3"))
        assert union(z_1, z_2) == recomputed == equations.implementation(op, "⊖", op(r), r, d)

    def test_example_4_6_join_and_difference(self) -> None:
        """Table 19."""
        r = sets(ABC, ("a1", "b1", "c1"), ("a2", "b1", "c2 c3"), ("a3", "b1 b2", "c1"))
        d = sets(ABC, ("a1", "b1", "c1"), ("a2", "b1", "c3"), ("a3", "b2 b3", "c1"))
        s = sets(ACD, ("a1", "c1", "d1"), ("a2", "c1", "d2"), ("a3", "c1", "d3"))
        recomputed = sets(ABCD, ("a2", "", "", "d2"), ("a3", "b1", "", "d3"))

        def op(r: Relation) -> Relation:
            return join(r, s)

        assert op(difference(r, d)) == recomputed
        assert equations.standard(op, "⊖", op(r), d) == sets(ABCD, ("a3", "b1", "", ""))
        assert not equations.join_allows(r, d)
        assert equations.implementation(op, "⊖", op(r), r, d) == recomputed
        assert equations.implementation(op, "⊕", op(r), r, d) == op(union(r, d))

    def test_erratum_lemma_4_7_is_sufficient_and_not_necessary(self) -> None:
        """The paper says "iff". On flat relations the join is the intersection, and nothing need be disjoint."""
        flat = Schema.of("A STRING")
        r, d, s = (relation([(key,) for key in keys], flat) for keys in ("ab", "a", "ab"))
        assert join(difference(r, d), s) == difference(join(r, s), join(d, s))
        assert not equations.join_allows(r, d)


LECTS = Schema.of("Name STRING, Subjs ARRAY<STRUCT<sjName STRING, Year INT, Lects ARRAY<STRUCT<Lect STRING>>>>")
TAUGHT = (("DB", 1998, tels("Ben", "Tom")), ("DB", 1996, tels("Kaven")))


class TestSection5:
    """Example 5.1. The paper joins Sean although subjLect has none, mixes "over 69" with "> 79" and "98" with "1998", and
    leaves John out, whose 80 is over both. Ours has Sean in subjLect, > 79, 1998, and a 70 for John."""

    SUBJ_LECT = relation([("Jack", TAUGHT), ("John", TAUGHT), ("Sean", TAUGHT)], LECTS)
    R = stud(JACK, ("John", [("DB", 1998, [("test1", 60), ("test2", 70)])], tels("2354")))
    D = stud(("Sean", [("DB", 1998, [("exam", 90)])], []))

    @property
    def good(self) -> Condition:
        marks = {"where": "Mark > 79", "is": "nonempty"}
        return condition({"Subjs": {"where": "Year = 1998", "Marks": marks, "is": "nonempty"}}, STUD)

    def view(self, r: Relation) -> Relation:
        return projection(join(selection(r, self.good, STUD), self.SUBJ_LECT), LECTS)

    def tuple_of(self, name: str) -> Any:
        return (name, [("DB", 1998, tels("Ben", "Tom"))])

    def test_tables_20_to_23(self) -> None:
        before = self.view(self.R)
        assert before == relation([self.tuple_of("Jack")], LECTS)
        d_3 = selection(self.D, self.good, STUD)
        assert d_3 == self.D
        d_2 = join(d_3, self.SUBJ_LECT)
        both = join_schemas(STUD, LECTS)
        assert d_2 == relation([("Sean", [("DB", 1998, [("exam", 90)], tels("Ben", "Tom"))], [])], both)
        d_1 = projection(d_2, LECTS)
        assert d_1 == relation([self.tuple_of("Sean")], LECTS)
        after = relation([self.tuple_of("Jack"), self.tuple_of("Sean")], LECTS)
        assert union(before, d_1) == after == self.view(union(self.R, self.D))

    def test_algorithm_5_1_in_the_implementation_form(self) -> None:
        """An update of Jack's marks, which the standard form of the selection would get wrong."""
        d = stud(("Jack", [("DB", 1998, [("test1", 81), ("test2", 90)])], []))
        after = difference(self.R, d)
        assert self.view(after) == {}
        assert equations.implementation(self.view, "⊖", self.view(self.R), self.R, d) == {}


def test_every_equation_of_the_paper_is_listed() -> None:
    """Expansion is standard both ways; selection never is; everything has a form without conditions."""
    by = {
        (e.operator, e.sign): {x.form for x in equations.EQUATIONS if (x.operator, x.sign) == (e.operator, e.sign)}
        for e in equations.EQUATIONS
    }
    assert by["η", "⊕"] == by["η", "⊖"] == {"standard"}
    assert all("standard" not in by["σ̂", sign] for sign in ("⊕", "⊖"))
    assert all(by[op, "⊕"] == {"standard"} for op in ("π̂", "⊙", "⋈"))
    assert all(by[op, "⊖"] == {"limited standard", "implementation"} for op in ("π̂", "σ̂", "⊙", "⋈"))
    assert all(forms & {"standard", "implementation"} for forms in by.values())
