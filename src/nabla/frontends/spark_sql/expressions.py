"""Catalyst expressions as trees over unique column names.

A function that the tree knows becomes an `Apply` if Spark's text for it is that of the tree: then only its class and its
arguments matter. Every other function keeps Spark's text, after a proof that it parses back to the same expression. An
expression without SQL is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from nabla.algebra.build import all_of, arithmetic, compare, is_not_null, negate, number
from nabla.algebra.calls import Order
from nabla.algebra.expressions import (
    Clock,
    Column,
    Expr,
    Foreign,
    Lambda,
    Literal,
    Variable,
    hole,
    string_literal,
)
from nabla.algebra.functions import FUNCTIONS
from nabla.algebra.normalize import cast, interval_part, make
from nabla.frontends.spark_sql.literals import literal
from nabla.frontends.spark_sql.tree import Expression

# Catalyst takes these as deterministic, mostly because they are constant during one query. A view outlives the query.
_CHANGEABLE = frozenset(
    [
        "CurrentTime",
        "CurrentBatchTimestamp",
        "CurrentTimeZone",
        "CurrentUser",
        "SessionUser",
        "CurrentDatabase",
        "CurrentCatalog",
        "CurrentPath",
        "InputFileName",
        "InputFileBlockStart",
        "InputFileBlockLength",
        "VariableReference",
        "AesEncrypt",
    ]
)

_OF_THE_CLOCK = {
    "CurrentDate": "current_date()",
    "CurrentTimestamp": "current_timestamp()",
    "Now": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
}


class Unsupported(Exception):
    """The algebra or Spark SQL cannot express a part of the query. The message names it, with its place if that is known."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place


@dataclass(frozen=True)
class Translator:
    """Translates the expressions of one operator. By Catalyst's numbers it knows the attributes that the operator sees, the
    names of Python functions, the scalar subqueries that have become columns, and the values of aggregate functions.
    `variables` numbers the variables of lambdas in the order in which they occur."""

    columns: Mapping[int, Column]
    udfs: Mapping[int, str]
    subqueries: Mapping[int, Column] = field(default_factory=dict)
    calls: Mapping[int, Expr] = field(default_factory=dict)
    variables: dict[int, int] = field(default_factory=dict)

    def expr(self, e: Expression) -> Expr:
        if e.kind in TRANSLATIONS:
            return TRANSLATIONS[e.kind](self, e)
        if e.kind in FUNCTIONS and _is_written_as(e):
            return make(e.kind, self.parts(e), e.type, e.nullable)
        return self.foreign(e, e.sql)

    def parts(self, e: Expression) -> tuple[Expr, ...]:
        return tuple(self.expr(child) for child in e.children)

    def foreign(self, e: Expression, template: str | None) -> Foreign:
        """Spark's text of the expression, over its children."""
        if template is None:
            raise Unsupported(f"{e.function or e.kind}, which Spark cannot print as SQL that means the same")
        closed = template if _is_closed(template) else f"({template})"
        return Foreign(closed, self.parts(e), e.type, e.nullable, e.deterministic and e.kind not in _CHANGEABLE)

    def call(self, e: Expression, name: str, *more: str) -> Foreign:
        """The call of a function by its name, with its children and then `more` as arguments."""
        return self.foreign(e, f"{name}({', '.join([*(hole(i) for i, _ in enumerate(e.children)), *more])})")

    def conjuncts(self, e: Expression) -> tuple[Expr, ...]:
        if e.kind == "And":
            return tuple(c for child in e.children for c in self.conjuncts(child))
        return (self.expr(e),)

    def order(self, e: Expression) -> Order:
        return Order(
            self.expr(e.children[0]),
            ascending=e.fields["direction"] == "Ascending",
            nulls_first=e.fields["nullOrdering"] == "NullsFirst",
        )


