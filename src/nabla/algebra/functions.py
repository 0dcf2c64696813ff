"""The functions that the tree of expressions knows, by their class in Catalyst, and how Spark SQL writes each of them.

The class says exactly what Spark computes, whatever name a query used: `lcase(x)`, `lower(x)` and `LOWER(x)` are all
`Lower`. A function that is not listed here is not refused: it is a `Foreign` node that carries Spark's own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Form = Literal["call", "infix", "prefix", "postfix", "in", "case", "cast", "item", "field", "like", "trim"]


@dataclass(frozen=True)
class Function:
    """A function as Spark SQL writes it: its name or sign, the form of the call, and its other names."""

    name: str
    form: Form = "call"
    aliases: tuple[str, ...] = ()
    least: int = 1
    most: int | None = 1
    """The least number of arguments, and the greatest if there is one."""

    def takes(self, arguments: int) -> bool:
        return self.least <= arguments and (self.most is None or arguments <= self.most)

    def write(self, arguments: Sequence[str], type_: str) -> str:
        """The text of a call. It needs no parentheses around it, wherever it is put."""
        match self.form:
            case "call":
                return f"{self.name}({', '.join(arguments)})"
            case "infix":
                return f"({f' {self.name} '.join(arguments)})"
            case "prefix":
                return f"({self.name} {arguments[0]})"
            case "postfix":
                return f"({arguments[0]} {self.name})"
            case "in":
                return f"({arguments[0]} {self.name} ({', '.join(arguments[1:])}))"
            case "case":
                return _case(arguments)
            case "cast":
                return f"{self.name}({arguments[0]} AS {type_})"
            case "item" | "field":
                return f"{arguments[0]}[{arguments[1]}]"
            case "like":
                escape = f" ESCAPE {arguments[2]}" if len(arguments) > 2 else ""
                return f"({arguments[0]} {self.name} {arguments[1]}{escape})"
            case "trim":
                value, *characters = arguments
                return (
                    f"trim({self.name} {characters[0]} FROM {value})" if characters else f"{self.aliases[0]}({value})"
                )


def _case(arguments: Sequence[str]) -> str:
    """CASE as SQL; the arguments are conditions and values in turn, and then perhaps the value of ELSE."""
    pairs = zip(arguments[::2], arguments[1::2], strict=False)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    otherwise = f" ELSE {arguments[-1]}" if len(arguments) % 2 else ""
    return f"CASE {branches}{otherwise} END"


def _call(name: str, *aliases: str, least: int = 1, most: int | None = 1) -> Function:
    return Function(name, "call", aliases, least, most)


def _infix(sign: str, *aliases: str) -> Function:
    return Function(sign, "infix", aliases, 2, 2)


FUNCTIONS: dict[str, Function] = {
    # Arithmetic
    "Add": _infix("+"),
    "Subtract": _infix("-"),
    "Multiply": _infix("*"),
    "Divide": _infix("/"),
    "Remainder": _infix("%", "mod"),
    "IntegralDivide": _infix("div"),
    "UnaryMinus": Function("-", "prefix", ("negative",)),
    "BitwiseAnd": _infix("&"),
    "BitwiseOr": _infix("|"),
    "BitwiseXor": _infix("^"),
    "BitwiseNot": Function("~", "prefix"),
    "Abs": _call("abs"),
    "Ceil": _call("ceil", "ceiling"),
    "Floor": _call("floor"),
    "Round": _call("round", least=2, most=2),
    "Signum": _call("signum", "sign"),
    "Sqrt": _call("sqrt"),
    "Pow": _call("power", "pow", least=2, most=2),
    "Pmod": _call("pmod", least=2, most=2),
    # Comparison and logic
    "EqualTo": _infix("=", "=="),
    "EqualNullSafe": _infix("<=>", "equal_null"),
    "LessThan": _infix("<"),
    "LessThanOrEqual": _infix("<="),
    "GreaterThan": _infix(">"),
    "GreaterThanOrEqual": _infix(">="),
    "And": _infix("AND"),
    "Or": _infix("OR"),
    "Not": Function("NOT", "prefix", ("!",)),
    "IsNull": Function("IS NULL", "postfix", ("isnull",)),
    "IsNotNull": Function("IS NOT NULL", "postfix", ("isnotnull",)),
    "In": Function("IN", "in", (), 2, None),
    "CaseWhen": Function("CASE", "case", (), 2, None),
    "Coalesce": _call("coalesce", "nvl", "ifnull", least=1, most=None),
    "Greatest": _call("greatest", least=2, most=None),
    "Least": _call("least", least=2, most=None),
    "Cast": Function("CAST", "cast"),
    "TryCast": Function("TRY_CAST", "cast"),
    # Text
    "Upper": _call("upper", "ucase"),
    "Lower": _call("lower", "lcase"),
    "InitCap": _call("initcap"),
    "Length": _call("length", "char_length", "character_length", "len"),
    "Substring": _call("substring", "substr", least=2, most=3),
    "Right": _call("right", least=2, most=2),
    "StringReplace": _call("replace", least=2, most=3),
    "StringRepeat": _call("repeat", least=2, most=2),
    "StringTrim": Function("BOTH", "trim", ("trim",), 1, 2),
    "StringTrimLeft": Function("LEADING", "trim", ("ltrim",), 1, 2),
    "StringTrimRight": Function("TRAILING", "trim", ("rtrim",), 1, 2),
    "StringInstr": _call("instr", least=2, most=2),
    "StringSplit": _call("split", least=2, most=3),
    "StartsWith": _call("startswith", least=2, most=2),
    "EndsWith": _call("endswith", least=2, most=2),
    "Contains": _call("contains", least=2, most=2),
    "Reverse": _call("reverse"),
    "Concat": _call("concat", least=0, most=None),
    "Like": Function("LIKE", "like", (), 2, 3),
    "ILike": Function("ILIKE", "like", (), 2, 3),
    "RLike": _infix("RLIKE", "rlike", "regexp_like", "regexp"),
    # Time
    "Year": _call("year"),
    "YearOfWeek": _call("extract_yearofweek"),
    "Quarter": _call("quarter"),
    "Month": _call("month"),
    "WeekOfYear": _call("weekofyear"),
    "WeekDay": _call("weekday"),
    "DayOfMonth": _call("day", "dayofmonth"),
    "DayOfWeek": _call("dayofweek"),
    "DayOfYear": _call("dayofyear"),
    "Hour": _call("hour"),
    "Minute": _call("minute"),
    "Second": _call("second"),
    "DateAdd": _call("date_add", "dateadd", least=2, most=2),
    "DateSub": _call("date_sub", least=2, most=2),
    "DateDiff": _call("datediff", "date_diff", least=2, most=2),
    "AddMonths": _call("add_months", least=2, most=2),
    "DateAddYMInterval": _infix("+"),
    # Arrays, structs and maps
    "CreateArray": _call("array", least=0, most=None),
    "CreateNamedStruct": _call("named_struct", least=2, most=None),
    "CreateMap": _call("map", least=0, most=None),
    "GetStructField": Function("[]", "field", (), 2, 2),
    "GetArrayStructFields": Function("[]", "field", (), 2, 2),
    "GetArrayItem": Function("[]", "item", (), 2, 2),
    "GetMapValue": Function("[]", "item", (), 2, 2),
    "ElementAt": _call("element_at", least=2, most=2),
    "Size": _call("size", "cardinality"),
    "ArrayContains": _call("array_contains", least=2, most=2),
    "ArrayDistinct": _call("array_distinct"),
    "ArraysZip": _call("arrays_zip", least=0, most=None),
    "SortArray": _call("sort_array", least=1, most=2),
    "ArraySort": _call("array_sort", least=1, most=2),
    "Flatten": _call("flatten"),
    "Sequence": _call("sequence", least=2, most=3),
    "ArrayTransform": _call("transform", least=2, most=2),
    "ArrayFilter": _call("filter", least=2, most=2),
    "ArrayExists": _call("exists", "any", least=2, most=2),
    # Generators
    "Explode": _call("explode"),
    "PosExplode": _call("posexplode"),
    "Inline": _call("inline"),
    "Stack": _call("stack", least=2, most=None),
}

NEGATED: dict[str, Function] = {
    "EqualTo": _infix("<>"),
    "In": Function("NOT IN", "in", (), 2, None),
    "Like": Function("NOT LIKE", "like", (), 2, 3),
    "ILike": Function("NOT ILIKE", "like", (), 2, 3),
}
"""The form of NOT of a function, for functions that have one: `x IS NOT NULL`."""

NAMES: dict[str, str] = {
    name.lower(): class_
    for class_, function in FUNCTIONS.items()
    for name in ((function.name,) if function.form == "call" else ()) + function.aliases
}
"""The class of a function by the names under which Spark SQL calls it."""

COMPARISONS = ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")
