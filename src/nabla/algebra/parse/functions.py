"""Casts and functions."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp

from nabla.algebra import types
from nabla.algebra.expressions import Expr, Lambda, Literal, Variable
from nabla.algebra.functions import NAMES
from nabla.algebra.normalize import PARTS_OF_DATES, between, interval_part, make
from nabla.algebra.parse.operators import field_of
from nabla.algebra.parse.reader import Reader, Unreadable, arguments_of, boolean, branches, reads


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
    """sqlglot reads Spark's CAST as TryCast too, and marks the real one as safe."""
    return _cast(reader, node, "TryCast" if node.args.get("safe") else "Cast")


_SIMPLE: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Upper: ("Upper", "string"),
    exp.Lower: ("Lower", "string"),
    exp.Length: ("Length", "int"),
    exp.Substring: ("Substring", "string"),
    exp.Replace: ("StringReplace", "string"),
    exp.Reverse: ("Reverse", ""),
    exp.Repeat: ("StringRepeat", "string"),
    exp.StartsWith: ("StartsWith", "boolean"),
    exp.EndsWith: ("EndsWith", "boolean"),
    exp.Contains: ("Contains", "boolean"),
    exp.StrPosition: ("StringInstr", "int"),
    exp.Like: ("Like", "boolean"),
    exp.ILike: ("ILike", "boolean"),
    exp.RegexpLike: ("RLike", "boolean"),
    exp.Abs: ("Abs", ""),
    exp.Ceil: ("Ceil", ""),
    exp.Floor: ("Floor", ""),
    exp.Sign: ("Signum", "double"),
    exp.Sqrt: ("Sqrt", "double"),
    exp.Pow: ("Pow", "double"),
    exp.DateDiff: ("DateDiff", "int"),
    exp.Year: ("Year", "int"),
    exp.Month: ("Month", "int"),
    exp.Day: ("DayOfMonth", "int"),
    exp.DayOfMonth: ("DayOfMonth", "int"),
    exp.Quarter: ("Quarter", "int"),
    exp.ArraySize: ("Size", "int"),
    exp.ArrayContains: ("ArrayContains", "boolean"),
    exp.ArrayDistinct: ("ArrayDistinct", ""),
    exp.ArraysZip: ("ArraysZip", ""),
    exp.Flatten: ("Flatten", ""),
    exp.GenerateSeries: ("Sequence", ""),
    exp.RegexpSplit: ("StringSplit", "array<string>"),
    exp.Explode: ("Explode", "row"),
    exp.Posexplode: ("PosExplode", "row"),
    exp.Inline: ("Inline", "row"),
    exp.Stack: ("Stack", "row"),
}


@reads(*_SIMPLE)
def _simple(reader: Reader, node: exp.Expr) -> Expr:
    function, type_ = _SIMPLE[type(node)]
    arguments = reader.all(arguments_of(node))
    return make(
        function, tuple(arguments), type_ or _first_type(function, arguments), any(a.nullable for a in arguments)
    )


def _first_type(function: str, arguments: list[Expr]) -> str:
    return arguments[0].type if function in ("Abs", "Reverse", "ArrayDistinct") else ""


@reads(exp.Initcap)
def _initcap(reader: Reader, node: exp.Initcap) -> Expr:
    return make("InitCap", (reader.read(node.this),), "string")


@reads(exp.Left, exp.Right)
def _end_of_text(reader: Reader, node: exp.Expr) -> Expr:
    value, length = reader.read(node.this), reader.read(node.expression)
    if isinstance(node, exp.Left):
        return make("Substring", (value, Literal("1", "int"), length), "string", value.nullable or length.nullable)
    return make("Right", (value, length), "string", value.nullable or length.nullable)


@reads(exp.Concat, exp.DPipe)
def _concat(reader: Reader, node: exp.Expr) -> Expr:
    values = reader.all(node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression])
    type_ = values[0].type if values and values[0].type.startswith("array") else "string"
    return make("Concat", tuple(values), type_, any(v.nullable for v in values))


@reads(exp.TsOrDsToDate)
def _to_date(reader: Reader, node: exp.TsOrDsToDate) -> Expr:
    """sqlglot writes it around the arguments of year() and its like, too, where Spark casts what is no date."""
    if len(arguments_of(node)) != 1:
        raise Unreadable(node.sql("spark"))
    value = reader.read(node.this)
    return value if not value.type else make("Cast", (value,), "date", value.nullable)


@reads(exp.TsOrDsAdd)
def _date_add(reader: Reader, node: exp.TsOrDsAdd) -> Expr:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise Unreadable(node.sql("spark"))
    day, days = reader.read(node.this), reader.read(node.expression)
    return make("DateAdd", (day, days), "date", day.nullable or days.nullable)


