"""Magic sets: questions are answered from the rules, and only the rows that they need are computed.

`path(1, X)` asks for some rows of path. The rules are rewritten so that a predicate is derived only for the values that
the question asks for: "magic" predicates collect those values, and every rule starts from them. A negated or aggregated
predicate must be complete, so it is evaluated whole, by its own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nabla.algebra.by_name import CASTS
from nabla.algebra.reference.evaluator import Row
from nabla.calculus.recursion.fixpoint import ROUNDS, Backend, Relation, Round
from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import Clause, Condition, Define, is_plain, names
from nabla.frontends.datalog.evaluate import evaluate_program, memory_of
from nabla.frontends.datalog.program import Program, Tables, program_of_clauses
from nabla.frontends.datalog.resolve import PredicateNames
from nabla.frontends.datalog.syntax import parse_query
from nabla.frontends.datalog.terms import Apply, Atom, Comparison, Constant, Term, Variable, Wildcard

ANSWER = "answer"


def question(program: Program, text: str) -> Program:
    """The program that answers a question; its predicate `answer` has the asked predicate's columns."""
    return _of_question(program, _read_question(program, text))


def ask(
    program: Program,
    text: str,
    backend: Backend[Relation],
    bound: int = ROUNDS,
    rounds: list[Round] | None = None,
) -> Relation:
    """The rows of a predicate that a question matches, in the new state of the tables."""
    return evaluate_program(question(program, text), backend, bound, rounds)[ANSWER]


def ask_in_memory(program: Program, facts: Mapping[str, Iterable[Row]], text: str) -> frozenset[Row]:
    return ask(program, text, memory_of(program, facts)).set


def _read_question(program: Program, text: str) -> Atom:
    atom = parse_query(text)
    labels = {p: [c.name for c in program.columns(p)] for p in (*program.tables, *program.predicates)}
    resolved = PredicateNames((), labels).resolve(atom)
    for argument in resolved.arguments:
        if not is_plain(argument):
            raise NablaError(
                "NABLA_RULES_QUESTION",
                f"{argument} is an expression, and a question has constants, variables and _",
                place=str(argument.place),
                remedy="Define a rule for it and ask for that.",
            )
    return resolved


def _of_question(program: Program, asked: Atom) -> Program:
    rewriting = MagicRewriting(program)
    rewriting.ask(asked)
    return rewriting.program({ANSWER: tuple(c.name for c in program.columns(asked.predicate))})


