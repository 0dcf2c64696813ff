"""Casts and functions."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp

from nabla.algebra import types
from nabla.algebra.by_name import apply, by_name
from nabla.algebra.expressions import Expr, Lambda, Literal, Variable
from nabla.algebra.normalize import between, cast, make, part_of_date
from nabla.algebra.parse.operators import field_of
from nabla.algebra.parse.reader import Reader, Unreadable, arguments_of, boolean, reads
from nabla.algebra.result_types import element_type


@lru_cache(maxsize=1 << 10)
def _type_text(type_: exp.DataType) -> str:
    return type_.sql("spark").lower().replace(", ", ",").replace(": ", ":")


@reads(exp.Cast)
def _cast(reader: Reader, node: exp.Cast, function: str = "Cast") -> Expr:
    operand, type_ = reader.read(node.this), _type_text(node.to)
    if "timestamp" in type_ or type_.startswith(("varchar", "char")):
        raise Unreadable(f"a cast to {type_} in {node.sql('spark')}")
    if isinstance(operand, Literal) and operand.value:
        if type_ == "double" and operand.type.startswith("decimal("):
            return Literal(operand.value, "double")  # 1.5D
        if type_.startswith("decimal(") and re.fullmatch(r"-?\d+(\.\d+)?", operand.value):
            operand = Literal(operand.value, str(types.decimal_literal(Decimal(operand.value))))
    return make(function, (operand,), type_, operand.nullable or function == "TryCast")


@reads(exp.TryCast)
def _hive_cast(reader: Reader, node: exp.TryCast) -> Expr:
    """A cast. sqlglot reads Spark's CAST as TryCast, too, and marks TRY_CAST as safe."""
    return _cast(reader, node, "TryCast" if node.args.get("safe") else "Cast")


_SIMPLE: dict[type[exp.Expr], str] = {
    exp.Upper: "Upper",
    exp.Lower: "Lower",
    exp.Length: "Length",
    exp.Substring: "Substring",
    exp.Replace: "StringReplace",
    exp.Reverse: "Reverse",
    exp.Repeat: "StringRepeat",
    exp.StartsWith: "StartsWith",
    exp.EndsWith: "EndsWith",
    exp.Contains: "Contains",
    exp.StrPosition: "StringInstr",
    exp.Like: "Like",
    exp.ILike: "ILike",
    exp.RegexpLike: "RLike",
    exp.Abs: "Abs",
    exp.Ceil: "Ceil",
    exp.Floor: "Floor",
    exp.Sign: "Signum",
    exp.Sqrt: "Sqrt",
    exp.Pow: "Pow",
    exp.DateDiff: "DateDiff",
    exp.Year: "Year",
    exp.Month: "Month",
    exp.Day: "DayOfMonth",
    exp.DayOfMonth: "DayOfMonth",
    exp.Quarter: "Quarter",
    exp.WeekOfYear: "WeekOfYear",
    exp.DayOfWeek: "DayOfWeek",
    exp.DayOfYear: "DayOfYear",
    exp.Hour: "Hour",
    exp.Minute: "Minute",
    exp.Second: "Second",
    exp.AddMonths: "AddMonths",
    exp.BitwiseNot: "BitwiseNot",
    exp.ArraySize: "Size",
    exp.ArrayContains: "ArrayContains",
    exp.ArrayDistinct: "ArrayDistinct",
    exp.ArraysZip: "ArraysZip",
    exp.Flatten: "Flatten",
    exp.GenerateSeries: "Sequence",
    exp.RegexpSplit: "StringSplit",
    exp.Explode: "Explode",
    exp.Posexplode: "PosExplode",
    exp.Inline: "Inline",
    exp.Stack: "Stack",
}


@reads(*_SIMPLE)
def _simple(reader: Reader, node: exp.Expr) -> Expr:
    return apply(_SIMPLE[type(node)], tuple(reader.all(arguments_of(node))))


@reads(exp.Initcap)
def _initcap(reader: Reader, node: exp.Initcap) -> Expr:
    return apply("InitCap", (reader.read(node.this),))


@reads(exp.Left, exp.Right)
def _end_of_text(reader: Reader, node: exp.Expr) -> Expr:
    return _call_by_name(type(node).__name__, reader.all([node.this, node.expression]))


@reads(exp.Concat, exp.DPipe)
def _concat(reader: Reader, node: exp.Expr) -> Expr:
    values = reader.all(node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression])
    return apply("Concat", tuple(values))


@reads(exp.TsOrDsToDate)
def _to_date(reader: Reader, node: exp.TsOrDsToDate) -> Expr:
    """to_date(x). sqlglot also puts it around the arguments of year() and similar functions, which Spark casts to dates."""
    if len(arguments_of(node)) != 1:
        raise Unreadable(node.sql("spark"))
    value = reader.read(node.this)
    return value if not value.type else cast(value, "date")


