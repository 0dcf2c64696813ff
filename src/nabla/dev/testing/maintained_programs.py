"""Programs maintained in memory, without Spark, by the same steps as in a lake.

Predicates that are not recursive are maintained by the calculus through their plans, recursive groups by the fixpoint
loop. The law is the same for both: the change of a predicate is the difference of its new and its old rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nabla.algebra.reference.evaluator import Row
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate, negated
from nabla.calculus.recursion.fixpoint import Fixpoint, Round
from nabla.calculus.recursion.memory import Memory, MemoryRelation
from nabla.calculus.stages import Staged, cut
from nabla.dev.testing.maintained import Evaluate, build, maintain
from nabla.frontends.datalog.delta_rules import SIGNS
from nabla.frontends.datalog.evaluate import evaluate_program, memory_of
from nabla.frontends.datalog.program import Program
from nabla.frontends.datalog.propagate import DeltaRules, propagate


@dataclass
class SetChange:
    inserted: frozenset[Row] = frozenset()
    deleted: frozenset[Row] = frozenset()


@dataclass
class MaintainedProgram:
    """A program with its predicates stored, brought up to date change by change."""

    program: Program
    facts: Mapping[str, Iterable[Row]]
    states: dict[str, dict[str, Bag]] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    make: type[Memory] = Memory
    by: Evaluate = evaluate

    def __post_init__(self) -> None:
        self.memory = memory_of(self.program, self.facts, self.make)
        for name, rows in evaluate_program(self.program, self.memory).items():
            self.memory.before[name] = self.memory.after[name] = rows.bag
        self._rules: dict[str, DeltaRules] = {}
        self.staged: dict[str, Staged] = {}
        for name in self.program.stored:
            if not self.program.recursive(name):
                self.staged[name] = cut(self.program.plan(name))
                view, self.states[name] = build(self.staged[name], self._database(), self.by)
                assert view == self.memory.after[name], f"the stages of {name} do not give its plan"

    def _database(self) -> Database:
        return Database(self.memory.fields, self.memory.before, self.memory.after)

    def delta_rules(self, predicate: str) -> DeltaRules:
        if predicate not in self._rules:
            self._rules[predicate] = DeltaRules(self.program, predicate)
        return self._rules[predicate]

    def rows(self, predicate: str) -> frozenset[Row]:
        return frozenset(self.memory.after[predicate])

    def apply(self, changes: Mapping[str, tuple[Iterable[Row], Iterable[Row]]]) -> dict[str, SetChange]:
        """Changes tables, and returns the change of every predicate that has one."""
        memory = self.memory
        memory.before = dict(memory.after)
        for name, (inserts, deletes) in changes.items():
            delta = added(Counter(map(tuple, inserts)), negated(Counter(map(tuple, deletes))))
            memory.after[name] = added(memory.before[name], delta)
        moved = {name for name in self.program.tables if memory.before[name] != memory.after[name]}
        result: dict[str, SetChange] = {}
        for stratum in self.program.strata:
            if stratum.recursive:
                loop = Fixpoint(self.program.group(stratum.predicates[0]), memory)
                change = loop.maintain(frozenset(moved))
                self.rounds = loop.rounds
                for p in stratum.predicates:
                    come = change.inserted[p].bag if p in change.inserted else Counter()
                    went = change.deleted[p].bag if p in change.deleted else Counter()
                    self._move(p, added(come, negated(went)), moved, result)
            elif (name := stratum.predicates[0]) in self.staged:
                sources = moved.intersection(self.program.sources(name))
                if sources:
                    database, before = self._database(), self.states[name]
                    outcome = maintain(self.staged[name], database, before, frozenset(sources), by=self.by)
                    self.states[name] = outcome.states
                    self._move(name, outcome.change, moved, result)
        return result

    def _move(self, name: str, change: Bag, moved: set[str], result: dict[str, SetChange]) -> None:
        if not change:
            return
        self.memory.after[name] = added(self.memory.before[name], change)
        assert set(self.memory.after[name].values()) <= {1}, f"{name} is no set: {self.memory.after[name]}"
        moved.add(name)
        inserted = frozenset(row for row, n in change.items() if n > 0)
        result[name] = SetChange(inserted, frozenset(row for row, n in change.items() if n < 0))


def by_delta_rules(maintained: MaintainedProgram, predicate: str, changes: Mapping[str, SetChange]) -> SetChange:
    """The change of a predicate by Manthey's rules, from the old states and the changes of what it reads.

    To be asked after `apply`, whose result tells the changes of predicates; those of tables are taken as sets."""
    rules, memory = maintained.delta_rules(predicate), maintained.memory
    given: dict[str, MemoryRelation] = {}
    for name in (*rules.inputs, predicate):
        fields = memory.fields[name]
        before, after = frozenset(memory.before[name]), frozenset(memory.after[name])
        change = changes.get(name, SetChange()) if name not in maintained.program.tables else None
        change = change or SetChange(after - before, before - after)
        for sign, rows in (("ᵒ", before), ("⁺", change.inserted), ("⁻", change.deleted)):
            given[name + sign] = MemoryRelation.of(fields, Counter(rows))
    made = propagate(rules, memory, given)
    come, went = ({*made[predicate + sign].bag} if predicate + sign in made else set() for sign in SIGNS)
    return SetChange(frozenset(come), frozenset(went))
