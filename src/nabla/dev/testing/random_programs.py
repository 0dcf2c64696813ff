"""Random Datalog programs over tiny tables: negation, mutual recursion, aggregates, arithmetic, wildcards, NULLs.

Programs are stratified by construction: predicates come in blocks, and a negation or an aggregate reads lower blocks only.
Values that rules make are kept in a small range, so that every program ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Change: TypeAlias = dict[str, tuple[list[Row], list[Row]]]
"""Inserted and deleted rows by table."""

NUMBERS, TEXTS = (0, 1, 2, 3), ("a", "b", "c")
NULLS = 0.04


@dataclass
class RandomProgram:
    text: str
    tables: dict[str, list[tuple[str, str]]]
    facts: dict[str, list[Row]]
    changes: list[Change]


@dataclass
class Shape:
    """The sizes of programs and tables, and the features that may occur in them."""

    tables: int = 3
    blocks: int = 3
    rules: int = 3
    atoms: int = 3
    rows: int = 7
    changes: int = 4
    aggregates: bool = True
    duplicates: bool = True


DEFAULT = Shape()


def random_program(rng: Random, shape: Shape = DEFAULT) -> RandomProgram:
    tables = {f"t{i}": _columns(rng) for i in range(rng.randint(1, shape.tables))}
    made = _Maker(rng, shape, {name: [kind for _, kind in columns] for name, columns in tables.items()})
    text = "\n".join(made.program())
    facts = {name: _rows(rng, columns, rng.randint(0, shape.rows)) for name, columns in tables.items()}
    if not shape.duplicates:
        facts = {name: list(dict.fromkeys(rows)) for name, rows in facts.items()}
    program = RandomProgram(text, tables, facts, [])
    now = {name: Counter(rows) for name, rows in facts.items()}
    for _ in range(shape.changes):
        program.changes.append(_change(rng, program, now, shape))
    return program


def _columns(rng: Random) -> list[tuple[str, str]]:
    return [(f"c{i}", rng.choice(("bigint", "bigint", "bigint", "string"))) for i in range(rng.choice((1, 2, 2, 2, 3)))]


def _value(rng: Random, kind: str) -> Any:
    if rng.random() < NULLS:
        return None
    return rng.choice(TEXTS if kind == "string" else NUMBERS)


def _rows(rng: Random, columns: list[tuple[str, str]], n: int) -> list[Row]:
    return [tuple(_value(rng, kind) for _, kind in columns) for _ in range(n)]


def _change(rng: Random, program: RandomProgram, now: dict[str, Counter[Row]], shape: Shape) -> Change:
    """A change of some tables at once, which is applied to `now`."""
    change: Change = {}
    for name, columns in program.tables.items():
        if rng.random() < 0.3:
            continue
        present = sorted(now[name].elements(), key=repr)
        deletes = rng.sample(present, min(len(present), rng.choice((0, 1, 1, 2, 3, 9))))
        left = now[name] - Counter(deletes)
        inserts = _rows(rng, columns, rng.choice((0, 1, 1, 2, 3)))
        if not shape.duplicates:
            inserts = [row for row in dict.fromkeys(inserts) if row not in left]
        now[name] = left + Counter(inserts)
        change[name] = (inserts, deletes)
    return change


@dataclass
class _Maker:
    rng: Random
    shape: Shape
    relations: dict[str, list[str]]
    lower: list[str] = field(default_factory=list)

    def program(self) -> list[str]:
        self.lower = list(self.relations)
        rules: list[str] = []
        for block in range(self.rng.randint(1, self.shape.blocks)):
            names = [f"p{block}{letter}" for letter in "ab"[: self.rng.choice((1, 1, 2))]]
            for name in names:
                self.relations[name] = [kind for _, kind in _columns(self.rng)]
            recursive = self.rng.random() < 0.65
            for name in names:
                rules += self._rules(name, names if recursive else [])
            self.lower += names
        return rules

    def _rules(self, name: str, own: list[str]) -> list[str]:
        kinds = self.relations[name]
        if self.shape.aggregates and self.rng.random() < 0.12 and kinds[-1] == "bigint" and not own:
            return [self._aggregate_rule(name)]
        rules = [self._rule(name, [])]
        rules += [self._rule(name, own) for _ in range(self.rng.randint(0 if not own else 1, self.shape.rules - 1))]
        if self.shape.aggregates and kinds[-1] == "bigint" and self.rng.random() < 0.06:
            rules.append(self._aggregate_rule(name))
        if self.rng.random() < 0.1:
            rules.append(f"{name}({', '.join(self._constant(kind) for kind in kinds)}).")
        return rules

    def _constant(self, kind: str) -> str:
        if kind == "string":
            return f'"{self.rng.choice(TEXTS)}"'
        return str(self.rng.choice(NUMBERS))

    def _atom(self, relation: str, variables: dict[str, str], new: bool = True) -> str:
        """Arguments are variables that are there already, new ones, wildcards and constants."""
        arguments = []
        for kind in self.relations[relation]:
            known = [v for v, k in variables.items() if k == kind]
            roll = self.rng.random()
            if roll < 0.12:
                arguments.append("_")
            elif roll < 0.2:
                arguments.append(self._constant(kind))
            elif roll < 0.25 and known and kind == "bigint":
                arguments.append(f"({self.rng.choice(known)} + 1) mod 4")
            elif known and (not new or roll < 0.65):
                arguments.append(self.rng.choice(known))
            elif new:
                variable = f"{'XYZUVWABCDEFGH'[len(variables) % 14]}{'' if len(variables) < 14 else len(variables)}"
                variables[variable] = kind
                arguments.append(variable)
            else:
                arguments.append("_")
        return f"{relation}({', '.join(arguments)})"

    def _body(self, own: list[str], variables: dict[str, str]) -> list[str]:
        positive = [self.rng.choice(own)] if own else []
        positive += [
            self.rng.choice([*self.lower, *own]) for _ in range(self.rng.randint(0 if own else 1, self.shape.atoms - 1))
        ]
        body = [self._atom(relation, variables) for relation in positive]
        if self.rng.random() < 0.3:
            sign = self.rng.choice(("not ", "!"))
            body.append(sign + self._atom(self.rng.choice(self.lower), variables, new=False))
        body += self._tests(variables)
        if self.shape.aggregates and self.rng.random() < 0.15:
            body.append(self._aggregation(variables, compare=not own))
        self.rng.shuffle(body)
        return body

    def _tests(self, variables: dict[str, str]) -> list[str]:
        tests = []
        numbers = [v for v, k in variables.items() if k == "bigint"]
        if numbers and self.rng.random() < 0.3:
            sign = self.rng.choice(("=", "!=", "<", "<=", ">", ">="))
            tests.append(f"{self.rng.choice(numbers)} {sign} {self.rng.choice([*numbers, '1', '2'])}")
        if numbers and self.rng.random() < 0.25:
            defined = f"N{len(variables)}"
            tests.append(f"{defined} = ({self.rng.choice(numbers)} + {self.rng.randint(1, 2)}) mod 4")
            variables[defined] = "bigint"
        return tests

    def _aggregation(self, variables: dict[str, str], compare: bool) -> str:
        """Souffle's form; a comparison in its braces may need values of the rule around it, which must not recur."""
        inner = dict(variables)
        atom = self._atom(self.rng.choice(self.lower), inner)
        plain = atom[atom.index("(") + 1 : -1].split(", ")
        numbers = [v for v, k in inner.items() if k == "bigint" and v in plain]
        result = f"N{len(variables)}"
        function = self.rng.choice(("count", "count", "sum", "min", "max")) if numbers else "count"
        target = "" if function == "count" else f" {self.rng.choice(numbers)}"
        outer = [v for v, k in variables.items() if k == "bigint"]
        if compare and numbers and outer and self.rng.random() < 0.3:
            atom += f", {self.rng.choice(numbers)} < {self.rng.choice(outer)}"
        variables[result] = "bigint"
        return f"{result} = {function}{target} : {{ {atom} }}"

    def _head(self, kinds: list[str], variables: dict[str, str]) -> list[str]:
        arguments = []
        for kind in kinds:
            known = [v for v, k in variables.items() if k == kind]
            use = known and self.rng.random() < 0.95
            arguments.append(self.rng.choice(known) if use else self._constant(kind))
        return arguments

    def _rule(self, name: str, own: list[str]) -> str:
        variables: dict[str, str] = {}
        body = self._body(own, variables)
        return f"{name}({', '.join(self._head(self.relations[name], variables))}) :- {', '.join(body)}."

    def _aggregate_rule(self, name: str) -> str:
        variables: dict[str, str] = {}
        body = self._body([], variables)
        numbers = [v for v, k in variables.items() if k == "bigint"]
        function = self.rng.choice(("count", "sum", "min", "max")) if numbers else "count"
        value = f"{function}({self.rng.choice(numbers)})" if numbers else "count(*)"
        head = self._head(self.relations[name][:-1], variables)
        return f"{name}({', '.join([*head, value])}) :- {', '.join(body)}."
