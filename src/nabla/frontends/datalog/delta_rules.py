"""Update propagation by rules (Manthey): for every predicate p the rules of its insertions p⁺ and its deletions p⁻.

The laws are his table, for unfolded rules, with ᵒ old, ⁿ new and ⁰ preserved (old and not deleted):

    projection   p⁺ ⇐ q⁺, not qᵒ(X, _)       p⁻ ⇐ q⁻, not qⁿ(X, _)
    union        p⁺ ⇐ q⁺, not rᵒ | r⁺, not qᵒ   p⁻ ⇐ q⁻, not rⁿ | r⁻, not qⁿ
    join         p⁺ ⇐ q⁺, r⁰ | q⁺, r⁺ | q⁰, r⁺   p⁻ ⇐ q⁻, r⁰ | q⁻, r⁻ | q⁰, r⁻
    difference   p⁺ ⇐ q⁺, not rⁿ | r⁻, qⁿ      p⁻ ⇐ q⁻, not rᵒ | r⁺, qᵒ      (printed: r⁻, qᵒ)

New and preserved states are folded away, so that rules read only changes and old states. His footnote folds the new state in
a projection's deletions to `not q⁺(X, _)`, which forgets preserved derivations. Here p⁰ has the rows that lost a derivation
and preserve another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from nabla.frontends.datalog.clauses import Clause, Condition, aggregates
from nabla.frontends.datalog.terms import TRUE, Atom, Term, Variable, Wildcard, new_variables, variables_of
from nabla.frontends.datalog.unfold import UnfoldedOperator

Version = Literal["⁺", "⁻", "ᵒ", "⁰", "ⁿ"]
SIGNS: tuple[Version, Version] = ("⁺", "⁻")


@dataclass(frozen=True)
class VersionedAtom:
    """An atom in one of its versions."""

    atom: Atom
    version: Version
    negated: bool = False


Part: TypeAlias = VersionedAtom | Condition


def version(atom: Atom, sign: str, negated: bool = False) -> Atom:
    return replace(atom, predicate=atom.predicate + sign, negated=negated)


def _fold(part: Part) -> tuple[tuple[Condition, ...], ...]:
    """The alternatives of literals about changes and old states that a literal stands for."""
    if not isinstance(part, VersionedAtom):
        return ((part,),)

    def read(sign: Version, negated: bool = False) -> Atom:
        return version(part.atom, sign, negated)

    match part.version, part.negated:
        case "⁰", False:
            return ((read("ᵒ"), read("⁻", True)),)
        case "ⁿ", False:
            return ((read("ᵒ"), read("⁻", True)), (read("⁺"),))
        case "ⁿ", True:
            return ((read("ᵒ", True), read("⁺", True)), (read("⁻"), read("⁺", True)))
    return ((read(part.version, part.negated),),)


def fold(head: Atom, parts: Sequence[Part]) -> Iterator[Clause]:
    bodies: list[tuple[Condition, ...]] = [()]
    for part in parts:
        bodies = [body + more for body in bodies for more in _fold(part)]
    yield from (Clause(head.predicate, head.arguments, body) for body in bodies)


def _projection(op: UnfoldedOperator) -> Iterator[Clause]:
    (q,), p = op.operands, op.head
    shown = variables_of(*p.arguments)
    drop = {a.name for a in q.arguments if isinstance(a, Variable)} - shown.keys()
    any_q = replace(q, arguments=tuple(Wildcard() if _is(a, drop) else a for a in q.arguments))
    another = replace(q, arguments=tuple(Variable(f"{a}′") if _is(a, drop) else a for a in q.arguments))
    yield from fold(version(p, "⁺"), (VersionedAtom(q, "⁺"), VersionedAtom(any_q, "ᵒ", True)))
    lost = (version(q, "⁻"), version(any_q, "⁺", True), version(p, "⁰", True))
    yield Clause(p.predicate + "⁻", p.arguments, lost)
    preserved = (version(q, "⁻"), version(another, "ᵒ"), version(another, "⁻", True))
    yield Clause(p.predicate + "⁰", p.arguments, preserved)


def _is(argument: Term, names: set[str]) -> bool:
    return isinstance(argument, Variable) and argument.name in names


def _union(op: UnfoldedOperator) -> Iterator[Clause]:
    (q, r), p = op.operands, op.head
    steps: tuple[tuple[Version, Version], ...] = (("⁺", "ᵒ"), ("⁻", "ⁿ"))
    for sign, state in steps:
        yield from fold(version(p, sign), (VersionedAtom(q, sign), VersionedAtom(r, state, True)))
        yield from fold(version(p, sign), (VersionedAtom(r, sign), VersionedAtom(q, state, True)))


def _join(op: UnfoldedOperator) -> Iterator[Clause]:
    (q, r), p, given = op.operands, op.head, op.conditions
    for sign in SIGNS:
        yield from fold(version(p, sign), (VersionedAtom(q, sign), VersionedAtom(r, "⁰"), *given))
        yield from fold(version(p, sign), (VersionedAtom(r, sign), VersionedAtom(q, sign), *given))
        yield from fold(version(p, sign), (VersionedAtom(r, sign), VersionedAtom(q, "⁰"), *given))


def _difference(op: UnfoldedOperator) -> Iterator[Clause]:
    (q, r), p, given = op.operands, op.head, op.conditions
    yield from fold(version(p, "⁺"), (VersionedAtom(q, "⁺"), VersionedAtom(r, "ⁿ", True), *given))
    yield from fold(version(p, "⁺"), (VersionedAtom(r, "⁻"), VersionedAtom(q, "ⁿ"), *given))
    yield from fold(version(p, "⁻"), (VersionedAtom(q, "⁻"), VersionedAtom(r, "ᵒ", True), *given))
    yield from fold(version(p, "⁻"), (VersionedAtom(r, "⁺"), VersionedAtom(q, "ᵒ"), *given))


def _selection(op: UnfoldedOperator) -> Iterator[Clause]:
    (q,), p = op.operands, op.head
    for sign in SIGNS:
        yield from fold(version(p, sign), (VersionedAtom(q, sign), *op.conditions))


def _grouping(op: UnfoldedOperator) -> Iterator[Clause]:
    """The rules of an aggregate: groups that a change touches (pᵗ) are aggregated again (pᵃ) from their new facts (pᵇ)."""
    (b,), p = op.operands, op.head
    keys = tuple(dict.fromkeys(a for a in p.arguments if isinstance(a, Variable))) or (TRUE,)
    touched, now = Atom(p.predicate + "ᵗ", keys), replace(b, predicate=f"{p.predicate}ᵇ")
    for sign in SIGNS:
        yield Clause(touched.predicate, keys, (version(b, sign),))
    yield Clause(now.predicate, b.arguments, (touched, version(b, "ᵒ"), version(b, "⁻", True)))
    yield Clause(now.predicate, b.arguments, (touched, version(b, "⁺")))
    yield Clause(p.predicate + "ᵃ", p.arguments, (now,))
    fresh = new_variables("N", variables_of(*b.arguments))
    row = tuple(next(fresh) if aggregates(a) else a for a in p.arguments)
    again, old = Atom(p.predicate + "ᵃ", row), Atom(p.predicate + "ᵒ", row)
    yield Clause(p.predicate + "⁺", row, (again, replace(old, negated=True)))
    yield Clause(p.predicate + "⁻", row, (touched, old, replace(again, negated=True)))


_LAWS: dict[str, Callable[[UnfoldedOperator], Iterator[Clause]]] = {
    "projection": _projection,
    "union": _union,
    "join": _join,
    "difference": _difference,
    "selection": _selection,
    "grouping": _grouping,
    "fact": lambda op: iter(()),
}


def delta_clauses(operators: Iterable[UnfoldedOperator], changing: Iterable[str]) -> tuple[Clause, ...]:
    """The delta rules of unfolded rules. A rule that reads only facts of the program has none, because facts never change."""
    alive = set(changing)
    result: list[Clause] = []
    for op in operators:
        if not any(operand.predicate in alive for operand in op.operands):
            continue
        alive.add(op.head.predicate)
        result += _LAWS[op.kind](op)
    moved = {name + sign for name in alive for sign in "⁺⁻"}
    return tuple(dict.fromkeys(c for clause in result if (c := _drop_fact_changes(clause, moved)) is not None))


def _drop_fact_changes(clause: Clause, moved: set[str]) -> Clause | None:
    """The rule without literals about changes of the program's facts, which never change; None if it needs such a change."""
    body: list[Condition] = []
    for condition in clause.body:
        if isinstance(condition, Atom) and condition.predicate[-1] in "⁺⁻" and condition.predicate not in moved:
            if condition.negated:
                continue
            return None
        body.append(condition)
    return replace(clause, body=tuple(body))
