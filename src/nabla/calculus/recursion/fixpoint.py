"""The loop that evaluates and maintains a recursive group: the same one for the interpreter and for Spark.

From scratch it goes semi-naively: each round derives the rows that follow from those of the last round, until a round gives
nothing new.

After a change of the inputs it deletes too much and derives again (Gupta, Mumick, Subrahmanian 1993: DRed):

    gone     every stored row with a derivation in the old state that used a deleted fact, directly or through other rows
    present  stored − gone: these rows lost no derivation, so they are true in the new state
    added    the rows that follow in the new state: rows of `gone` with another derivation, and rows that insertions make true

    Δ = added − gone      ∇ = gone − added

This is the minimal change, even though `gone` may hold rows that stay true.
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
    added_name,
    derived_name,
    frontier_name,
    gone_name,
    set_changes,
)
from nabla.errors import NablaError

Relation = TypeVar("Relation")
ROUNDS = 10_000
"""A program that needs more rounds than this is refused as one that does not end."""
FEW_ROWS = 50_000
"""Up to so many known rows, one query derives the next rows and drops the known ones."""


class Backend(Protocol[Relation]):
    """Runs the loop's queries. A relation is a handle of rows that have been computed: reading it computes nothing again."""

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Relation]) -> dict[str, Relation]:
        """Run queries and hold their rows. A scan whose table is in `made` reads that relation, in any state; any other
        scan reads a table or a stored predicate in the state that it names. The lineage of Spark's plans ends here."""
        ...

    def size(self, relation: Relation) -> int:
        """The number of rows."""
        ...

    def extend(self, relation: Relation, more: Relation) -> Relation:
        """The rows of both, which have none in common. Nothing needs to be copied."""
        ...


@dataclass(frozen=True)
class Round:
    """One turn of the loop, for display: the number of new rows of each predicate."""

    phase: str
    number: int
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.sizes.items())
        return f"{self.phase} round {self.number}: {sizes}"


def summary(rounds: Iterable[Round]) -> str:
    """The number of rounds of each phase, and of the rows that it found."""
    phases: dict[str, list[int]] = {}
    for turn in rounds:
        phases.setdefault(turn.phase, []).append(sum(turn.sizes.values()))
    return "; ".join(f"{phase}: {sum(sizes):,} rows in {len(sizes)} rounds" for phase, sizes in phases.items())


@dataclass
class Evaluated(Generic[Relation]):
    """The rows of whole predicates."""

    rows: dict[str, Relation]
    rounds: list[Round] = field(default_factory=list)


@dataclass
class Changed(Generic[Relation]):
    """The minimal change of each predicate; one that is missing did not change in that direction."""

    inserted: dict[str, Relation]
    deleted: dict[str, Relation]
    rounds: list[Round] = field(default_factory=list)