@dataclass
class MagicRewriting:
    """Rewrites a program for what is asked. `whole` collects the predicates that are evaluated whole, `adorned` those that
    are restricted to the asked values. `roots` are predicates that the asking clauses define."""

    original: Program
    roots: frozenset[str] = frozenset()
    clauses: list[Clause] = field(default_factory=list)
    whole: dict[str, None] = field(default_factory=dict)
    adorned: dict[tuple[str, str], None] = field(default_factory=dict)

    def ask(self, asked: Atom) -> None:
        """Begin with a question: its constants are the values that are asked for."""
        columns = self.original.columns(asked.predicate)
        arguments = tuple(Variable(f"any{i}") if isinstance(a, Wildcard) else a for i, a in enumerate(asked.arguments))
        pattern = "".join("b" if isinstance(a, Constant) else "f" for a in arguments)
        source = self._source(asked.predicate, pattern)
        if source != asked.predicate:
            seed = tuple(_typed(a, c.type) for a, c in zip(arguments, columns, strict=True) if isinstance(a, Constant))
            self.clauses.append(Clause(_magic(source), seed))
        head = tuple(
            _typed(a, c.type) if isinstance(a, Constant) else a for a, c in zip(arguments, columns, strict=True)
        )
        self.clauses.append(Clause(ANSWER, head, (Atom(source, arguments),)))

    def ask_for(self, clause: Clause) -> None:
        """Begin with a clause of a root: its body asks for the values that its first atom and its constants give."""
        self._ask_in_body(clause, [], [])

    def program(self, labels: Mapping[str, tuple[str, ...]], tables: Tables | None = None) -> Program:
        done: set[tuple[str, str]] = set()
        while waiting := [key for key in self.adorned if key not in done]:
            for key in waiting:
                done.add(key)
                for clause in self.original.clauses_of(key[0]):
                    self._rewrite(clause, key[1])
        whole = self.original.reached(self.whole)
        originals = [c for c in self.original.clauses if c.predicate in whole]
        everything = [*originals, *dict.fromkeys(self.clauses)]
        return program_of_clauses(everything, tables or self.original.tables, self.original.typing.type_of, labels)

    def _source(self, predicate: str, pattern: str) -> str:
        """The relation to read for a predicate with some known arguments."""
        if predicate in self.original.tables or predicate in self.roots:
            return predicate
        grouped = any(clause.grouped for clause in self.original.clauses_of(predicate))
        if grouped or "b" not in pattern:
            self.whole[predicate] = None
            return predicate
        self.adorned[predicate, pattern] = None
        return f"{predicate}/{pattern}"

    def _rewrite(self, clause: Clause, pattern: str) -> None:
        own = f"{clause.predicate}/{pattern}"
        start, definitions = _asked_values(clause, pattern, _magic(own))
        self._ask_in_body(replace(clause, predicate=own), [start], definitions)

    def _ask_in_body(self, clause: Clause, start: Sequence[Condition], definitions: Sequence[Define]) -> None:
        """Add a clause whose atoms ask for the values that the atoms before them give."""
        rest = [c for c in clause.body if not isinstance(c, Atom) or c.negated]
        for condition in rest:
            if not isinstance(condition, Comparison | Define):
                self.whole |= {
                    q: None for q, _, _ in Clause("", (), (condition,)).reads() if q not in self.original.tables
                }
        waiting = [a for a in clause.atoms if not a.negated]
        body: list[Condition] = list(start)
        known = {name for condition in start for name in names(condition)}
        while waiting:
            atom = max(waiting, key=lambda a: (sum(_known_arguments(a, known)), -waiting.index(a)))
            waiting.remove(atom)
            body.append(self._adorned_atom(atom, known, body, rest))
            known |= names(atom)
        self.clauses.append(replace(clause, body=(*body, *rest, *definitions)))

    def _adorned_atom(self, atom: Atom, known: set[str], before: list[Condition], rest: list[Condition]) -> Atom:
        """The atom over the restricted predicate, and the rule that collects the values for which it is asked."""
        bound = _known_arguments(atom, known)
        source = self._source(atom.predicate, "".join("b" if b else "f" for b in bound))
        if source == atom.predicate:
            return atom
        values = tuple(a for a, b in zip(atom.arguments, bound, strict=True) if b)
        tests = [c for c in rest if isinstance(c, Comparison) and names(c) <= known]
        asking = Clause(_magic(source), values, (*before, *tests), atom.place)
        if Atom(asking.predicate, asking.arguments) not in asking.body:
            self.clauses.append(asking)
        return replace(atom, predicate=source)


def _magic(name: str) -> str:
    return f"magic {name}"


def _known_arguments(atom: Atom, known: set[str]) -> list[bool]:
    return [isinstance(a, Constant) or (isinstance(a, Variable) and a.name in known) for a in atom.arguments]


def _asked_values(clause: Clause, pattern: str, magic: str) -> tuple[Atom, list[Define]]:
    """The values asked for: an atom over the bound arguments of the head, and equations for those that are computed."""
    arguments: list[Term] = []
    definitions: list[Define] = []
    for i, (argument, how) in enumerate(zip(clause.arguments, pattern, strict=True)):
        if how == "f":
            continue
        if not is_plain(argument):
            variable = Variable(f"head{i}")
            definitions.append(Define(variable, argument))
            argument = variable
        arguments.append(argument)
    return Atom(magic, tuple(arguments)), definitions


def _typed(constant: Constant, kind: str) -> Term:
    if constant.type == kind or kind not in CASTS:
        return constant
    return Apply(kind, (constant,), place=constant.place)
