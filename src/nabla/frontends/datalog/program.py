"""A program: rules over tables, checked, typed and stratified. Every derived predicate becomes a view of its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from nabla._cached import cached_property
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node, Project
from nabla.calculus.recursion.relations import Fresh, scan
from nabla.frontends.datalog.clauses import Clause, split_lookups
from nabla.frontends.datalog.functions import KnownTypes, TypeOf, plain_type_of
from nabla.frontends.datalog.normal import Normalizer
from nabla.frontends.datalog.plans import predicate_plan
from nabla.frontends.datalog.recursion import Group
from nabla.frontends.datalog.resolve import PredicateNames, column_names
from nabla.frontends.datalog.strata import Stratum, stratify
from nabla.frontends.datalog.syntax import VIOLATION, parse_denial, parse_rules
from nabla.frontends.datalog.terms import Rule
from nabla.frontends.datalog.types import Typing
from nabla.rewrite.passes import DEFINITION, Keys, rewrite

Tables: TypeAlias = Mapping[str, Sequence[tuple[str, str] | Column]]
"""The columns of tables: names and Spark types, `bigint not null` where a column has no NULLs."""


def parse_program(text: str, tables: Tables, type_of: TypeOf = plain_type_of, *, denies: bool = False) -> Program:
    """Read and check rules, with a denial if it `denies`. `type_of` gives the types of expressions; with a lake, it asks
    Spark."""
    return program_of(parse_denial(text) if denies else parse_rules(text), tables, type_of, text)


def program_of(rules: Iterable[Rule], tables: Tables, type_of: TypeOf = plain_type_of, text: str = "") -> Program:
    written = tuple(rules)
    columns = {name: tuple(map(_column, given)) for name, given in tables.items()}
    names = PredicateNames(written, {name: [c.name for c in own] for name, own in columns.items()})
    resolved = tuple(map(names.rule, written))
    normalizer = Normalizer({*names.derived, *names.tables})
    clauses = tuple(normalizer.apart(clause for rule in resolved for clause in normalizer.clauses(rule)))
    text = text or "\n".join(map(str, written))
    return _check(text, resolved, clauses, columns, names.derived, type_of, normalizer.hidden)


def program_of_clauses(
    clauses: Iterable[Clause],
    tables: Tables,
    type_of: TypeOf = plain_type_of,
    labels: Mapping[str, tuple[str, ...]] | None = None,
) -> Program:
    """A program of clauses, as rewritings make them."""
    made = tuple(clauses)
    columns = {name: tuple(map(_column, given)) for name, given in tables.items()}
    return _check("\n".join(map(str, made)), (), made, columns, labels or {}, type_of, {})


def _check(
    text: str,
    rules: tuple[Rule, ...],
    clauses: tuple[Clause, ...],
    tables: Mapping[str, tuple[Column, ...]],
    labels: Mapping[str, tuple[str, ...]],
    type_of: TypeOf,
    hidden: Mapping[str, str],
) -> Program:
    labels = {name: tuple(c.name for c in columns) for name, columns in tables.items()} | dict(labels)
    by_predicate: dict[str, list[Clause]] = {}
    for clause in clauses:
        labels.setdefault(clause.predicate, column_names(clause.head))
        by_predicate.setdefault(clause.predicate, []).append(clause)
    strata = stratify(clauses, hidden)
    groups = [[c for p in stratum.predicates for c in by_predicate[p]] for stratum in strata]
    return Program(text, rules, clauses, tables, strata, Typing(groups, labels, tables, type_of), hidden)


def _column(given: tuple[str, str] | Column) -> Column:
    if isinstance(given, Column):
        return given
    name, kind = given
    lower = kind.lower().rstrip()
    not_null = lower.endswith("not null")
    return Column(name, kind[: len(lower) - len("not null")].strip() if not_null else kind, not not_null)


class Program:
    """A checked program. `rules` are the rules as they are written, with resolved atoms; `clauses` are their normal form."""

    def __init__(
        self,
        text: str,
        rules: tuple[Rule, ...],
        clauses: tuple[Clause, ...],
        tables: Mapping[str, tuple[Column, ...]],
        strata: tuple[Stratum, ...],
        typing: Typing,
        hidden: Iterable[str],
    ) -> None:
        self.text = text
        self.rules = rules
        self.clauses = clauses
        self.tables = dict(tables)
        self.strata = strata
        self.typing = typing
        self.hidden = frozenset(hidden)
        self._plans: dict[str, Node] = {}
        self._clauses: dict[str, tuple[Clause, ...]] = {}
        for clause in clauses:
            self._clauses[clause.predicate] = (*self._clauses.get(clause.predicate, ()), clause)
        self._stratum = {p: stratum for stratum in strata for p in stratum.predicates}

    def to_json(self) -> dict[str, Any]:
        tables = {name: [[c.name, c.type, c.nullable] for c in columns] for name, columns in self.tables.items()}
        denies = {"denies": True} if VIOLATION in self.predicates else {}
        return {"text": self.text, "tables": tables, "types": self.typing.type_of.to_json(), **denies}

    @classmethod
    def from_json(cls, json: Mapping[str, Any], type_of: TypeOf = plain_type_of) -> Program:
        tables = {name: [Column(*column) for column in columns] for name, columns in json["tables"].items()}
        return parse_program(json["text"], tables, KnownTypes(type_of, json["types"]), denies=json.get("denies", False))

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that the rules define, each after those that it reads, without the hidden ones of aggregates."""
        return tuple(p for stratum in self.strata for p in stratum.predicates if p not in self.hidden)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The predicates that must be kept as views: all that the rules define, and hidden ones that recursion reads."""
        read_by_recursion = {
            q
            for s in self.strata
            if s.recursive
            for p in s.predicates
            for c in self.clauses_of(p)
            for q, _, _ in c.reads()
        }
        return tuple(p for s in self.strata for p in s.predicates if p not in self.hidden or p in read_by_recursion)

    def columns(self, name: str) -> tuple[Column, ...]:
        return self.tables[name] if name in self.tables else self.typing.columns(name)

    def clauses_of(self, predicate: str) -> tuple[Clause, ...]:
        return self._clauses.get(predicate, ())

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that the rules read."""
        read = {name for clause in self.clauses for name, _, _ in clause.reads()}
        return tuple(name for name in self.tables if name in read)

    def reached(self, wanted: Iterable[str]) -> set[str]:
        """Predicates, and all tables and predicates that they read, directly or through rules."""
        found = set(wanted)
        waiting = list(found)
        while waiting:
            read = {name for clause in self.clauses_of(waiting.pop()) for name, _, _ in clause.reads()} - found
            found |= read
            waiting += read
        return found

    def stratum(self, predicate: str) -> Stratum:
        return self._stratum[predicate]

    def recursive(self, predicate: str) -> bool:
        return self.stratum(predicate).recursive

    def plan(self, predicate: str) -> Node:
        """The query of a predicate that is not recursive, over tables and stored predicates."""
        if predicate not in self._plans:
            self._plans[predicate] = rewrite(self._plan(predicate, Fresh()), DEFINITION, Keys())
        return self._plans[predicate]

    def _plan(self, predicate: str, fresh: Fresh) -> Node:
        columns = self.typing.columns(predicate)

        def is_set(name: str) -> bool:
            return name not in self.tables

        return predicate_plan(self.clauses_of(predicate), columns, self.typing, self._read, is_set, fresh)

    def _read(self, name: str, wanted: tuple[int, ...], fresh: Fresh) -> Node:
        if name not in self.hidden or name in self.stored:
            return scan(name, At.NEW, self.columns(name), wanted, fresh)
        plan = self._plan(name, fresh)
        return Project(plan, tuple(Named(plan.columns[i], plan.columns[i].ref) for i in wanted))

    def group(self, predicate: str) -> Group:
        """The recursive group of a predicate."""
        return self._groups[self.stratum(predicate).predicates]

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], Group]:
        groups = {}
        for stratum in self.strata:
            if stratum.recursive:
                clauses = [c for p in stratum.predicates for own in self.clauses_of(p) for c in split_lookups(own)]
                groups[stratum.predicates] = Group(stratum.predicates, tuple(clauses), self.typing)
        return groups

    def sources(self, predicate: str) -> tuple[str, ...]:
        """The tables and stored predicates that a predicate, or its whole group, is computed from."""
        if self.recursive(predicate):
            return self.group(predicate).inputs
        return tuple(dict.fromkeys(scan.table for scan in self.plan(predicate).scans))
