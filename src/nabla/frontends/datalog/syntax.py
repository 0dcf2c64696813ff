"""The parser of rules. The grammar is in grammar.lark; this module makes terms of its trees, with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from nabla.algebra.types import decimal_literal
from nabla.errors import NablaError
from nabla.frontends.datalog.terms import (
    Aggregation,
    Apply,
    Atom,
    Comparison,
    Constant,
    Literal,
    Operation,
    Position,
    Rule,
    Term,
    Variable,
    Wildcard,
    integer,
    terms_of,
    variables_of,
)

Part: TypeAlias = "Tree[Token] | Token"

_SHOWN = {
    "NAME": "a name",
    "VARIABLE": "a variable",
    "INTEGER": "a number",
    "DECIMAL": "a number",
    "STRING": "a string",
    "LPAR": '"("',
    "RPAR": '")"',
    "COMMA": '","',
    "DOT": '"."',
    "ARROW": '":-"',
    "COMPARES": "a comparison",
    "RBRACE": '"}"',
    "LBRACE": '"{"',
    "COLON": '":"',
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


VIOLATION = "a violation"
"""The predicate of a denial. No table has such a name."""


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["start", "query"], propagate_positions=True, maybe_placeholders=False)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a program; a body with alternatives (`;`) becomes a rule for each."""
    rules, denials = _read(text)
    if denials:
        raise NablaError(
            "NABLA_RULES_SYNTAX",
            "a denial stands among rules",
            place=str(_place(denials[0])),
            remedy="What must not be is a constraint: lake.create_constraint(name, rules=...).",
        )
    return rules


def parse_denial(text: str) -> tuple[Rule, ...]:
    """The rules of a text, and its one denial as rules for `VIOLATION`, whose arguments are the denial's variables."""
    rules, denials = _read(text)
    if len(denials) != 1:
        raise NablaError(
            "NABLA_RULES_SYNTAX",
            f"a constraint has one denial, and here are {len(denials) or 'none'}",
            place=str(_place(denials[1])) if denials else "1:1",
            remedy="Write one, such as :- path(X, X). Make a constraint of each of several.",
        )
    (denial,) = denials
    bodies = [_body(_tree(conjunction)) for conjunction in _tree(denial.children[1]).children]
    found = [variables_of(*(t for literal in body for t in terms_of(literal))) for body in bodies]
    shared = tuple(v for name, v in found[0].items() if all(name in other for other in found))
    return (*rules, *(Rule(Atom(VIOLATION, shared), body, _place(denial)) for body in bodies))


def _read(text: str) -> tuple[tuple[Rule, ...], list[Tree[Token]]]:
    trees = [_tree(part) for part in _parse(text, "start").children]
    rules = (rule for tree in trees if tree.data == "rule" for rule in _rules(tree))
    return tuple(rules), [tree for tree in trees if tree.data == "denial"]


def parse_query(text: str) -> Atom:
    """One atom, `path(1, X)`, for a question."""
    return _atom(_tree(_parse(text.strip(), "query").children[0]))


def _parse(text: str, start: str) -> Tree[Token]:
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None


def _syntax_error(text: str, error: UnexpectedInput) -> NablaError:
    expected: list[str] = []
    if isinstance(error, UnexpectedToken):
        found = "the end of the text" if error.token.type == "$END" else f'"{error.token}"'
        expected = sorted({_SHOWN[t] for t in error.accepts or error.expected if t in _SHOWN})
    elif isinstance(error, UnexpectedCharacters):
        found = f'"{error.char}"'
        expected = sorted({_SHOWN[t] for t in error.allowed if t in _SHOWN})
    else:
        found = "the end of the text"
    place = Position(error.line, error.column)
    if error.line < 1 or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        lines = text.split("\n")
        place = Position(len(lines), len(lines[-1]) + 1)
    here = text.split("\n")[: place.line]
    remedy = "Strings are written in quotes and variables with a capital letter."
    if any("%" in line for line in here[-2:]):
        remedy = "A % starts a comment: the remainder of a division is written X mod 2."
    wanted = f", where {' or '.join(expected)} could follow" if expected else ""
    return NablaError("NABLA_RULES_SYNTAX", f"{found} is not expected{wanted}", place=str(place), remedy=remedy)


def _tree(part: Part) -> Tree[Token]:
    assert isinstance(part, Tree)
    return part


def _place(part: Part) -> Position:
    if isinstance(part, Token):
        return Position(part.line or 0, part.column or 0)
    return Position(part.meta.line, part.meta.column)