@reads(exp.Extract)
def _extract(reader: Reader, node: exp.Extract) -> Expr:
    return _part_of_date(node.this.name, reader.read(node.expression))


def _part_of_date(part: str, value: Expr) -> Expr:
    if value.type.startswith("interval"):
        days = interval_part(value, part.upper())
        if days is None:
            raise Unreadable(f"the {part} of {value}")
        return days
    function = PARTS_OF_DATES.get(part.upper())
    if function is None or value.type not in ("date", ""):
        raise Unreadable(f"the {part} of {value}")
    return make(function, (value,), "int", value.nullable)


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
    if node.expression is not None:
        raise Unreadable(node.sql("spark"))
    value = reader.read(node.this)
    return make(function, (value,), "string", value.nullable)


@reads(exp.Round)
def _round(reader: Reader, node: exp.Round) -> Expr:
    value = reader.read(node.this)
    digits = reader.read(node.args["decimals"]) if node.args.get("decimals") is not None else Literal("0", "int")
    return make("Round", (value, digits), "", value.nullable)


@reads(exp.Array)
def _array(reader: Reader, node: exp.Array) -> Expr:
    return make("CreateArray", tuple(reader.all(node.expressions)), "", False)


@reads(exp.Struct)
def _struct(reader: Reader, node: exp.Struct) -> Expr:
    fields = [(field.this.name, reader.read(field.expression)) for field in node.expressions]
    type_ = f"struct<{','.join(f'{name}:{value.type}' for name, value in fields)}>"
    return make("CreateNamedStruct", tuple(e for n, v in fields for e in (Literal(n, "string"), v)), type_, False)


@reads(exp.Bracket)
def _bracket(reader: Reader, node: exp.Bracket) -> Expr:
    value, place = reader.read(node.this), node.expressions[0]
    if isinstance(place, exp.Literal) and place.is_string and not value.type.startswith("map"):
        return field_of(value, place.name)
    return make("ElementAt" if node.args.get("offset") == 1 else "GetArrayItem", (value, reader.read(place)), "")


@reads(exp.ArraySort)
def _array_sort(reader: Reader, node: exp.ArraySort) -> Expr:
    """`sort_array(x)` and `array_sort(x)`; where NULLs are among the elements, the two differ in where they go."""
    nulls_first = node.args.get("nulls_first")
    if node.expression is not None or node.args.get("asc") is not None or not isinstance(nulls_first, exp.Boolean):
        raise Unreadable(node.sql("spark"))
    value = reader.read(node.this)
    return make("SortArray" if nulls_first.this else "ArraySort", (value,), value.type, value.nullable)


_HIGHER: dict[type[exp.Expr], str] = {
    exp.Transform: "ArrayTransform",
    exp.ArrayFilter: "ArrayFilter",
    exp.Exists: "ArrayExists",
}


@reads(*_HIGHER)
def _higher(reader: Reader, node: exp.Expr) -> Expr:
    if node.expression is None:
        raise Unreadable(f"a subquery: {node.sql('spark')}")
    value, function = reader.read(node.this), _HIGHER[type(node)]
    body = _lambda(reader, node.expression)
    type_ = {"ArrayExists": "boolean", "ArrayFilter": value.type}.get(function, "")
    return make(function, (value, body), type_, value.nullable)


def _lambda(reader: Reader, node: exp.Expr) -> Lambda:
    if not isinstance(node, exp.Lambda):
        raise Unreadable(f"{node.sql('spark')} as a lambda")
    outer = dict(reader.variables)
    variables = tuple(Variable(variable.name, "") for variable in node.expressions)
    reader.variables |= {variable.name: variable for variable in variables}
    body = reader.read(node.this)
    reader.variables = outer
    return Lambda(variables, body)


@reads(exp.Anonymous)
def _named(reader: Reader, node: exp.Anonymous) -> Expr:
    name, arguments = str(node.this).lower(), node.expressions
    if name == "is_between":
        value, low, high = reader.all(arguments)
        return between(value, low, high)
    if name == "date_part" and isinstance(arguments[0], exp.Literal):
        return _part_of_date(arguments[0].this, reader.read(arguments[1]))
    if name == "iff":
        values = reader.all(arguments)
        return branches("CaseWhen", values, values[1:])
    if name == "positive":
        return reader.read(arguments[0])
    if name not in NAMES:
        raise Unreadable(f"the function {name}")
    values = reader.all(arguments)
    function = NAMES[name]
    if function in ("IsNull", "IsNotNull", "Not"):
        return boolean(function, *values)
    type_ = (
        values[0].type
        if function in ("UnaryMinus", "Pmod")
        else {"Upper": "string", "Lower": "string"}.get(function, "")
    )
    return make(function, tuple(values), type_, any(v.nullable for v in values))
