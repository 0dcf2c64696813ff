"""Expressions that rules build: small constructors with the types and NULLs that Spark gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nabla.algebra.expressions import Apply, Expr, Literal
from nabla.algebra.functions import FUNCTIONS, NAMES

TRUE = Literal("true", "boolean")
FALSE = Literal("false", "boolean")

# The sign + stands for the addition of numbers here, not for the function that moves a date by an interval.
_SIGNS = {f.name: class_ for class_, f in FUNCTIONS.items() if f.form == "infix" and class_ != "DateAddYMInterval"}


def number(value: int, type_: str = "bigint") -> Literal:
    return Literal(str(value), type_)


def text(value: str) -> Literal:
    return Literal(value, "string")


def null(type_: str) -> Literal:
    return Literal(None, type_)


def is_null_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def equal(left: Expr, right: Expr, null_safe: bool = False) -> Expr:
    """`left = right`, or `left <=> right`, which takes two NULLs as equal."""
    nullable = not null_safe and (left.nullable or right.nullable)
    return Apply("EqualNullSafe" if null_safe else "EqualTo", (left, right), "boolean", nullable)


def compare(left: Expr, sign: str, right: Expr) -> Expr:
    """`left < right`, for any sign of comparison."""
    if sign in ("<>", "!="):
        return negate(equal(left, right))
    return Apply(_SIGNS[sign], (left, right), "boolean", left.nullable or right.nullable)


def arithmetic(left: Expr, sign: str, right: Expr, type_: str) -> Apply:
    return Apply(_SIGNS[sign], (left, right), type_, left.nullable or right.nullable)


def all_of(tests: Iterable[Expr]) -> Expr:
    """The conjunction of tests; TRUE if there are none."""
    return _chain("And", tests, TRUE)


def any_of(tests: Iterable[Expr]) -> Expr:
    """The disjunction of tests; FALSE if there are none."""
    return _chain("Or", tests, FALSE)


def _chain(function: str, tests: Iterable[Expr], none: Expr) -> Expr:
    result: Expr | None = None
    for test in tests:
        result = (
            test if result is None else Apply(function, (result, test), "boolean", result.nullable or test.nullable)
        )
    return none if result is None else result


def negate(test: Expr) -> Expr:
    return Apply("Not", (test,), "boolean", test.nullable)


def is_null(value: Expr) -> Apply:
    return Apply("IsNull", (value,), "boolean", False)


def is_not_null(value: Expr) -> Apply:
    return Apply("IsNotNull", (value,), "boolean", False)


def is_not_true(test: Expr) -> Expr:
    return negate(equal(test, TRUE, null_safe=True))


def case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Apply:
    """CASE WHEN condition THEN value … ELSE otherwise END; without `otherwise`, the value is NULL there."""
    values = [*(value for _, value in branches), *(() if otherwise is None else (otherwise,))]
    arguments = (*(part for branch in branches for part in branch), *values[len(branches) :])
    return Apply("CaseWhen", arguments, values[0].type, otherwise is None or any(value.nullable for value in values))


def when(condition: Expr, value: Expr, otherwise: Expr | None = None) -> Apply:
    """CASE WHEN condition THEN value ELSE otherwise END; without `otherwise`, the value is NULL there."""
    return case([(condition, value)], otherwise)


def coalesce(*values: Expr) -> Apply:
    return Apply("Coalesce", values, values[0].type, all(v.nullable for v in values))


def call(name: str, *arguments: Expr, type: str, nullable: bool = True) -> Apply:
    """The call of a function by its name in Spark SQL. The tree has to know the function."""
    return Apply(NAMES[name], arguments, type, nullable)


def named_struct(fields: Iterable[tuple[str, Expr]]) -> Apply:
    listed = list(fields)
    type_ = f"struct<{','.join(f'{name}:{value.type}' for name, value in listed)}>"
    return Apply("CreateNamedStruct", tuple(e for n, v in listed for e in (text(n), v)), type_, False)
