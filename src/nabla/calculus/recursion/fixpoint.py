"""Recursive groups evaluated and maintained: one driver loop for the interpreter and for Spark.

From scratch, semi-naively: a round derives what follows from the rows of the last one, until nothing is new.

After a change of the inputs, by over-deletion and rederivation (Gupta, Mumick, Subrahmanian 1993), all at once:

    gone   every stored row with a derivation in the old state that used what is no longer true, transitively
    stand  stored − gone: these rows have lost nothing, so they are true in the new state
    added  what follows in the new state: rows of `gone` with another derivation, and what the insertions make true

    Δ = added − gone      ∇ = gone − added      which is the minimal change, whatever `gone` held in excess
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from nabla.algebra.nodes import Node
from nabla.calculus.recursion.relations import (
    Naming,
    Present,
    RecursiveGroup,
    added,
    derived,
    frontier,
    gone,
    set_changes,
)
from nabla.errors import NablaError

Relation = TypeVar("Relation")
ROUNDS = 10_000
"""More rounds than this are taken for a program that does not end."""
FEW_ROWS = 50_000


class Backend(Protocol[Relation]):
    """Where queries run. A relation is a handle of rows that have been computed: reading it computes nothing again."""

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Relation]) -> dict[str, Relation]:
        """Runs queries and holds their rows. A scan whose table is in `made` reads that relation, whatever its `at`;
        any other scan reads a table or a stored predicate at the state it names. Lineage ends here."""
        ...

    def size(self, relation: Relation) -> int:
        """The number of rows."""
        ...

    def extended(self, relation: Relation, more: Relation) -> Relation:
        """The rows of both, which have none in common. Nothing needs to be copied."""
        ...


@dataclass(frozen=True)
class Round:
    """One turn of the loop, for display: how many new rows each predicate got."""

    phase: str
    number: int
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.sizes.items())
        return f"{self.phase} round {self.number}: {sizes}"


def summary(rounds: Iterable[Round]) -> str:
    """How many rounds each phase took, and how many rows it found."""
    phases: dict[str, list[int]] = {}
    for turn in rounds:
        phases.setdefault(turn.phase, []).append(sum(turn.sizes.values()))
    return "; ".join(f"{phase}: {sum(sizes):,} rows in {len(sizes)} rounds" for phase, sizes in phases.items())


@dataclass
class Evaluated(Generic[Relation]):
    """Whole predicates."""

    rows: dict[str, Relation]
    rounds: list[Round] = field(default_factory=list)


@dataclass
class Changed(Generic[Relation]):
    """The minimal change of each predicate; one that is missing did not change in that direction."""

    inserted: dict[str, Relation]
    deleted: dict[str, Relation]
    rounds: list[Round] = field(default_factory=list)


class Fixpoint(Generic[Relation]):
    """The loop over one group. `given` are relations that are not stored under their names: lower strata of a question."""

    def __init__(
        self,
        group: RecursiveGroup,
        backend: Backend[Relation],
        bound: int = ROUNDS,
        given: Mapping[str, Relation] | None = None,
    ) -> None:
        self.group = group
        self.backend = backend
        self.bound = bound
        self.queries = group.queries
        self.rounds: list[Round] = []
        self.made: dict[str, Relation] = dict(given or {})

    def evaluate(self) -> Evaluated[Relation]:
        """The group from scratch, in the new state of its inputs."""
        first = self.backend.evaluate(self.queries.start(), self.made)
        self._grow("derive", first, Present(stored=False))
        rows = {p: self.made[added(p)] for p in self.group.predicates if added(p) in self.made}
        empty = {p: self.queries.nothing(p) for p in self.group.predicates if p not in rows}
        return Evaluated(rows | self.backend.evaluate(empty, {}), self.rounds)

    def maintain(self, changed: frozenset[str]) -> Changed[Relation]:
        """The change of the group that the changes of the inputs named make."""
        if not self._changes(changed):
            return Changed({}, {}, self.rounds)
        self._delete()
        lost = frozenset(p for p in self.group.predicates if gone(p) in self.made)
        present = Present(stored=True, gone=lost)
        first = self.backend.evaluate(self.queries.found(self.made, present), self.made)
        self._grow("rederive and insert" if lost else "insert", first, present)
        return self._difference()

    def _changes(self, changed: frozenset[str]) -> bool:
        """Computes the set changes of the inputs; returns whether there are any."""
        names = {n: self.group.columns(n) for n in self.group.inputs if n in changed}
        changes = self._nonempty(self.backend.evaluate(set_changes(names), self.made))
        self.made |= changes
        return bool(changes)

    def _nonempty(self, relations: Mapping[str, Relation]) -> dict[str, Relation]:
        return {name: relation for name, relation in relations.items() if self.backend.size(relation)}

    def _delete(self) -> None:
        """Over-deletion: everything that some lost fact was used for, in the old state."""
        found = self.backend.evaluate(self.queries.lost(self.made), self.made)
        for number in range(1, self.bound + 1):
            fresh = self._unseen(found)
            if not fresh:
                return
            self._record("over-delete", number, fresh)
            self._advance(fresh, gone)
            found = self.backend.evaluate(self.queries.lost_step(fresh), self.made)
        raise self._endless("over-delete")

    def _unseen(self, found: Mapping[str, Relation]) -> dict[str, Relation]:
        """Of what a round of over-deletion found, the rows that no earlier round did."""
        candidates = self._nonempty(found)
        queries = {p: self.queries.less(derived(p), gone(p), p) for p in candidates if gone(p) in self.made}
        candidates |= self.backend.evaluate(queries, self._with_derived(candidates))
        return self._nonempty(candidates)

    def _with_derived(self, candidates: Mapping[str, Relation]) -> dict[str, Relation]:
        return self.made | {derived(p): rows for p, rows in candidates.items()}

    def _grow(self, phase: str, found: Mapping[str, Relation], present: Present) -> None:
        """Semi-naive iteration: what is new is added, and what follows from it is the next round."""
        fresh = self._unknown(found, present)
        for number in range(1, self.bound + 1):
            if not fresh:
                return
            self._record(phase, number, fresh)
            self._advance(fresh, added)
            present = Present(present.stored, present.gone, present.added.union(fresh))
            fresh = self._following(fresh, present)
        raise self._endless(phase)

    def _following(self, fresh: Mapping[str, Relation], present: Present) -> dict[str, Relation]:
        """The rows that follow from the last round's and are not known yet.

        Where little is known, one query tells; of many rows those are looked up that were derived.
        """
        known = sum(self.backend.size(self.made[added(p)]) for p in present.added)
        if not present.stored and known <= FEW_ROWS:
            return self._nonempty(self.backend.evaluate(self.queries.step_beyond(present, fresh), self.made))
        return self._unknown(self.backend.evaluate(self.queries.step(present, fresh), self.made), present)

    def _unknown(self, found: Mapping[str, Relation], present: Present) -> dict[str, Relation]:
        """Of what a round derived, the rows that do not stand already."""
        candidates = self._nonempty(found)
        queries = {p: self.queries.fresh_rows(p, present) for p in candidates if present.has(p)}
        candidates |= self.backend.evaluate(queries, self._with_derived(candidates))
        return self._nonempty(candidates)

    def _advance(self, fresh: Mapping[str, Relation], kept: Naming) -> None:
        """The new rows are kept, and are the frontier of the next round."""
        for predicate, rows in fresh.items():
            self.made[frontier(predicate)] = rows
            before = self.made.get(kept(predicate))
            self.made[kept(predicate)] = rows if before is None else self.backend.extended(before, rows)

    def _record(self, phase: str, number: int, fresh: Mapping[str, Relation]) -> None:
        self.rounds.append(Round(phase, number, {p: self.backend.size(r) for p, r in fresh.items()}))

    def _difference(self) -> Changed[Relation]:
        come: dict[str, Node] = {}
        went: dict[str, Node] = {}
        result: Changed[Relation] = Changed({}, {}, self.rounds)
        for p in self.group.predicates:
            if added(p) in self.made and gone(p) in self.made:
                come[p] = self.queries.less(added(p), gone(p), p)
                went[p] = self.queries.less(gone(p), added(p), p)
            elif added(p) in self.made:
                result.inserted[p] = self.made[added(p)]
            elif gone(p) in self.made:
                result.deleted[p] = self.made[gone(p)]
        for kind, queries in ((result.inserted, come), (result.deleted, went)):
            rows = self.backend.evaluate(queries, self.made)
            kind |= self._nonempty(rows)
        return result

    def _endless(self, phase: str) -> NablaError:
        last = self.rounds[-1]
        names = ", ".join(self.group.predicates)
        return NablaError(
            "NABLA_RULES_ROUNDS",
            f"{names} did not settle within {self.bound:,} rounds; the last one ({phase}) still found new rows",
            place="; ".join(self.group.places(last.sizes)),
            remedy="Rules that make new values (X + 1) need a condition that ends them, or raise the bound on rounds.",
        )