def _rules(tree: Tree[Token]) -> Iterator[Rule]:
    head = _atom(_tree(tree.children[0]))
    if len(tree.children) == 1:
        yield Rule(head, (), _place(tree))
        return
    for conjunction in _tree(tree.children[2]).children:
        yield Rule(head, _body(_tree(conjunction)), _place(tree))


def _body(conjunction: Tree[Token]) -> tuple[Literal, ...]:
    return tuple(_literal(_tree(part)) for part in conjunction.children)


def _literal(tree: Tree[Token]) -> Literal:
    match tree.data:
        case "negation":
            return replace(_atom(_tree(tree.children[1])), negated=True, place=_place(tree))
        case "comparison":
            left, sign, right = tree.children
            operator = {"==": "=", "!=": "<>"}.get(str(sign), str(sign))
            return Comparison(operator, _term(left), _term(right), _place(tree))
    return _atom(tree)


def _name(token: Part) -> str:
    text = str(token)
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _atom(tree: Tree[Token]) -> Atom:
    predicate, *arguments = tree.children
    names: list[str | None] = []
    terms: list[Term] = []
    for argument in arguments:
        named = isinstance(argument, Tree) and argument.data == "named"
        names.append(_name(_tree(argument).children[0]) if named else None)
        terms.append(_term(_tree(argument).children[1] if named else argument))
    if any(names) and not all(names):
        raise NablaError(
            "NABLA_RULES_SYNTAX",
            f"{_name(predicate)} has arguments by name and by position",
            place=str(_place(tree)),
            remedy="Give all of them by name, or none.",
        )
    return Atom(_name(predicate), tuple(terms), False, tuple(names) if any(names) else (), _place(tree))


def _term(part: Part) -> Term:
    place = _place(part)
    if isinstance(part, Token) or part.data == "distinct":
        raise _misplaced_error("*" if isinstance(part, Token) else "distinct", place)
    match part.data:
        case "variable":
            return Variable(str(part.children[0]), place)
        case "wildcard":
            return Wildcard(place)
        case "constant":
            return _constant(part.children[0], place)
        case "negative":
            return _negative(_term(part.children[1]), place)
        case "binary":
            left, operator, right = part.children
            return Operation(str(operator), (_term(left), _term(right)), place)
        case "aggregation":
            return _aggregation(part, place)
    return _application(part, place)


def _misplaced_error(what: str, place: Position) -> NablaError:
    return NablaError(
        "NABLA_RULES_SYNTAX", f"{what} stands where an expression is expected", place=str(place), remedy=""
    )


def _application(tree: Tree[Token], place: Position) -> Apply:
    function, *arguments = tree.children
    if len(arguments) == 1:
        (only,) = arguments
        if isinstance(only, Token):
            return Apply(_name(function).lower(), (), False, place)
        if only.data == "distinct":
            return Apply(_name(function).lower(), (_term(only.children[1]),), True, place)
    return Apply(_name(function).lower(), tuple(map(_term, arguments)), False, place)


def _aggregation(tree: Tree[Token], place: Position) -> Aggregation:
    first, *rest = tree.children
    body = _body(_tree(rest[-1]))
    if isinstance(first, Tree):
        call = _application(first, place)
        return Aggregation(call.function, call.arguments, body, place)
    arguments = tuple(map(_term, rest[:-1]))
    function = str(first).lower()
    return Aggregation("avg" if function == "mean" else function, arguments, body, place)


def _negative(term: Term, place: Position) -> Term:
    if isinstance(term, Constant) and term.value is not None and term.type not in ("string", "boolean"):
        value = term.value[1:] if term.value.startswith("-") else f"-{term.value}"
        return Constant(value, term.type, value, place)
    return Operation("-", (term,), place)


def _constant(part: Part, place: Position) -> Constant:
    assert isinstance(part, Token)
    text = str(part)
    match part.type:
        case "INTEGER":
            return replace(integer(int(text)), place=place)
        case "DECIMAL":
            kind = "double" if "e" in text.lower() else str(decimal_literal(Decimal(text)))
            return Constant(text, kind, text, place)
        case "STRING":
            return replace(string(_unescape(text)), place=place)
        case "NULL":
            return Constant(None, "void", "null", place)
    return Constant(text, "boolean", text, place)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1], flags=re.DOTALL)


def string(value: str) -> Constant:
    shown = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return Constant(value, "string", f'"{shown}"')
