"""Catalyst expressions as Spark SQL text over unique column names.

Spark prints most expressions so that it parses them back to the same thing. What it prints for people only (lambdas, fields of
structs, literals whose type would be guessed anew …) is printed here; what has no SQL at all is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from nabla._cached import cached_property
from nabla.algebra import clock
from nabla.algebra.expressions import Column, Expr, Order, equal, quote
from nabla.frontends.spark_sql.tree import Expression

_HOLE = re.compile(r"`\{(\d+)\}`")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

# Catalyst takes these for deterministic, mostly because they are constant during one query; a view outlives the query.
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


# The clock is read by tokens, so that a refresh can give the value that holds, and the one that held before.
_OF_THE_CLOCK = {
    "CurrentDate": "current_date()",
    "CurrentTimestamp": "current_timestamp()",
    "Now": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
}


class Unsupported(Exception):
    """The algebra or Spark SQL has no place for this. Says what it is and, where that is known, where it stands."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place


@dataclass(frozen=True)
class Printer:
    """Prints the expressions of one operator. It knows, by the numbers that Catalyst gave them, how to write the attributes
    that the operator sees, Python functions, the scalar subqueries that have become columns, and aggregate functions;
    `variables` numbers those of lambdas as they come up."""

    columns: Mapping[int, Column]
    udfs: Mapping[int, str]
    subqueries: Mapping[int, Column] = field(default_factory=dict)
    calls: Mapping[int, Expr] = field(default_factory=dict)
    variables: dict[int, int] = field(default_factory=dict)

    def expr(self, e: Expression) -> Expr:
        e = _bare(e)
        if e.kind in ("EqualTo", "EqualNullSafe"):
            left, right = (self.expr(child) for child in e.children)
            return equal(left, right, null_safe=e.kind == "EqualNullSafe")
        result = Expr(self.text(e), e.type, e.nullable, is_deterministic(e))
        if foreign := result.columns - self._known:
            # Names of fields in a type: they would be taken for columns.
            raise Unsupported(f"an expression with the quoted names {', '.join(sorted(foreign))}")
        return result

    @cached_property
    def _known(self) -> frozenset[str]:
        columns = {c.name for c in (*self.columns.values(), *self.subqueries.values())}
        return frozenset(columns.union(*(value.columns for value in self.calls.values())))

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

    def text(self, e: Expression) -> str:
        if e.kind in PRINTERS:
            return PRINTERS[e.kind](self, e)
        return self.filled(e)

    def filled(self, e: Expression) -> str:
        """The text that Spark has for it, its children put into the holes."""
        if e.sql is None:
            raise Unsupported(f"{e.function or e.kind}, which Spark cannot print as SQL that means the same")
        text = _HOLE.sub(lambda hole: self.text(e.children[int(hole[1])]), e.sql)
        return text if _is_closed(e.sql) else f"({text})"

    def arguments(self, e: Expression) -> str:
        return ", ".join(self.text(child) for child in e.children)


def is_deterministic(e: Expression) -> bool:
    return e.deterministic and not any(part.kind in _CHANGEABLE for part in e.walk())


def literal(e: Expression) -> str:
    """Spark prints no type for a NULL that is an array, and reads `2.50` as decimal(3,2), whatever type the literal had."""
    assert e.sql is not None
    if e.sql == "NULL" and e.type != "void":
        return f"CAST(NULL AS {e.type})"
    decimal = _DECIMAL.fullmatch(e.type)
    if not decimal or not e.sql.endswith("BD"):
        return e.sql
    digits = e.sql.removesuffix("BD")
    parsed = Decimal(digits).as_tuple()
    scale = -int(parsed.exponent)
    if "E" in digits or (max(len(parsed.digits), scale), scale) != (int(decimal[1]), int(decimal[2])):
        return f"CAST('{digits}' AS {e.type})"
    return e.sql


def string_literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _bare(e: Expression) -> Expression:
    while e.kind in _TRANSPARENT:
        e = e.children[0]
    return e


