"""Columns, constants, arithmetic, comparison, logic and branches."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from nabla.algebra import types
from nabla.algebra.by_name import apply, infix
from nabla.algebra.expressions import Expr, Literal
from nabla.algebra.normalize import between, null_if
from nabla.algebra.parse.reader import Reader, Unreadable, boolean, branches, reads

# Leaves


@reads(exp.Column)
def _column(reader: Reader, node: exp.Column) -> Expr:
    head, *fields = [part.name for part in node.parts]
    if head in reader.variables and not node.parts[0].args.get("quoted"):
        found: Expr = reader.variables[head]
    elif head.isdecimal():
        found = reader.leaves[int(head)]
    else:
        raise Unreadable(f"{node.sql('spark')} is not a quoted column")
    for field in fields:
        found = field_of(found, field)
    return found


@reads(exp.Dot)
def _dot(reader: Reader, node: exp.Dot) -> Expr:
    return field_of(reader.read(node.this), node.expression.name)


def field_of(value: Expr, name: str) -> Expr:
    function = "GetArrayStructFields" if value.type.startswith("array") else "GetStructField"
    return apply(function, (value, Literal(name, "string")))


@reads(exp.Identifier)
def _identifier(reader: Reader, node: exp.Identifier) -> Expr:
    if node.name not in reader.variables:
        raise Unreadable(f"{node.name} is not a variable of a lambda around it")
    return reader.variables[node.name]


@reads(exp.Literal)
def _literal(reader: Reader, node: exp.Literal) -> Expr:
    text: str = node.this
    if node.is_string:
        return Literal(text, "string")
    if text.isdecimal():
        return Literal(str(int(text)), "int" if int(text) < 1 << 31 else "bigint")
    if "e" in text.lower():
        return Literal(repr(float(text)), "double")
    return Literal(str(Decimal(text)), str(types.decimal_literal(Decimal(text))))


@reads(exp.RawString)
def _raw_string(reader: Reader, node: exp.RawString) -> Expr:
    return Literal(node.this, "string")


@reads(exp.Null)
def _null(reader: Reader, node: exp.Null) -> Expr:
    return Literal(None, "void")


@reads(exp.Boolean)
def _truth(reader: Reader, node: exp.Boolean) -> Expr:
    return Literal("true" if node.this else "false", "boolean")


@reads(exp.Paren)
def _paren(reader: Reader, node: exp.Paren) -> Expr:
    return reader.read(node.this)


@reads(exp.Interval)
def _interval(reader: Reader, node: exp.Interval) -> Expr:
    unit, count = str(node.args.get("unit")).upper().removesuffix("S"), node.this
    if (
        unit not in ("YEAR", "MONTH", "DAY")
        or not isinstance(count, exp.Literal)
        or not count.this.lstrip("-").isdecimal()
    ):
        raise Unreadable(node.sql("spark"))
    return Literal(f"INTERVAL '{count.this}' {unit}", f"interval {unit.lower()}")


# Arithmetic, comparison, logic

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "Add",
    exp.Sub: "Subtract",
    exp.Mul: "Multiply",
    exp.Div: "Divide",
    exp.Mod: "Remainder",
    exp.IntDiv: "IntegralDivide",
    exp.BitwiseAnd: "BitwiseAnd",
    exp.BitwiseOr: "BitwiseOr",
    exp.BitwiseXor: "BitwiseXor",
}
_COMPARING: dict[type[exp.Expr], str] = {
    exp.EQ: "EqualTo",
    exp.LT: "LessThan",
    exp.LTE: "LessThanOrEqual",
    exp.GT: "GreaterThan",
    exp.GTE: "GreaterThanOrEqual",
    exp.NullSafeEQ: "EqualNullSafe",
    exp.EqualNull: "EqualNullSafe",
}


@reads(*_ARITHMETIC)
def _arithmetic(reader: Reader, node: exp.Binary) -> Expr:
    left, right = reader.read(node.left), reader.read(node.right)
    found = infix(_ARITHMETIC[type(node)], left, right)
    if found is None:
        raise Unreadable(f"{node.sql('spark')}")
    return found


@reads(exp.Neg, exp.Negative)
def _negative(reader: Reader, node: exp.Neg | exp.Negative) -> Expr:
    return apply("UnaryMinus", (reader.read(node.this),))


@reads(*_COMPARING)
def _comparison(reader: Reader, node: exp.Expr) -> Expr:
    return boolean(_COMPARING[type(node)], reader.read(node.this), reader.read(node.expression))


@reads(exp.NEQ)
def _unequal(reader: Reader, node: exp.NEQ) -> Expr:
    return boolean("Not", boolean("EqualTo", reader.read(node.left), reader.read(node.right)))


@reads(exp.NullSafeNEQ)
def _distinct_from(reader: Reader, node: exp.NullSafeNEQ) -> Expr:
    return boolean("Not", boolean("EqualNullSafe", reader.read(node.left), reader.read(node.right)))


@reads(exp.And, exp.Or)
def _connective(reader: Reader, node: exp.Binary) -> Expr:
    return boolean(type(node).__name__, reader.read(node.left), reader.read(node.right))


@reads(exp.Not)
def _not(reader: Reader, node: exp.Not) -> Expr:
    return boolean("Not", reader.read(node.this))


@reads(exp.Is)
def _is(reader: Reader, node: exp.Is) -> Expr:
    operand, wanted = reader.read(node.this), reader.read(node.expression)
    if isinstance(wanted, Literal) and wanted.value is None:
        return boolean("IsNull", operand)
    return boolean("EqualNullSafe", operand, wanted)


@reads(exp.Between)
def _between(reader: Reader, node: exp.Between) -> Expr:
    return between(reader.read(node.this), reader.read(node.args["low"]), reader.read(node.args["high"]))


@reads(exp.In)
def _in(reader: Reader, node: exp.In) -> Expr:
    if not node.expressions or node.args.get("query"):
        raise Unreadable(f"a subquery: {node.sql('spark')}")
    return boolean("In", *reader.all([node.this, *node.expressions]))


# Branches


@reads(exp.Case)
def _case(reader: Reader, node: exp.Case) -> Expr:
    operand = reader.read(node.this) if node.this is not None else None
    arguments: list[Expr] = []
    for branch in node.args["ifs"]:
        condition = reader.read(branch.this)
        arguments.append(condition if operand is None else boolean("EqualTo", operand, condition))
        arguments.append(reader.read(branch.args["true"]))
    values = arguments[1::2]
    if (default := node.args.get("default")) is not None:
        arguments.append(reader.read(default))
        values = [*values, arguments[-1]]
    return branches("CaseWhen", arguments, values)


@reads(exp.If)
def _if(reader: Reader, node: exp.If) -> Expr:
    values = reader.all(v for v in (node.args["true"], node.args.get("false")) if v is not None)
    return branches("CaseWhen", [reader.read(node.this), *values], values)


@reads(exp.Nvl2)
def _nvl2(reader: Reader, node: exp.Nvl2) -> Expr:
    values = reader.all([node.args["true"], node.args["false"]])
    return branches("CaseWhen", [boolean("IsNotNull", reader.read(node.this)), *values], values)


@reads(exp.Nullif)
def _nullif(reader: Reader, node: exp.Nullif) -> Expr:
    return null_if(reader.read(node.this), reader.read(node.expression))


@reads(exp.Coalesce, exp.Greatest, exp.Least)
def _choice(reader: Reader, node: exp.Func) -> Expr:
    values = reader.all([node.this, *node.expressions])
    return branches(type(node).__name__, values, values)