# Other texts of Spark for a function than the one that the tree writes.
_OTHER_TEXTS = {
    "StringTrim": "trim(both from {0})",
    "StringTrimLeft": "trim(leading from {0})",
    "StringTrimRight": "trim(trailing from {0})",
    "RLike": "rlike({0}, {1})",
}


def _is_written_as(e: Expression) -> bool:
    """Whether Spark's text for a known function is the tree's, or a call of the function by one of its names.

    The text proves that the function has no option that would change its meaning: `try_add` is an Add to Catalyst, too.
    """
    if e.sql is None or not FUNCTIONS[e.kind].takes(len(e.children)):
        return False
    function, holes = FUNCTIONS[e.kind], [hole(i) for i, _ in enumerate(e.children)]
    texts = {function.write(holes, e.type), _OTHER_TEXTS.get(e.kind, "").format(*holes)}
    texts |= {f"{name}({', '.join(holes)})" for name in (function.name, *function.aliases)}
    return _plain(_number_holes(e.sql)) in {_plain(text) for text in texts}


def _number_holes(template: str) -> str:
    """The template with its holes numbered by position. Spark gives equal arguments the number of the first of them."""
    places = count()

    def place(match: re.Match[str]) -> str:
        number = next(places)
        return hole(number) if int(match[1]) <= number else match[0]

    return re.sub(r"`\{(\d+)\}`", place, template)


def _plain(text: str) -> str:
    """The text in lower case, without white space and without parentheses around it."""
    text = re.sub(r"\s+", "", text).lower()
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _is_closed(template: str) -> bool:
    """Whether the text needs no parentheses inside of another expression: `f(…)`, `(…)`, `CASE … END`, `x[…]`."""
    plain = re.sub(r"'(?:[^'\\]|\\.)*'", "", re.sub(r"`\{\d+\}`", "h", template))
    if re.fullmatch(r"\w*", plain) or (plain.startswith("CASE ") and plain.endswith(" END")):
        return True
    body = re.fullmatch(r"\w*[(\[](.*)[)\]]", plain, re.DOTALL)
    if not body:
        return False
    depth = 0
    for sign in body[1]:
        depth += (sign in "([") - (sign in ")]")
        if depth < 0:
            return False
    return True


# Leaves


def _attribute(t: Translator, e: Expression) -> Expr:
    if e.id is None or e.id not in t.columns:
        raise Unsupported(f"the column {e.name} out of its place")
    return t.columns[e.id].ref


def _subquery(t: Translator, e: Expression) -> Expr:
    if e.fields["exprId"] not in t.subqueries:
        raise Unsupported("a subquery in this place")
    return t.subqueries[e.fields["exprId"]].ref


def _exists(t: Translator, e: Expression) -> Expr:
    return compare(_subquery(t, e), ">", number(0))


def _aggregate(t: Translator, e: Expression) -> Expr:
    if e.fields["resultId"] not in t.calls:
        raise Unsupported("an aggregate function in this place")
    return t.calls[e.fields["resultId"]]


def _transparent(t: Translator, e: Expression) -> Expr:
    return t.expr(e.children[0])


# Forms that the tree knows


def _field(t: Translator, e: Expression) -> Expr:
    return make(e.kind, (t.expr(e.children[0]), Literal(e.extra["field"], "string")), e.type, e.nullable)


def _lambda(t: Translator, e: Expression) -> Expr:
    body, *variables = t.parts(e)
    return Lambda(tuple(v for v in variables if isinstance(v, Variable)), body)


def _lambda_variable(t: Translator, e: Expression) -> Expr:
    # Variables are numbered, so that that of an inner lambda cannot hide an outer one of the same name.
    assert e.id is not None
    name = re.sub(r"\W", "_", e.name) + f"_{t.variables.setdefault(e.id, len(t.variables) + 1)}"
    return Variable(name, e.type, e.nullable)


def _named_struct(t: Translator, e: Expression) -> Expr:
    # Spark prints struct(a, b), whose fields would take the names of our columns.
    return make("CreateNamedStruct", t.parts(e), e.type, e.nullable)


