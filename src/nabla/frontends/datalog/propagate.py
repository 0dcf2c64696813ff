"""Propagation by delta rules: they are run as a program, which gives the changes of predicates, and shown to people.

Predicates that are not recursive are propagated by their delta rules alone. Delta rules of a recursive predicate are not
stratifiable (an insertion needs all deletions, and a deletion all insertions). Such groups are over-deleted and rederived, and
the rules above them start from their changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nabla._cached import cached_property
from nabla.algebra.expressions import Column
from nabla.calculus.recursion.fixpoint import Backend, Relation
from nabla.frontends.datalog.clauses import Clause, Condition
from nabla.frontends.datalog.delta_rules import SIGNS, delta_clauses, version
from nabla.frontends.datalog.evaluate import evaluate_program
from nabla.frontends.datalog.program import Program, program_of_clauses
from nabla.frontends.datalog.terms import Atom
from nabla.frontends.datalog.unfold import UNIT, UnfoldedOperator, Unfolding


class DeltaRules:
    """The delta rules of one predicate, with those of the aggregates in its rules."""

    def __init__(self, program: Program, predicate: str) -> None:
        self.program = program
        self.predicate = predicate
        taken = {*program.tables, *(c.predicate for c in program.clauses)}
        self.operators: list[UnfoldedOperator] = []
        self.inputs: dict[str, None] = {}
        self._unfold(predicate, taken, set())
        known = {op.head.predicate for op in self.operators}
        for op in self.operators:
            self.inputs |= {a.predicate: None for a in op.operands if a.predicate not in known | {UNIT.predicate}}
        self.clauses = delta_clauses(self.operators, self.inputs)

    def _unfold(self, predicate: str, taken: set[str], done: set[str]) -> None:
        """Unfold hidden predicates first, because no table stores their old state."""
        done.add(predicate)
        clauses = self.program.clauses_of(predicate)
        for clause in clauses:
            for read, _, _ in clause.reads():
                if read in self.program.hidden and read not in self.program.stored and read not in done:
                    self._unfold(read, taken, done)
        self.operators += Unfolding(predicate, clauses, taken).operators

    def source_clauses(self) -> Iterator[Clause]:
        """The unfolded rules themselves."""
        for op in self.operators:
            yield from op.clauses

    @cached_property
    def runnable(self) -> Program:
        """The delta rules as a program over the old states and the changes of the relations that the predicate reads."""
        tables = {name + sign: self._columns(name) for name in self.inputs for sign in ("ᵒ", *SIGNS)}
        tables[self.predicate + "ᵒ"] = self._columns(self.predicate)
        old = [_in_old_state(c) for c in self.source_clauses() if c.predicate != self.predicate]
        unit = Clause(UNIT.predicate + "ᵒ", UNIT.arguments)
        return program_of_clauses([unit, *old, *self.clauses], tables, self.program.typing.type_of)

    def _columns(self, name: str) -> list[Column]:
        return list(self.program.columns(name))


def _in_old_state(clause: Clause) -> Clause:
    body = tuple(version(c, "ᵒ", c.negated) if isinstance(c, Atom) else c for c in clause.body)
    return replace(clause, predicate=clause.predicate + "ᵒ", body=body)


def propagate(rules: DeltaRules, backend: Backend[Relation], given: Mapping[str, Relation]) -> dict[str, Relation]:
    """p⁺ and p⁻ by these names. `given` has the relations that p reads: for each q its qᵒ, q⁺ and q⁻, and pᵒ."""
    program = rules.runnable
    reads = {name: relation for name, relation in given.items() if name in program.tables}
    made = evaluate_program(program, backend, given=reads)
    return {name: made[name] for sign in SIGNS if (name := rules.predicate + sign) in made}


def show(program: Program) -> str:
    """All delta rules of a program, predicate by predicate, as `nabla explain --rules` prints them."""
    lines = ["% ⁺ inserted, ⁻ deleted, ᵒ old state; p⁰ holds what lost one derivation and has another"]
    for stratum in program.strata:
        if stratum.recursive:
            lines += ["", *_recursive(program, stratum.predicates)]
            continue
        (predicate,) = stratum.predicates
        if predicate in program.hidden and predicate not in program.stored:
            continue
        rules = DeltaRules(program, predicate)
        lines += ["", f"% {predicate}"]
        lines += [str(clause) for clause in rules.source_clauses() if clause.predicate != UNIT.predicate]
        lines += ["", *map(str, rules.clauses)]
    return "\n".join(lines)


def _recursive(program: Program, predicates: tuple[str, ...]) -> Iterator[str]:
    """The maintenance of a recursive group, in the notation of delta rules."""
    group = program.group(predicates[0])
    yield f"% {', '.join(predicates)}: recursive, and delta rules of it would not be stratifiable: insertions need all"
    yield "% deletions, and deletions all insertions. Instead: over-delete (ˣ) in the old state, then derive (ᵃ) from what"
    yield "% stands (ˢ) in the new one (ⁿ)."
    for clause in group.clauses:
        yield str(clause)
    yield ""
    for clause in group.clauses:
        for i, condition in enumerate(clause.body):
            if isinstance(condition, Atom):
                yield str(_variant(clause, i, "ˣ", "ᵒ", "ᵒ", predicates))
    for p in predicates:
        row = _row(program, p)
        yield f"{p}ˢ({row}) ⇐ {p}ᵒ({row}), not {p}ˣ({row})."
        yield f"{p}ˢ({row}) ⇐ {p}ᵃ({row})."
    for clause in group.clauses:
        head = replace(clause.head, predicate=f"{clause.predicate}ˣ")
        body = (head, *(_at(c, "ⁿ", "ˢ", predicates) for c in clause.body))
        yield str(replace(clause, predicate=f"{clause.predicate}ᵃ", body=body))
        for i, condition in enumerate(clause.body):
            if isinstance(condition, Atom):
                yield str(_variant(clause, i, "ᵃ", "ⁿ", "ˢ", predicates))
    for p in predicates:
        row = _row(program, p)
        yield f"{p}⁺({row}) ⇐ {p}ᵃ({row}), not {p}ᵒ({row})."
        yield f"{p}⁻({row}) ⇐ {p}ˣ({row}), not {p}ᵃ({row})."


def _variant(clause: Clause, place: int, own: str, lower: str, state: str, predicates: tuple[str, ...]) -> Clause:
    """The rule with one literal read from its change."""
    literal = clause.body[place]
    assert isinstance(literal, Atom)
    lost, come = ("⁻", "⁺") if own == "ˣ" else ("⁺", "⁻")
    sign = own if literal.predicate in predicates else come if literal.negated else lost
    rest: list[Condition] = [c for i, c in enumerate(clause.body) if i != place or literal.negated]
    body = (version(literal, sign), *(_at(c, lower, state, predicates) for c in rest))
    return replace(clause, predicate=clause.predicate + own, body=body)


def _at(condition: Condition, lower: str, state: str, predicates: tuple[str, ...]) -> Condition:
    if not isinstance(condition, Atom):
        return condition
    return version(condition, state if condition.predicate in predicates else lower, condition.negated)


def _row(program: Program, predicate: str) -> str:
    return ", ".join(c.name.upper() for c in program.columns(predicate))
