"""Rules as data: terms, literals and rules as they are written, each with its place in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from nabla.algebra.by_name import CASTS
from nabla.algebra.expressions import quote, string_literal


@dataclass(frozen=True)
class Position:
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}" if self.line else ""


NOWHERE = Position()


@dataclass(frozen=True)
class Variable:
    name: str
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wildcard:
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Constant:
    """A literal: the text of its value, None for NULL, and its type; `shown` is how the rules write it."""

    value: str | None
    type: str
    shown: str
    place: Position = field(default=NOWHERE, compare=False)

    @property
    def sql(self) -> str:
        if self.value is None:
            return "NULL"
        return string_literal(self.value) if self.type == "string" else self.value

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True)
class Apply:
    """A call of a Spark function, or of an aggregate function in a head; `count(*)` has no arguments."""

    function: str
    arguments: tuple[Term, ...]
    distinct: bool = False
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.arguments)) or "*" * (self.function == "count")
        return f"{self.function}({'distinct ' if self.distinct else ''}{inside})"


@dataclass(frozen=True)
class Operation:
    """`left op right`, or a minus before its one operand."""

    operator: str
    operands: tuple[Term, ...]
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        def shown(term: Term) -> str:
            return f"({term})" if isinstance(term, Operation) else str(term)

        if len(self.operands) == 1:
            return f"{self.operator}{shown(self.operands[0])}"
        return f"{shown(self.operands[0])} {self.operator} {shown(self.operands[1])}"


@dataclass(frozen=True)
class Aggregation:
    """Souffle's `sum X : { body }`: over all facts that make the body true, for the surrounding rule's values."""

    function: str
    arguments: tuple[Term, ...]
    body: tuple[Literal, ...]
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.arguments))
        target = f" {inside}" if len(self.arguments) == 1 else f"({inside})" * bool(self.arguments)
        return f"{self.function}{target} : {{ {', '.join(map(str, self.body))} }}"


Term: TypeAlias = Variable | Wildcard | Constant | Apply | Operation | Aggregation


@dataclass(frozen=True)
class Atom:
    """A predicate with arguments. `names` has the columns of arguments that are given by name."""

    predicate: str
    arguments: tuple[Term, ...]
    negated: bool = False
    names: tuple[str | None, ...] = ()
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        names = self.names or (None,) * len(self.arguments)
        shown = ", ".join(f"{n}: {a}" if n else str(a) for n, a in zip(names, self.arguments, strict=True))
        return f"{'not ' if self.negated else ''}{self.predicate}({shown})"


@dataclass(frozen=True)
class Comparison:
    operator: str
    left: Term
    right: Term
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return f"{self.left} {'!=' if self.operator == '<>' else self.operator} {self.right}"


Literal: TypeAlias = Atom | Comparison


@dataclass(frozen=True)
class Rule:
    head: Atom
    body: tuple[Literal, ...] = ()
    place: Position = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        return f"{self.head} ⇐ {', '.join(map(str, self.body))}." if self.body else f"{self.head}."


TRUE = Constant("true", "boolean", "true")


def integer(value: int) -> Constant:
    return Constant(str(value), "int" if abs(value) < 1 << 31 else "bigint", str(value))


def parts(term: Term) -> tuple[Term, ...]:
    """The terms directly inside of a term and in its scope; the body of an aggregation is another scope."""
    if isinstance(term, Apply):
        return term.arguments
    return term.operands if isinstance(term, Operation) else ()


def walk(term: Term) -> Iterator[Term]:
    yield term
    for part in parts(term):
        yield from walk(part)


def variables_of(*terms: Term) -> dict[str, Variable]:
    """The variables of terms in the order of their occurrence, without those inside of aggregations."""
    found: dict[str, Variable] = {}
    for term in terms:
        for part in walk(term):
            if isinstance(part, Variable):
                found.setdefault(part.name, part)
    return found


def new_variables(letter: str, taken: Iterable[str]) -> Iterator[Variable]:
    """X1, X2 … without those that are taken."""
    used = set(taken)
    return (Variable(name) for i in count(1) if (name := f"{letter}{i}") not in used)


def terms_of(literal: Literal) -> tuple[Term, ...]:
    return literal.arguments if isinstance(literal, Atom) else (literal.left, literal.right)


def sql_of(term: Term) -> str:
    """Spark SQL text over the variables' names in backticks."""
    match term:
        case Variable():
            return quote(term.name)
        case Constant():
            return term.sql
        case Apply() if term.function in CASTS and len(term.arguments) == 1:
            return f"CAST({sql_of(term.arguments[0])} AS {term.function})"
        case Apply():
            inside = ", ".join(map(sql_of, term.arguments)) or "*" * (term.function == "count")
            return f"{term.function}({'DISTINCT ' if term.distinct else ''}{inside})"
        case Operation(operator="mod"):
            return f"({sql_of(term.operands[0])} % {sql_of(term.operands[1])})"
        case Operation() if len(term.operands) == 1:
            return f"({term.operator}{sql_of(term.operands[0])})"
        case Operation():
            return f"({sql_of(term.operands[0])} {term.operator} {sql_of(term.operands[1])})"
    raise AssertionError(f"{term} is no expression")
