"""A program evaluated from scratch on any backend, stratum by stratum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from nabla.algebra.reference.evaluator import Row
from nabla.calculus.recursion.fixpoint import ROUNDS, Backend, Fixpoint, Relation, Round
from nabla.calculus.recursion.memory import Memory, MemoryRelation
from nabla.frontends.datalog.program import Program


def evaluate_program(
    program: Program,
    backend: Backend[Relation],
    bound: int = ROUNDS,
    rounds: list[Round] | None = None,
    given: Mapping[str, Relation] | None = None,
) -> dict[str, Relation]:
    """The rows of all stored predicates in the new state of the tables. `given` has tables that no table stores."""
    made: dict[str, Relation] = dict(given or {})
    for stratum in program.strata:
        first = stratum.predicates[0]
        if stratum.recursive:
            loop = Fixpoint(program.group(first), backend, bound, made)
            made |= loop.evaluate().rows
            if rounds is not None:
                rounds += loop.rounds
        elif first in program.stored:
            made |= backend.evaluate({first: program.plan(first)}, made)
    return made


def memory_of(program: Program, facts: Mapping[str, Iterable[Row]], make: type[Memory] = Memory) -> Memory:
    """The tables of a program in memory, with the same rows before and after."""
    names = {**program.tables, **{p: program.columns(p) for p in program.stored}}
    memory = make({name: [c.name for c in columns] for name, columns in names.items()})
    for name in program.tables:
        memory.before[name] = memory.after[name] = Counter(map(tuple, facts.get(name, ())))
    return memory


def evaluate_in_memory(
    program: Program, facts: Mapping[str, Iterable[Row]], bound: int = ROUNDS
) -> dict[str, frozenset[Row]]:
    """The rows of all derived predicates."""
    made: dict[str, MemoryRelation] = evaluate_program(program, memory_of(program, facts), bound)
    return {predicate: made[predicate].set for predicate in program.predicates}
