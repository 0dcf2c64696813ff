"""Resolution of names: arguments get positions, and unknown predicates, wrong widths and rules for tables are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from nabla.errors import NablaError
from nabla.frontends.datalog.terms import (
    NOWHERE,
    TRUE,
    Aggregation,
    Apply,
    Atom,
    Comparison,
    Literal,
    Operation,
    Position,
    Rule,
    Term,
    Variable,
    Wildcard,
)

HOLDS = "holds"
"""The column of a predicate without arguments: `raining()` is stored as raining(true)."""


def near_names(name: str, known: Sequence[str]) -> str:
    by_lower = {k.lower(): k for k in known}
    found = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    return f"Did you mean {' or '.join(found)}?" if found else ""


class PredicateNames:
    """The columns of tables and of the predicates that the rules define."""

    def __init__(self, rules: Sequence[Rule], tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: tuple(columns) for name, columns in tables.items()}
        self.derived: dict[str, tuple[str, ...]] = {}
        self.defined_at: dict[str, Position] = {}
        for rule in rules:
            head = rule.head
            if head.predicate in self.tables:
                raise NablaError(
                    "NABLA_RULES_HEAD",
                    f'"{head.predicate}" is a table, and rules cannot add to it',
                    place=str(head.place),
                    remedy="Give the predicate another name, with a rule that reads the table.",
                )
            if head.predicate not in self.derived:
                self.derived[head.predicate] = column_names(head)
                self.defined_at[head.predicate] = head.place

    def columns(self, predicate: str, place: Position = NOWHERE) -> tuple[str, ...]:
        columns = self.derived.get(predicate, self.tables.get(predicate))
        if columns is None:
            raise NablaError(
                "NABLA_RULES_UNKNOWN",
                f'there is no table and no rule for "{predicate}"',
                place=str(place),
                remedy=near_names(predicate, [*self.derived, *self.tables]),
            )
        return columns

    def resolve(self, atom: Atom) -> Atom:
        columns = self.columns(atom.predicate, atom.place)
        arguments = tuple(map(self._term, atom.arguments))
        if atom.names:
            arguments = self._by_position(atom, columns, arguments)
        if not arguments and columns == (HOLDS,):
            arguments = (TRUE,)
        if len(arguments) != len(columns):
            raise self._wrong_width(atom, columns)
        return replace(atom, arguments=arguments, names=())

    def _wrong_width(self, atom: Atom, columns: tuple[str, ...]) -> NablaError:
        width = 0 if columns == (HOLDS,) else len(columns)
        known = f"as in {self.defined_at[atom.predicate]}" if atom.predicate in self.defined_at else "as the table has"
        return NablaError(
            "NABLA_RULES_ARITY",
            f'"{atom.predicate}" has {_counted(len(atom.arguments))} here and {width} {known}',
            place=str(atom.place),
            remedy=f"Its columns are {', '.join(columns)}." if width else "It is written without arguments.",
        )

    def _by_position(self, atom: Atom, columns: tuple[str, ...], arguments: tuple[Term, ...]) -> tuple[Term, ...]:
        by_lower = {c.lower(): c for c in columns}
        given: dict[str, Term] = {}
        for name, argument in zip(atom.names, arguments, strict=True):
            assert name is not None
            column = name if name in columns else by_lower.get(name.lower())
            if column is None or column in given:
                what = "twice" if column else f'and "{atom.predicate}" has no such column'
                raise NablaError(
                    "NABLA_RULES_COLUMN",
                    f'"{name}" is given {what}',
                    place=str(atom.place),
                    remedy="" if column else near_names(name, columns) or f"Its columns are {', '.join(columns)}.",
                )
            given[column] = argument
        return tuple(given.get(column, Wildcard(atom.place)) for column in columns)

    def _term(self, term: Term) -> Term:
        match term:
            case Aggregation():
                arguments = tuple(map(self._term, term.arguments))
                return replace(term, arguments=arguments, body=tuple(map(self.literal, term.body)))
            case Apply():
                return replace(term, arguments=tuple(map(self._term, term.arguments)))
            case Operation():
                return replace(term, operands=tuple(map(self._term, term.operands)))
        return term

    def literal(self, literal: Literal) -> Literal:
        if isinstance(literal, Comparison):
            return replace(literal, left=self._term(literal.left), right=self._term(literal.right))
        return self.resolve(literal)

    def rule(self, rule: Rule) -> Rule:
        return replace(rule, head=self.resolve(rule.head), body=tuple(map(self.literal, rule.body)))


def _counted(width: int) -> str:
    return f"{width} argument{'' if width == 1 else 's'}"


def column_names(head: Atom) -> tuple[str, ...]:
    """The columns of a predicate: names given in the head, else its variables in lower case, else c0, c1 …, each once."""
    if not head.arguments:
        return (HOLDS,)
    if head.names:
        return tuple(name for name in head.names if name is not None)
    wanted = [_label(argument) for argument in head.arguments]
    taken = {w for w in wanted if w and wanted.count(w) == 1}
    return tuple(w if w in taken else _free(i, taken) for i, w in enumerate(wanted))


def _label(argument: Term) -> str | None:
    if isinstance(argument, Variable) and not argument.name.startswith("_"):
        return argument.name.lower()
    return None


def _free(i: int, taken: set[str]) -> str:
    def candidates() -> Iterator[str]:
        yield f"c{i}"
        yield from (f"c{i}_{n}" for n in range(len(taken) + 1))

    return next(name for name in candidates() if name not in taken)
