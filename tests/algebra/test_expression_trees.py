"""Expressions are trees: checked at birth, equal by value, printed as text that is read as the same tree."""

from __future__ import annotations

import json
import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nabla.algebra.build import case, coalesce, compare, equal, is_not_true, named_struct, number, text, when
from nabla.algebra.by_name import apply, by_name
from nabla.algebra.calls import Named
from nabla.algebra.expressions import (
    Apply,
    Clock,
    Column,
    Expr,
    Foreign,
    Lambda,
    Literal,
    MalformedExpression,
    Ref,
    Variable,
    hole,
    quote,
)
from nabla.algebra.functions import FUNCTIONS
from nabla.algebra.json import load_plan, to_data
from nabla.algebra.names import label_of
from nabla.algebra.nodes import At, Project, Scan
from nabla.algebra.parse import Types, parse, read
from nabla.dev.testing.random_expressions import Expressions
from nabla.dev.testing.random_terms import Sample

KINDS = ("int", "bigint", "decimal(10,2)", "double", "string", "date", "boolean")
COLUMNS = [Column(f"{kind[:3]} {may}#1", kind, may) for may in (True, False) for kind in KINDS]
X, L, N, F, S, D, B = (column.ref for column in COLUMNS[:7])
TYPES: Types = {c.name: (c.type, c.nullable) for c in COLUMNS} | {
    "a": ("array<int>", True),
    "aa": ("array<array<int>>", True),
    "r": ("struct<x:int>", True),
    "m": ("map<string,int>", True),
}
A, AA, R, M = (Ref(name, *TYPES[name]) for name in ("a", "aa", "r", "m"))
ELEMENT = Variable("x", "int")


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    """Read as they are written: a generated expression may be declared nullable although it never is NULL."""
    seed = draw(st.integers(0, 10**9))
    return parse(Expressions(Random(seed), [Sample(c.ref, 5.0) for c in COLUMNS]).any(3).sql, TYPES)


# Birth


def test_a_function_that_the_tree_does_not_know_is_refused() -> None:
    with pytest.raises(MalformedExpression, match="Soundex is no function"):
        Apply("Soundex", (S,), "string")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("Add", (X,)),
        ("Not", (B, B)),
        ("IsNull", ()),
        ("Upper", (S, S)),
        ("In", (X,)),
        ("CaseWhen", (B,)),
        ("Pow", (F,)),
    ],
)
def test_a_wrong_number_of_arguments_is_refused(function: str, arguments: tuple[Expr, ...]) -> None:
    with pytest.raises(MalformedExpression, match=f"{function} does not take {len(arguments)} arguments"):
        Apply(function, arguments, "int")


# Text

