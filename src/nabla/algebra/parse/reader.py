"""The reader of sqlglot's trees: it dispatches on their classes, and knows columns by number and variables of lambdas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from sqlglot import exp

from nabla.algebra.by_name import apply
from nabla.algebra.expressions import Expr, Literal, MalformedExpression, Variable
from nabla.algebra.result_types import common_type

# Flags of sqlglot's nodes that say what Spark does anyway, or that a form looks at. Others may change the meaning.
_UNDERSTOOD = frozenset(
    ("safe", "typed", "quoted", "is_string", "this", "big_int", "negate", "only_json_types", "ignore_nulls")
)


class Unreadable(Exception):
    """The tree has no node for a part of the text."""


Form: TypeAlias = Callable[["Reader", Any], Expr]
_AnyForm = TypeVar("_AnyForm", bound=Form)
_FORMS: dict[type[exp.Expr], Form] = {}


def reads(*kinds: type[exp.Expr]) -> Callable[[_AnyForm], _AnyForm]:
    def register(form: _AnyForm) -> _AnyForm:
        _FORMS.update(dict.fromkeys(kinds, form))
        return form

    return register


class Reader:
    """Reads sqlglot's tree of one expression; knows its columns by number, and the variables of its lambdas."""

    def __init__(self, leaves: tuple[Expr, ...]) -> None:
        self.leaves = leaves
        self.variables: dict[str, Variable] = {}

    def read(self, node: exp.Expr) -> Expr:
        form = _FORMS.get(type(node))
        if form is None:
            raise Unreadable(f"{type(node).__name__} in {node.sql('spark')}")
        if flags := {name for name, value in node.args.items() if value is True} - _UNDERSTOOD:
            raise Unreadable(f"{', '.join(sorted(flags))} in {node.sql('spark')}")
        try:
            found = form(self, node)
        except MalformedExpression as wrong:  # a form of the function that the tree does not know
            raise Unreadable(f"{wrong} in {node.sql('spark')}") from None
        if node.args.get("negate"):  # x NOT LIKE y, which is not always a Not(Like)
            return boolean("Not", found)
        return found

    def all(self, nodes: Iterable[exp.Expr]) -> list[Expr]:
        return [self.read(node) for node in nodes]


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function in the order in which they are written; a unit is implied by the function."""
    found: list[exp.Expr] = []
    for name in node.arg_types:
        value = node.args.get(name)
        found += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    return [argument for argument in found if not isinstance(argument, exp.Var)]


def boolean(function: str, *arguments: Expr) -> Expr:
    return apply(function, arguments)


def branches(function: str, arguments: list[Expr], values: list[Expr]) -> Expr:
    """A NULL among the values has their type."""
    type_ = common_type(values)
    typed = (Literal(None, type_) if type_ and a == Literal(None, "void") else a for a in arguments)
    return apply(function, tuple(typed))