class Fixpoint(Generic[Relation]):
    """The loop over one group. `given` are relations that no table stores under their names: the lower strata of a question
    that is answered without storing anything."""

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
        rows = {p: self.made[added_name(p)] for p in self.group.predicates if added_name(p) in self.made}
        empty = {p: self.queries.nothing(p) for p in self.group.predicates if p not in rows}
        return Evaluated(rows | self.backend.evaluate(empty, {}), self.rounds)

    def maintain(self, changed: frozenset[str]) -> Changed[Relation]:
        """The change of the group after the inputs in `changed` have changed."""
        if not self._compute_input_changes(changed):
            return Changed({}, {}, self.rounds)
        self._over_delete()
        lost = frozenset(p for p in self.group.predicates if gone_name(p) in self.made)
        present = Present(stored=True, gone=lost)
        first = self.backend.evaluate(self.queries.found(self.made, present), self.made)
        self._grow("rederive and insert" if lost else "insert", first, present)
        return self._difference()

    def _compute_input_changes(self, changed: frozenset[str]) -> bool:
        """Compute the changes of the inputs as sets; return whether there are any."""
        names = {n: self.group.columns(n) for n in self.group.inputs if n in changed}
        changes = self._nonempty(self.backend.evaluate(set_changes(names), self.made))
        self.made |= changes
        return bool(changes)

    def _nonempty(self, relations: Mapping[str, Relation]) -> dict[str, Relation]:
        return {name: relation for name, relation in relations.items() if self.backend.size(relation)}

    def _over_delete(self) -> None:
        """Over-delete: collect every row that a deleted fact was used for in the old state."""
        found = self.backend.evaluate(self.queries.lost(self.made), self.made)
        for number in range(1, self.bound + 1):
            fresh = self._drop_seen(found)
            if not fresh:
                return
            self._record("over-delete", number, fresh)
            self._advance(fresh, gone_name)
            found = self.backend.evaluate(self.queries.lost_step(fresh), self.made)
        raise self._endless_error("over-delete")

    def _drop_seen(self, found: Mapping[str, Relation]) -> dict[str, Relation]:
        """The rows that a round of over-deletion found and that no earlier round did."""
        candidates = self._nonempty(found)
        queries = {
            p: self.queries.less(derived_name(p), gone_name(p), p) for p in candidates if gone_name(p) in self.made
        }
        candidates |= self.backend.evaluate(queries, self._relations_with(candidates))
        return self._nonempty(candidates)

    def _relations_with(self, candidates: Mapping[str, Relation]) -> dict[str, Relation]:
        """The relations of the loop, and the candidates of a round under the names of derived rows."""
        return self.made | {derived_name(p): rows for p, rows in candidates.items()}

    def _grow(self, phase: str, found: Mapping[str, Relation], present: Present) -> None:
        """Iterate semi-naively: add the new rows, and derive the next round from these alone."""
        fresh = self._drop_known(found, present)
        for number in range(1, self.bound + 1):
            if not fresh:
                return
            self._record(phase, number, fresh)
            self._advance(fresh, added_name)
            present = Present(present.stored, present.gone, present.added.union(fresh))
            fresh = self._derive_next(fresh, present)
        raise self._endless_error(phase)

    def _derive_next(self, fresh: Mapping[str, Relation], present: Present) -> dict[str, Relation]:
        """The rows that follow from those of the last round and are not known yet.

        If few rows are known, one query derives rows and drops the known ones. If many are known, rows are derived first,
        and only these are looked up among the known ones.
        """
        known = sum(self.backend.size(self.made[added_name(p)]) for p in present.added)
        if not present.stored and known <= FEW_ROWS:
            return self._nonempty(self.backend.evaluate(self.queries.step_beyond(present, fresh), self.made))
        return self._drop_known(self.backend.evaluate(self.queries.step(present, fresh), self.made), present)

    def _drop_known(self, found: Mapping[str, Relation], present: Present) -> dict[str, Relation]:
        """The rows that a round derived and that are not present already."""
        candidates = self._nonempty(found)
        queries = {p: self.queries.fresh_rows(p, present) for p in candidates if present.has(p)}
        candidates |= self.backend.evaluate(queries, self._relations_with(candidates))
        return self._nonempty(candidates)

    def _advance(self, fresh: Mapping[str, Relation], kept: Naming) -> None:
        """Keep the new rows; they are the frontier of the next round."""
        for predicate, rows in fresh.items():
            self.made[frontier_name(predicate)] = rows
            before = self.made.get(kept(predicate))
            self.made[kept(predicate)] = rows if before is None else self.backend.extend(before, rows)

    def _record(self, phase: str, number: int, fresh: Mapping[str, Relation]) -> None:
        self.rounds.append(Round(phase, number, {p: self.backend.size(r) for p, r in fresh.items()}))

    def _difference(self) -> Changed[Relation]:
        """The minimal change: rows in both `gone` and `added` have not changed."""
        gained: dict[str, Node] = {}
        lost: dict[str, Node] = {}
        result: Changed[Relation] = Changed({}, {}, self.rounds)
        for p in self.group.predicates:
            if added_name(p) in self.made and gone_name(p) in self.made:
                gained[p] = self.queries.less(added_name(p), gone_name(p), p)
                lost[p] = self.queries.less(gone_name(p), added_name(p), p)
            elif added_name(p) in self.made:
                result.inserted[p] = self.made[added_name(p)]
            elif gone_name(p) in self.made:
                result.deleted[p] = self.made[gone_name(p)]
        for kind, queries in ((result.inserted, gained), (result.deleted, lost)):
            rows = self.backend.evaluate(queries, self.made)
            kind |= self._nonempty(rows)
        return result

    def _endless_error(self, phase: str) -> NablaError:
        last = self.rounds[-1]
        names = ", ".join(self.group.predicates)
        return NablaError(
            "NABLA_RULES_ROUNDS",
            f"{names} did not settle within {self.bound:,} rounds; the last one ({phase}) still found new rows",
            place="; ".join(self.group.places(last.sizes)),
            remedy="Rules that make new values (X + 1) need a condition that ends them, or raise the bound on rounds.",
        )
