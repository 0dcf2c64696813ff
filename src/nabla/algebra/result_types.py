"""The type that a function returns for its arguments, as far as it follows from theirs without Spark.

Catalyst gives the types of views; this module types expressions that are read from text or from rules. An unknown type is an
empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nabla.algebra import types
from nabla.algebra.expressions import Expr, Literal
from nabla.algebra.functions import COMPARISONS, FUNCTIONS
from nabla.algebra.types import SqlType

Arguments = Sequence[Expr]


def result_type(function: str, arguments: Arguments) -> str:
    """The type of a function, by its class in Catalyst, applied to arguments."""
    known = _TYPES.get(function)
    if known is None:
        return ""
    return known if isinstance(known, str) else known(function, arguments)


def result_nullable(function: str, arguments: Arguments) -> bool:
    """Whether the result can be NULL: mostly where an argument can."""
    match function:
        case "IsNull" | "IsNotNull" | "EqualNullSafe" | "CreateArray" | "CreateNamedStruct" | "CreateMap":
            return False
        case "Coalesce" | "Greatest" | "Least":
            return all(argument.nullable for argument in arguments)
        case "CaseWhen":
            return len(arguments) % 2 == 0 or any(value.nullable for value in branches(arguments))
        case "TryCast" | "GetStructField" | "GetArrayStructFields" | "GetArrayItem" | "GetMapValue" | "ElementAt":
            return True
    return any(argument.nullable for argument in arguments)


def branches(arguments: Arguments) -> list[Expr]:
    """The values of a CASE, whose arguments are conditions and values in turn, and then perhaps ELSE."""
    return [*arguments[1::2], *(arguments[-1:] if len(arguments) % 2 else ())]


def common_type(values: Arguments) -> str:
    """The type that holds all of some values."""
    kinds = types.widest(types.parse_type(v.type) if v.type else types.UNKNOWN for v in values)
    same = {v.type for v in values if v.type != "void"}
    if len(same) == 1:
        return same.pop()
    return "" if kinds == types.UNKNOWN else str(kinds)


def element_type(array: str) -> str:
    """The type of the elements of an array."""
    return array[len("array<") : -1] if array.lower().startswith("array<") else ""


def field_type(struct: str, name: str) -> str:
    """The type of a field of a struct."""
    if not struct.lower().startswith("struct<"):
        return ""
    fields = (part.partition(":") for part in types.between_commas(struct[len("struct<") : -1]))
    return next((kind.strip() for own, _, kind in fields if own.strip().lower() == name.lower()), "")


def _kind(value: Expr) -> SqlType:
    return types.parse_type(value.type) if value.type else types.UNKNOWN


def _arithmetic(function: str, arguments: Arguments) -> str:
    left, right = arguments
    one, other = _kind(left), _kind(right)
    if not (types.numeric(one) and types.numeric(other)):
        return ""
    if function == "IntegralDivide":
        return "bigint"
    sign = FUNCTIONS[function].name
    if one in types.FRACTIONAL or other in types.FRACTIONAL:
        return "float" if one == other == types.FLOAT and sign != "/" else "double"
    if one in types.INTEGRAL and other in types.INTEGRAL:
        return "double" if sign == "/" else str(types.wider(one, other))
    decimals = [types.as_decimal(kind, _digits(e)) for kind, e in ((one, left), (other, right))]
    return str(types.decimal_result(sign, decimals[0], decimals[1]))


def _digits(value: Expr) -> int:
    return types.literal_digits(value.value, _kind(value)) if isinstance(value, Literal) and value.value else 0


def _first(function: str, arguments: Arguments) -> str:
    return arguments[0].type


def _integral_first(function: str, arguments: Arguments) -> str:
    return arguments[0].type if _kind(arguments[0]) in types.INTEGRAL else ""


def _common(function: str, arguments: Arguments) -> str:
    return common_type(branches(arguments) if function == "CaseWhen" else arguments)


def _whole(function: str, arguments: Arguments) -> str:
    """The type of ceil and floor."""
    kind = _kind(arguments[0])
    if kind.kind == "decimal":
        return str(types.bounded(kind.precision - kind.scale + 1, 0))
    return "bigint" if types.numeric(kind) else ""


def _round(function: str, arguments: Arguments) -> str:
    kind, digits = _kind(arguments[0]), arguments[1] if len(arguments) > 1 else Literal("0", "int")
    if kind.kind != "decimal":
        return arguments[0].type if types.numeric(kind) else ""
    if not isinstance(digits, Literal) or digits.value is None:
        return ""
    scale = min(kind.scale, max(int(digits.value), 0))
    whole = max(kind.precision - kind.scale + 1, 1 - int(digits.value))
    return str(types.bounded(whole + scale, scale))


def _concatenation(function: str, arguments: Arguments) -> str:
    return arguments[0].type if arguments and arguments[0].type.startswith("array") else "string"


def _array(function: str, arguments: Arguments) -> str:
    inner = common_type(arguments)
    return f"array<{inner}>" if inner else ""


def _field(function: str, arguments: Arguments) -> str:
    value, name = arguments
    assert isinstance(name, Literal)
    if function == "GetStructField":
        return field_type(value.type, name.value or "")
    inner = field_type(element_type(value.type), name.value or "")
    return f"array<{inner}>" if inner else ""


def _struct(function: str, arguments: Arguments) -> str:
    names = [name.value for name in arguments[::2] if isinstance(name, Literal)]
    values = [value.type for value in arguments[1::2]]
    fields = ",".join(f"{name}:{kind}" for name, kind in zip(names, values, strict=True))
    return f"struct<{fields}>" if all(values) else ""


def _map(function: str, arguments: Arguments) -> str:
    keys, values = common_type(arguments[::2]), common_type(arguments[1::2])
    return f"map<{keys},{values}>" if keys and values else ""


def _element(function: str, arguments: Arguments) -> str:
    """The type of an element of an array, or of a value of a map."""
    type_ = arguments[0].type
    if type_.lower().startswith("map<"):
        return types.between_commas(type_[len("map<") : -1])[1]
    return element_type(type_)


def _array_of_first(function: str, arguments: Arguments) -> str:
    return f"array<{arguments[0].type}>" if arguments[0].type else ""


def _transformation(function: str, arguments: Arguments) -> str:
    """The type of transform, whose lambda gives the elements."""
    return f"array<{arguments[1].type}>" if arguments[1].type else ""


_TYPES: dict[str, str | Callable[[str, Arguments], str]] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Divide", "Remainder", "IntegralDivide"), _arithmetic),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _common),
    **dict.fromkeys(("UnaryMinus", "Abs", "BitwiseNot", "Reverse"), _first),
    **dict.fromkeys(("ArrayDistinct", "SortArray", "ArraySort", "ArrayFilter"), _first),
    **dict.fromkeys(("CaseWhen", "Coalesce", "Greatest", "Least"), _common),
    **dict.fromkeys((*COMPARISONS, "And", "Or", "Not", "In", "IsNull", "IsNotNull"), "boolean"),
    **dict.fromkeys(("Like", "ILike", "RLike", "StartsWith", "EndsWith", "Contains"), "boolean"),
    **dict.fromkeys(("ArrayContains", "ArrayExists"), "boolean"),
    **dict.fromkeys(("Upper", "Lower", "InitCap", "Substring", "Right"), "string"),
    **dict.fromkeys(("StringReplace", "StringRepeat", "StringTrim", "StringTrimLeft", "StringTrimRight"), "string"),
    **dict.fromkeys(("Length", "StringInstr", "Size", "DateDiff"), "int"),
    **dict.fromkeys(("Year", "YearOfWeek", "Quarter", "Month", "WeekOfYear", "WeekDay"), "int"),
    **dict.fromkeys(("DayOfMonth", "DayOfWeek", "DayOfYear", "Hour", "Minute", "Second"), "int"),
    **dict.fromkeys(("DateAdd", "DateSub", "AddMonths", "DateAddYMInterval"), "date"),
    **dict.fromkeys(("Signum", "Sqrt", "Pow"), "double"),
    **dict.fromkeys(("Ceil", "Floor"), _whole),
    **dict.fromkeys(("GetArrayItem", "GetMapValue", "ElementAt", "Flatten"), _element),
    "Pmod": _integral_first,
    "Round": _round,
    "Concat": _concatenation,
    **dict.fromkeys(("GetStructField", "GetArrayStructFields"), _field),
    "CreateArray": _array,
    "CreateNamedStruct": _struct,
    "CreateMap": _map,
    "Sequence": _array_of_first,
    "ArrayTransform": _transformation,
    "StringSplit": "array<string>",
}