def _is_closed(template: str) -> bool:
    """Whether the text can stand anywhere without parentheses of its own: `f(…)`, `(…)`, `CASE … END`, `x[…]`."""
    plain = re.sub(r"'(?:[^'\\]|\\.)*'", "", _HOLE.sub("h", template))
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


def _attribute(p: Printer, e: Expression) -> str:
    if e.id is None or e.id not in p.columns:
        raise Unsupported(f"the column {e.name} out of its place")
    return quote(p.columns[e.id].name)


def _subquery(p: Printer, e: Expression) -> str:
    if e.fields["exprId"] not in p.subqueries:
        raise Unsupported("a subquery in this place")
    return quote(p.subqueries[e.fields["exprId"]].name)


def _exists(p: Printer, e: Expression) -> str:
    return f"({_subquery(p, e)} > 0L)"


def _field(p: Printer, e: Expression) -> str:
    """Brackets, because a field's name in backticks would look like a column."""
    return f"{p.text(e.children[0])}[{string_literal(e.extra['field'])}]"


def _lambda(p: Printer, e: Expression) -> str:
    body, *variables = (p.text(child) for child in e.children)
    # The parser takes parentheses around two variables and refuses them around one.
    return f"{variables[0]} -> {body}" if len(variables) == 1 else f"({', '.join(variables)}) -> {body}"


def _lambda_variable(p: Printer, e: Expression) -> str:
    # Numbered, so that an inner lambda's variable cannot hide an outer one of the same name.
    assert e.id is not None
    return re.sub(r"\W", "_", e.name) + f"_{p.variables.setdefault(e.id, len(p.variables) + 1)}"


def _named_struct(p: Printer, e: Expression) -> str:
    # Spark prints struct(a, b), whose fields would take the names of our columns.
    return f"named_struct({p.arguments(e)})"


def _with_options(p: Printer, e: Expression) -> str:
    """Options are no arguments to Catalyst, and it prints neither them nor the type that a text is read as."""
    parts = [p.text(e.children[0])]
    if "schema" in e.fields:
        parts.append(string_literal(e.fields["schema"]))
    if options := [string_literal(part) for entry in e.fields["options"].items() for part in entry]:
        parts.append(f"map({', '.join(options)})")
    return f"{e.function}({', '.join(parts)})"


def _cast(p: Printer, e: Expression) -> str:
    """Spark leaves out a cast to an array, a map or a struct."""
    if e.sql is not None or not e.type.lower().startswith(("array", "map", "struct")):
        return p.filled(e)
    return f"{'TRY_CAST' if e.fields['evalMode'] == 'TRY' else 'CAST'}({p.text(e.children[0])} AS {e.type})"


def _multi_like(p: Printer, e: Expression) -> str:
    """The patterns are no arguments to Catalyst."""
    patterns = ("NULL" if pattern is None else string_literal(pattern) for pattern in e.fields["patterns"])
    words = {"LikeAll": "LIKE ALL", "NotLikeAll": "NOT LIKE ALL", "LikeAny": "LIKE ANY", "NotLikeAny": "NOT LIKE ANY"}
    return f"({p.text(e.children[0])} {words[e.kind]} ({', '.join(patterns)}))"


def _raise_error(p: Printer, e: Expression) -> str:
    condition, parameters = e.children
    if condition.sql != "'USER_RAISED_EXCEPTION'" or parameters.kind != "CreateMap":
        raise Unsupported("raise_error with a condition")
    return f"raise_error({p.text(parameters.children[1])})"


def _variant_get(p: Printer, e: Expression) -> str:
    name = "variant_get" if e.fields["failOnError"] else "try_variant_get"
    return f"{name}({p.arguments(e)}, {string_literal(e.fields['targetType'])})"


def _collate(p: Printer, e: Expression) -> str:
    value, collation = e.children
    return f"({p.text(value)} COLLATE {collation.fields['collationName']})"