def _if(t: Translator, e: Expression) -> Expr:
    return make("CaseWhen", t.parts(e), e.type, e.nullable)


def _like(t: Translator, e: Expression) -> Expr:
    escape = e.fields["escapeChar"]
    more = () if escape == "\\" else (Literal(str(escape), "string"),)
    return make(e.kind, (*t.parts(e), *more), e.type, e.nullable)


def _cast(t: Translator, e: Expression) -> Expr:
    """A cast. Spark's text leaves out casts to an array, a map or a struct."""
    if e.sql is None and not e.type.lower().startswith(("array", "map", "struct")):
        return t.foreign(e, None)
    function = "TryCast" if e.fields["evalMode"] == "TRY" else "Cast"
    return make(function, t.parts(e), e.type, e.nullable)


def _translate_default(default: str) -> Callable[[Translator, Expression], Expr]:
    """A function whose last argument has a default: Catalyst always has the argument, the tree leaves the default out."""

    def translate(t: Translator, e: Expression) -> Expr:
        if not _is_written_as(e):
            return t.foreign(e, e.sql)
        *others, last = t.parts(e)
        given = (*others, last) if not isinstance(last, Literal) or last.value != default else tuple(others)
        return make(e.kind, given, e.type, e.nullable)

    return translate


def _part_of_interval(t: Translator, e: Expression) -> Expr:
    """The whole years, days … of an interval. Catalyst makes this of EXTRACT and of arithmetic with intervals."""
    interval, part = t.expr(e.children[0]), _PARTS_OF_TIME[e.kind]
    return interval_part(interval, part) or Foreign(f"date_part('{part}', {hole(0)})", (interval,), e.type, e.nullable)


def _at_least_known(t: Translator, e: Expression) -> Expr:
    """The filter of `dropna`: at least n values are known. NaN counts as unknown."""
    total: Expr | None = None
    for child in e.children:
        value = t.expr(child)
        tests: list[Expr] = [is_not_null(value)]
        if child.type in ("float", "double"):
            tests.append(negate(Foreign(f"isnan({hole(0)})", (value,), "boolean", False)))
        known = cast(all_of(tests), "int")
        total = known if total is None else arithmetic(total, "+", known, "int")
    assert total is not None
    return compare(total, ">=", number(e.fields["n"], "int"))


# Forms that Catalyst prints incompletely


def _translate_options(t: Translator, e: Expression) -> Expr:
    """A function with options. Catalyst does not have these as arguments, and prints neither them nor the type of a text."""
    more = [string_literal(e.fields["schema"])] if "schema" in e.fields else []
    if options := [string_literal(part) for entry in e.fields["options"].items() for part in entry]:
        more.append(f"map({', '.join(options)})")
    return t.call(e, e.function, *more)


def _multi_like(t: Translator, e: Expression) -> Expr:
    """LIKE ALL and LIKE ANY. Catalyst does not have the patterns as arguments."""
    patterns = ("NULL" if pattern is None else string_literal(pattern) for pattern in e.fields["patterns"])
    words = {"LikeAll": "LIKE ALL", "NotLikeAll": "NOT LIKE ALL", "LikeAny": "LIKE ANY", "NotLikeAny": "NOT LIKE ANY"}
    return t.foreign(e, f"({hole(0)} {words[e.kind]} ({', '.join(patterns)}))")


def _raise_error(t: Translator, e: Expression) -> Expr:
    condition, parameters = e.children
    if condition.sql != "'USER_RAISED_EXCEPTION'" or parameters.kind != "CreateMap":
        raise Unsupported("raise_error with a condition")
    return Foreign(f"raise_error({hole(0)})", (t.expr(parameters.children[1]),), e.type, e.nullable)


def _variant_get(t: Translator, e: Expression) -> Expr:
    name = "variant_get" if e.fields["failOnError"] else "try_variant_get"
    return t.call(e, name, string_literal(e.fields["targetType"]))