WRITTEN: dict[str, tuple[Expr, ...]] = {
    **dict.fromkeys(("And", "Or"), (B, compare(X, ">", number(1, "int")))),
    "Not": (B,),
    "In": (X, number(1, "int"), number(2, "int")),
    "CaseWhen": (B, X, number(0, "int")),
    **dict.fromkeys(("Upper", "Lower", "InitCap", "Length", "Reverse"), (S,)),
    **dict.fromkeys(("StringTrim", "StringTrimLeft", "StringTrimRight"), (S,)),
    "Substring": (S, number(1, "int"), number(2, "int")),
    **dict.fromkeys(("Right", "StringRepeat"), (S, number(2, "int"))),
    **dict.fromkeys(("StringInstr", "StringSplit", "StartsWith", "EndsWith", "Contains"), (S, text("b"))),
    **dict.fromkeys(("Concat", "Like", "ILike", "RLike"), (S, text("b"))),
    "StringReplace": (S, text("a"), text("b")),
    **dict.fromkeys(("Year", "YearOfWeek", "Quarter", "Month", "WeekOfYear", "WeekDay"), (D,)),
    **dict.fromkeys(("DayOfMonth", "DayOfWeek", "DayOfYear", "Hour", "Minute", "Second"), (D,)),
    **dict.fromkeys(("DateAdd", "DateSub", "AddMonths"), (D, X)),
    "DateDiff": (D, Literal("2024-01-31", "date")),
    "DateAddYMInterval": (D, Literal("INTERVAL '2' MONTH", "interval month")),
    "CreateNamedStruct": (text("x"), X),
    "CreateMap": (text("x"), X),
    "GetStructField": (R, text("x")),
    "GetArrayStructFields": (Ref("rs", "array<struct<x:int>>"), text("x")),
    **dict.fromkeys(("GetArrayItem", "ElementAt"), (A, number(1, "int"))),
    "GetMapValue": (M, text("x")),
    "ArrayContains": (A, number(1, "int")),
    **dict.fromkeys(("Size", "ArrayDistinct", "ArraysZip", "SortArray", "ArraySort", "Explode", "PosExplode"), (A,)),
    "Flatten": (AA,),
    "Sequence": (X, number(5, "int")),
    "ArrayTransform": (A, Lambda((ELEMENT,), apply("Add", (ELEMENT, X)))),
    **dict.fromkeys(("ArrayFilter", "ArrayExists"), (A, Lambda((ELEMENT,), compare(ELEMENT, ">", X)))),
    "Inline": (Ref("rs", "array<struct<x:int>>"),),
    "Stack": (number(2, "int"), X, X),
    **dict.fromkeys(("Sqrt", "Signum", "Ceil", "Floor"), (F,)),
    "Round": (N, number(1, "int")),
    "Pow": (F, F),
}
"""Arguments for functions that do not take one or two numbers."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_text_of_a_function_is_read_as_the_same_tree(function: str) -> None:
    arguments = WRITTEN.get(function) or (X, L)[: 1 if FUNCTIONS[function].takes(1) else 2]
    tree = Apply(function, arguments, "bigint") if "Cast" in function else apply(function, arguments)
    assert parse(tree.sql, {**TYPES, "rs": ("array<struct<x:int>>", True)}) == tree


@given(expressions())
def test_the_text_of_a_tree_is_read_as_the_same_tree(expr: Expr) -> None:
    assert parse(expr.sql, TYPES) == expr


@given(expressions())
def test_a_tree_says_its_type_and_knows_its_columns(expr: Expr) -> None:
    assert all(part.type for part in expr.walk())
    assert expr.columns == {part.name for part in expr.walk() if isinstance(part, Ref)}
    assert not isinstance(expr, Foreign)


LITERALS = [
    (Literal("true", "boolean"), "true"),
    (Literal("-3", "tinyint"), "-3Y"),
    (Literal("-3", "smallint"), "-3S"),
    (Literal("7", "int"), "7"),
    (Literal("7", "bigint"), "7L"),
    (Literal("2.50", "decimal(3,2)"), "2.50BD"),
    (Literal("2.50", "decimal(10,2)"), "CAST('2.50' AS decimal(10,2))"),
    (Literal("0.5", "double"), "0.5D"),
    (Literal("NaN", "double"), "CAST('NaN' AS DOUBLE)"),
    (Literal("0.5", "float"), "CAST('0.5' AS FLOAT)"),
    (Literal("it's a \\ `{0}`", "string"), "'it\\'s a \\\\ `{0}`'"),
    (Literal("2024-02-29", "date"), "DATE '2024-02-29'"),
    (Literal("2024-02-29 01:02:03", "timestamp"), "TIMESTAMP '2024-02-29 01:02:03'"),
    (Literal("2024-02-29 01:02:03", "timestamp_ntz"), "TIMESTAMP_NTZ '2024-02-29 01:02:03'"),
    (Literal("CAFE", "binary"), "X'CAFE'"),
    (Literal("INTERVAL '2' DAY", "interval day"), "INTERVAL '2' DAY"),
    (Literal(None, "void"), "NULL"),
    (Literal(None, "int"), "CAST(NULL AS int)"),
]


@pytest.mark.parametrize(("literal", "sql"), LITERALS)
def test_literals_of_all_types_are_written_with_their_type(literal: Literal, sql: str) -> None:
    assert literal.sql == sql
    assert literal.nullable == (literal.value is None)


@pytest.mark.parametrize("literal", [v for v, _ in LITERALS if "timestamp" not in v.type and v.type != "binary"])
def test_literals_are_read_as_they_are_written(literal: Literal) -> None:
    assert read(literal.sql, {}, literal.type) == literal


def test_names_are_quoted_for_spark_and_plain_for_people() -> None:
    expr = equal(Ref("a`b#12", "int"), number(1, "int"))
    assert expr.sql == "(`a``b#12` = 1)"
    assert str(expr) == "(a`b = 1)"
    assert expr.spell(str.upper) == "(A`B#12 = 1)"
    assert (quote("x#1"), label_of("x#1")) == ("`x#1`", "x")


def test_readings_of_the_clock_are_tokens() -> None:
    assert Clock("current_date()", "date").sql == "«current_date()»"
    assert Clock("current_date()", "date", before=True).sql == "«current_date() before»"


# Foreign


def test_an_input_stands_in_its_hole_as_often_as_there_are_holes() -> None:
    assert Foreign(f"f({hole(1)}, {hole(0)}, {hole(1)})", (X, L), "int").sql == f"f({L.sql}, {X.sql}, {L.sql})"


def test_a_hole_inside_a_literal_is_none() -> None:
    expr = Foreign(f"f('`{{0}}`', \"`{{0}}`\", 'it\\'s `{{0}}`', {hole(0)})", (X,), "int")
    assert expr.sql == f"f('`{{0}}`', \"`{{0}}`\", 'it\\'s `{{0}}`', {X.sql})"


def test_a_hole_in_the_name_of_a_column_is_none() -> None:
    assert Foreign(f"f({hole(0)}, {hole(1)})", (Ref("{1}", "int"), X), "int").sql == f"f(`{{1}}`, {X.sql})"


def test_a_function_that_is_not_known_keeps_its_text_and_its_columns() -> None:
    expr = read("soundex(`a`) || '`b`'", {"a": ("string", True)}, "string")
    assert expr == Foreign("soundex(`{0}`) || '`b`'", (Ref("a", "string"),), "string")
    assert expr.columns == {"a"}


def test_only_what_is_stable_is_deterministic() -> None:
    random = Foreign("rand()", (), "double", stable=False)
    assert not apply("Add", (F, random)).deterministic
    assert apply("Add", (F, Foreign("pi()", (), "double"))).deterministic


# Changes


@given(expressions())
def test_substituting_columns_by_themselves_changes_nothing(expr: Expr) -> None:
    assert expr.substitute({c.name: c.ref for c in COLUMNS}) == expr
    assert expr.substitute({"another": X}) is expr


@given(expressions(), expressions())
def test_substitution_is_simultaneous(expr: Expr, other: Expr) -> None:
    """A column that comes in with a definition is not replaced again."""
    columns = expr.columns
    found = expr.substitute(dict.fromkeys(columns, other))
    assert found.columns == (other.columns if columns else frozenset())


def test_a_definition_that_can_be_null_makes_the_expression_nullable() -> None:
    never, may = Ref("x", "int", nullable=False), Ref("y", "int")
    total = apply("Add", (never, number(1, "int")))
    assert not total.nullable
    assert total.substitute({"x": may}).nullable
    assert not apply("IsNull", (never,)).substitute({"x": may}).nullable
    assert not equal(never, number(1, "int"), null_safe=True).substitute({"x": may}).nullable


@given(expressions())
def test_rewriting_changes_every_node_after_its_parts(expr: Expr) -> None:
    assert expr.rewrite(lambda part: part) is expr
    seen: list[Expr] = []
    expr.rewrite(lambda part: seen.append(part) or part)  # type: ignore[func-returns-value]
    assert sorted(map(str, seen)) == sorted(map(str, expr.walk()))
    assert seen[-1] is expr
    ones = expr.rewrite(lambda part: Ref("x", part.type) if isinstance(part, Ref) else part)
    assert ones.columns <= {"x"}


# Values


@given(expressions())
def test_trees_survive_json(expr: Expr) -> None:
    scan = Scan("t", At.NEW, tuple(COLUMNS), tuple(c.name for c in COLUMNS))
    plan = Project(scan, (Named(Column("result#2", expr.type, expr.nullable), expr),))
    assert load_plan(json.loads(json.dumps(to_data(plan)))) == plan


@pytest.mark.parametrize(
    "expr",
    [
        Foreign(f"soundex({hole(0)})", (S,), "string", nullable=False, stable=False),
        Clock("current_date()", "date", before=True),
        apply("ArrayTransform", (A, Lambda((ELEMENT,), apply("Add", (ELEMENT, X))))),
        *(literal for literal, _ in LITERALS),
    ],
    ids=str,
)
def test_every_kind_of_node_survives_json_and_pickle(expr: Expr) -> None:
    rows = Scan("t", At.NEW, (*COLUMNS, Column("a", "array<int>")), (*(c.name for c in COLUMNS), "a"))
    plan = Project(rows, (Named(Column("result#2", expr.type), expr),))
    assert load_plan(json.loads(json.dumps(to_data(plan)))) == plan
    hash(expr)
    assert pickle.loads(pickle.dumps(expr)) == expr


@given(expressions())
def test_trees_are_equal_by_value(expr: Expr) -> None:
    again = parse(expr.sql, TYPES)
    assert again == expr
    assert hash(again) == hash(expr)
    assert {again: 1}[expr] == 1
    assert expr != apply("IsNull", (expr,))


# Constructors


def test_constructors_say_what_can_be_null() -> None:
    never = number(1, "int")
    assert compare(X, "<", never).nullable
    assert not compare(never, "<", never).nullable
    assert not is_not_true(compare(X, "<", never)).nullable
    assert not coalesce(X, never).nullable
    assert when(B, never).nullable
    assert not when(B, never, never).nullable
    assert case([(B, X)], never).nullable
    assert not named_struct([("x", X)]).nullable


def test_functions_have_types_by_their_names() -> None:
    assert _typed("round", N) == "decimal(9,0)"
    assert _typed("ceil", N) == "decimal(9,0)"
    assert _typed("ceil", F) == "bigint"
    assert _typed("greatest", X, L) == "bigint"
    assert _typed("nvl", N, number(0, "int")) == "decimal(12,2)"
    assert _typed("array", X, L) == "array<bigint>"
    assert _typed("year", S) == "int"
    assert by_name("soundex", (S,)) is None
    assert by_name("upper", (S, S)) is None
    assert by_name("trim", (text("x"), S)) == Apply("StringTrim", (S, text("x")), "string")


def _typed(name: str, *arguments: Expr) -> str:
    found = by_name(name, arguments)
    assert found is not None
    return found.type