def _at_least_known(p: Printer, e: Expression) -> str:
    """What `dropna` filters by. Of floating point numbers, NaN counts as unknown."""
    texts = [(p.text(child), child.type in ("float", "double")) for child in e.children]
    known = [f"CAST({t} IS NOT NULL{f' AND NOT isnan({t})' if floating else ''} AS INT)" for t, floating in texts]
    return f"(({' + '.join(known)}) >= {e.fields['n']})"


def _python_udf(p: Printer, e: Expression) -> str:
    return f"{p.udfs[e.fields['resultId']]}({p.arguments(e)})"


def _scala_udf(p: Printer, e: Expression) -> str:
    if not e.fields["udfName"]:
        raise Unsupported("a function that has no name in Spark SQL")
    return f"{e.fields['udfName']}({p.arguments(e)})"


def _timestamp_as_number(p: Printer, e: Expression) -> str:
    """Time windows compute with microseconds."""
    functions = {("timestamp", "bigint"): "unix_micros", ("bigint", "timestamp"): "timestamp_micros"}
    function = functions.get((e.fields["fromType"], e.fields["toType"]))
    if not function:
        raise Unsupported(f"a time window over {e.children[0].type}")
    return f"{function}({p.text(e.children[0])})"


def _part_of_time(p: Printer, e: Expression) -> str:
    """What EXTRACT and arithmetic with intervals become."""
    return f"date_part('{_PARTS_OF_TIME[e.kind]}', {p.text(e.children[0])})"


def _aggregate(p: Printer, e: Expression) -> str:
    if e.fields["resultId"] not in p.calls:
        raise Unsupported("an aggregate function in this place")
    return p.calls[e.fields["resultId"]].sql


def _transparent(p: Printer, e: Expression) -> str:
    return p.text(e.children[0])


_TRANSPARENT = frozenset({"Alias", "OuterReference", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized"})

_PARTS_OF_TIME = {
    "SecondWithFraction": "SECOND",
    "ExtractANSIIntervalYears": "YEAR",
    "ExtractANSIIntervalMonths": "MONTH",
    "ExtractANSIIntervalDays": "DAY",
    "ExtractANSIIntervalHours": "HOUR",
    "ExtractANSIIntervalMinutes": "MINUTE",
    "ExtractANSIIntervalSeconds": "SECOND",
}

PRINTERS: dict[str, Callable[[Printer, Expression], str]] = {
    "AttributeReference": _attribute,
    "Literal": lambda p, e: literal(e),
    "ScalarSubquery": _subquery,
    "Exists": _exists,
    "GetStructField": _field,
    "GetArrayStructFields": _field,
    "LambdaFunction": _lambda,
    "NamedLambdaVariable": _lambda_variable,
    "CreateNamedStruct": _named_struct,
    **dict.fromkeys(("JsonToStructs", "CsvToStructs", "XmlToStructs"), _with_options),
    **dict.fromkeys(("StructsToJson", "StructsToCsv", "StructsToXml"), _with_options),
    **dict.fromkeys(("SchemaOfJson", "SchemaOfCsv", "SchemaOfXml"), _with_options),
    "Cast": _cast,
    **dict.fromkeys(("LikeAll", "NotLikeAll", "LikeAny", "NotLikeAny"), _multi_like),
    "RaiseError": _raise_error,
    "VariantGet": _variant_get,
    "Collate": _collate,
    "AtLeastNNonNulls": _at_least_known,
    "PythonUDF": _python_udf,
    "ScalaUDF": _scala_udf,
    "PreciseTimestampConversion": _timestamp_as_number,
    "AggregateExpression": _aggregate,
    **dict.fromkeys(_PARTS_OF_TIME, _part_of_time),
    **dict.fromkeys(_OF_THE_CLOCK, lambda p, e: clock.reading(_OF_THE_CLOCK[e.kind])),
    **dict.fromkeys(_TRANSPARENT, _transparent),
}