def _collate(t: Translator, e: Expression) -> Expr:
    value, collation = e.children
    return Foreign(f"({hole(0)} COLLATE {collation.fields['collationName']})", (t.expr(value),), e.type, e.nullable)


def _python_udf(t: Translator, e: Expression) -> Expr:
    return t.call(e, t.udfs[e.fields["resultId"]])


def _scala_udf(t: Translator, e: Expression) -> Expr:
    if not e.fields["udfName"]:
        raise Unsupported("a function that has no name in Spark SQL")
    return t.call(e, e.fields["udfName"])


def _timestamp_as_number(t: Translator, e: Expression) -> Expr:
    """A timestamp as a number of microseconds, with which time windows compute."""
    functions = {("timestamp", "bigint"): "unix_micros", ("bigint", "timestamp"): "timestamp_micros"}
    function = functions.get((e.fields["fromType"], e.fields["toType"]))
    if not function:
        raise Unsupported(f"a time window over {e.children[0].type}")
    return t.call(e, function)


_TRANSPARENT = frozenset(
    {"Alias", "OuterReference", "UnaryPositive", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized"}
)

_PARTS_OF_TIME = {
    "SecondWithFraction": "SECOND",
    "ExtractANSIIntervalYears": "YEAR",
    "ExtractANSIIntervalMonths": "MONTH",
    "ExtractANSIIntervalDays": "DAY",
    "ExtractANSIIntervalHours": "HOUR",
    "ExtractANSIIntervalMinutes": "MINUTE",
    "ExtractANSIIntervalSeconds": "SECOND",
}

TRANSLATIONS: dict[str, Callable[[Translator, Expression], Expr]] = {
    "AttributeReference": _attribute,
    "Literal": lambda t, e: literal(e),
    "TypedNullLiteral": lambda t, e: Literal(None, e.type),
    "ScalarSubquery": _subquery,
    "Exists": _exists,
    "GetStructField": _field,
    "GetArrayStructFields": _field,
    "LambdaFunction": _lambda,
    "NamedLambdaVariable": _lambda_variable,
    "CreateNamedStruct": _named_struct,
    "If": _if,
    "Like": _like,
    "ILike": _like,
    "Cast": _cast,
    "StringSplit": _translate_default("-1"),
    "SortArray": _translate_default("true"),
    **dict.fromkeys(("JsonToStructs", "CsvToStructs", "XmlToStructs"), _translate_options),
    **dict.fromkeys(("StructsToJson", "StructsToCsv", "StructsToXml"), _translate_options),
    **dict.fromkeys(("SchemaOfJson", "SchemaOfCsv", "SchemaOfXml"), _translate_options),
    **dict.fromkeys(("LikeAll", "NotLikeAll", "LikeAny", "NotLikeAny"), _multi_like),
    "RaiseError": _raise_error,
    "VariantGet": _variant_get,
    "Collate": _collate,
    "AtLeastNNonNulls": _at_least_known,
    "PythonUDF": _python_udf,
    "ScalaUDF": _scala_udf,
    "PreciseTimestampConversion": _timestamp_as_number,
    "AggregateExpression": _aggregate,
    **dict.fromkeys(_PARTS_OF_TIME, _part_of_interval),
    **dict.fromkeys(_OF_THE_CLOCK, lambda t, e: Clock(_OF_THE_CLOCK[e.kind], e.type)),
    **dict.fromkeys(_TRANSPARENT, _transparent),
}

ASKED_OF_SPARK = frozenset({"Cast", "StringSplit", "SortArray"})
"""Functions translated here whose text in Spark SQL is needed all the same, as a proof that they have no options."""

IN_REPLACEMENTS = frozenset(FUNCTIONS) - {"TryCast"} | {"AttributeReference", "Literal", "TypedNullLiteral", "If"}
"""The nodes of an expression that may take the place of a function that Spark itself replaces, such as nvl or EXTRACT."""
