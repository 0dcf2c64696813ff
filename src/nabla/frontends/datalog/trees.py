"""Terms of rules as expressions: typed trees in normal form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from nabla.algebra import expressions
from nabla.algebra.by_name import apply, by_name, infix
from nabla.algebra.expressions import Expr, Foreign
from nabla.frontends.datalog.terms import Apply, Constant, Operation, Term, Variable, sql_of

_CLASSES = {"+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide", "div": "IntegralDivide", "mod": "Remainder"}


def tree_of(term: Term, values: Mapping[Term, Expr]) -> Expr:
    """The expression of a term. `values` has the expressions of its variables, and of other terms in it that are known."""
    if term in values:
        return values[term]
    match term:
        case Constant():
            return constant(term)
        case Apply():
            arguments = tuple(tree_of(a, values) for a in term.arguments)
            return by_name(term.function, arguments) or _foreign(term, arguments)
        case Operation(operands=(_,)):
            return apply("UnaryMinus", (tree_of(term.operands[0], values),))
        case Operation(operator="||"):
            return apply("Concat", tuple(tree_of(operand, values) for operand in term.operands))
        case Operation():
            left, right = (tree_of(operand, values) for operand in term.operands)
            return infix(_CLASSES[term.operator], left, right) or _foreign(term, (left, right))
    raise AssertionError(f"{term} is no expression")


def with_type(expr: Expr, type_: str | None, nullable: bool) -> Expr:
    """An expression with the type that the program gives it."""
    if not isinstance(expr, Foreign | expressions.Apply):
        return expr
    return replace(expr, type=type_ or "void", nullable=nullable)


def constant(term: Constant) -> expressions.Literal:
    value = term.value
    if value is not None and term.type == "double":
        value = repr(float(value))
    elif value is not None and term.type.startswith("decimal"):
        value = str(Decimal(value))
    return expressions.Literal(value, term.type)


def _foreign(term: Apply | Operation, inputs: tuple[Expr, ...]) -> Foreign:
    """A function that the tree does not know, as its text in Spark SQL; `Typing` knows its type."""
    holes = tuple(Variable(f"{{{place}}}") for place, _ in enumerate(inputs))  # in backticks, as SQL quotes variables
    around = replace(term, arguments=holes) if isinstance(term, Apply) else replace(term, operands=holes)
    return Foreign(sql_of(around), inputs, "")