@reads(exp.TsOrDsAdd)
def _date_add(reader: Reader, node: exp.TsOrDsAdd) -> Expr:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise Unreadable(node.sql("spark"))
    function, by = "DateAdd", node.expression
    if isinstance(by, exp.Mul) and isinstance(by.expression, exp.Neg):  # sqlglot reads date_sub(day, n) as n * -1 more
        function, by = "DateSub", by.this
    day, days = reader.read(node.this), reader.read(by)
    return make(function, (day, days), "date", day.nullable or days.nullable)


@reads(exp.Extract)
def _extract(reader: Reader, node: exp.Extract) -> Expr:
    found = part_of_date(node.this.name, reader.read(node.expression))
    if found is None:
        raise Unreadable(node.sql("spark"))
    return found


@reads(exp.Escape)
def _escaped_like(reader: Reader, node: exp.Escape) -> Expr:
    inner = node.this
    if not isinstance(inner, exp.Like):
        raise Unreadable(node.sql("spark"))
    found = boolean("Like", *reader.all([inner.this, inner.expression, node.expression]))
    return boolean("Not", found) if inner.args.get("negate") else found


@reads(exp.Trim)
def _trim(reader: Reader, node: exp.Trim) -> Expr:
    function = {"LEADING": "StringTrimLeft", "TRAILING": "StringTrimRight"}.get(
        str(node.args.get("position")), "StringTrim"
    )
    values = reader.all(v for v in (node.this, node.expression) if v is not None)
    return make(function, tuple(values), "string", any(v.nullable for v in values))


@reads(exp.Round)
def _round(reader: Reader, node: exp.Round) -> Expr:
    given = (node.this, node.args.get("decimals"))
    return _call_by_name("round", reader.all(argument for argument in given if argument is not None))


@reads(exp.Array)
def _array(reader: Reader, node: exp.Array) -> Expr:
    return apply("CreateArray", tuple(reader.all(node.expressions)))


@reads(exp.Struct)
def _struct(reader: Reader, node: exp.Struct) -> Expr:
    fields = ((Literal(field.this.name, "string"), reader.read(field.expression)) for field in node.expressions)
    return apply("CreateNamedStruct", tuple(part for field in fields for part in field))


@reads(exp.VarMap)
def _map(reader: Reader, node: exp.VarMap) -> Expr:
    entries = zip(node.args["keys"].expressions, node.args["values"].expressions, strict=True)
    return apply("CreateMap", tuple(reader.all(part for entry in entries for part in entry)))


@reads(exp.Bracket)
def _bracket(reader: Reader, node: exp.Bracket) -> Expr:
    value, place = reader.read(node.this), node.expressions[0]
    if isinstance(place, exp.Literal) and place.is_string and not value.type.startswith("map"):
        return field_of(value, place.name)
    item = "GetMapValue" if value.type.startswith("map") else "GetArrayItem"
    return apply("ElementAt" if node.args.get("offset") == 1 else item, (value, reader.read(place)))


@reads(exp.ArraySort)
def _array_sort(reader: Reader, node: exp.ArraySort) -> Expr:
    """`sort_array(x)` and `array_sort(x)`: the first puts NULLs first, the second puts them last."""
    nulls_first = node.args.get("nulls_first")
    if node.expression is not None or node.args.get("asc") is not None or not isinstance(nulls_first, exp.Boolean):
        raise Unreadable(node.sql("spark"))
    return apply("SortArray" if nulls_first.this else "ArraySort", (reader.read(node.this),))


_HIGHER: dict[type[exp.Expr], str] = {
    exp.Transform: "ArrayTransform",
    exp.ArrayFilter: "ArrayFilter",
    exp.Exists: "ArrayExists",
}


@reads(*_HIGHER)
def _higher(reader: Reader, node: exp.Expr) -> Expr:
    if node.expression is None:
        raise Unreadable(f"a subquery: {node.sql('spark')}")
    value = reader.read(node.this)
    return apply(_HIGHER[type(node)], (value, _lambda(reader, node.expression, (element_type(value.type), "int"))))


def _lambda(reader: Reader, node: exp.Expr, kinds: tuple[str, ...]) -> Lambda:
    """A lambda over variables of the given types: an element and its position, which the lambda may leave out."""
    if not isinstance(node, exp.Lambda):
        raise Unreadable(f"{node.sql('spark')} as a lambda")
    outer = dict(reader.variables)
    variables = tuple(Variable(v.name, kind) for v, kind in zip(node.expressions, kinds, strict=False))
    reader.variables |= {variable.name: variable for variable in variables}
    body = reader.read(node.this)
    reader.variables = outer
    return Lambda(variables, body)


@reads(exp.Anonymous)
def _anonymous(reader: Reader, node: exp.Anonymous) -> Expr:
    name, arguments = str(node.this).lower(), reader.all(node.expressions)
    if name == "is_between":
        value, low, high = arguments
        return between(value, low, high)
    return _call_by_name(name, arguments)


def _call_by_name(name: str, arguments: list[Expr]) -> Expr:
    found = by_name(name, tuple(arguments))
    if found is None:
        raise Unreadable(f"the function {name} of {len(arguments)} arguments")
    return found
