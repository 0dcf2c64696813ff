"""The choice among candidates: greedy by gain for each byte, with a look back (Harinarayan, Rajaraman, Ullman 1996)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nabla.advise.candidates import Candidate

LEAST_GAIN = 0.01
"""The share of the workload's time that a view has to save to be proposed."""


@dataclass(frozen=True)
class Offer:
    """A candidate with its price: `bytes` that it takes, and `upkeep`, the seconds of its refresh. `seconds` are those of
    each query that it answers, by the query's place in the workload."""

    candidate: Candidate
    bytes: int
    upkeep: float
    seconds: Mapping[int, float]


@dataclass(frozen=True)
class Chosen:
    """An offer that was taken. `benefit` are the seconds of the workload that would be lost without it, `serves` the places
    of the queries that read it."""

    offer: Offer
    benefit: float
    serves: tuple[int, ...]


def without_needless_constants(offers: Sequence[Offer], seconds: Sequence[float], space: int) -> list[Offer]:
    """The offers without those for one constant where there is one for all of them: constants of queries change. A view for
    one constant is worth a thought where the other is too large, or saves less than half of the time."""
    by_candidate = {offer.candidate: offer for offer in offers}

    def is_needless(offer: Offer) -> bool:
        general = by_candidate.get(offer.candidate.general)
        if not offer.candidate.kept or general is None or general.bytes > space:
            return False
        return all(general.seconds.get(place, seconds[place]) <= seconds[place] / 2 for place in offer.seconds)

    return [offer for offer in offers if not is_needless(offer)]


def choose_offers(
    offers: Sequence[Offer],
    seconds: Sequence[float],
    weights: Sequence[float],
    space: int,
    upkeep: float | None = None,
) -> tuple[Chosen, ...]:
    """The offers to take within `space` bytes and, if given, `upkeep` seconds a refresh. `seconds` are those that the queries
    take without them. The single best offer is taken instead of all others if it saves more than they do together."""
    problem = _Problem(offers, seconds, weights, space, upkeep)
    taken = problem.look_back(problem.greedy())
    alone = max(((problem.gain({i}), i) for i in problem.fitting(set())), default=(0.0, -1))
    if alone[0] > problem.gain(taken):
        taken = {alone[1]}
    chosen = [problem.chosen(i, taken) for i in taken]
    return tuple(sorted(chosen, key=lambda one: -one.benefit))


@dataclass(frozen=True)
class _Problem:
    offers: Sequence[Offer]
    seconds: Sequence[float]
    weights: Sequence[float]
    space: int
    upkeep: float | None

    def cost(self, taken: Collection[int]) -> float:
        """The seconds of the workload and of refreshing what is taken."""
        queries = sum(
            weight * min([plain, *(self.offers[i].seconds[place] for i in taken if place in self.offers[i].seconds)])
            for place, (plain, weight) in enumerate(zip(self.seconds, self.weights, strict=True))
        )
        return queries + sum(self.offers[i].upkeep for i in taken)

    def price(self, taken: Collection[int]) -> tuple[float, int]:
        """The seconds, and if these are equal, the bytes."""
        return round(self.cost(taken), 6), sum(self.offers[i].bytes for i in taken)

    def gain(self, taken: Collection[int]) -> float:
        return self.cost(()) - self.cost(taken)

    def fitting(self, taken: Collection[int]) -> list[int]:
        """The offers that there is room for."""
        room = self.space - sum(self.offers[i].bytes for i in taken)
        spare = None if self.upkeep is None else self.upkeep - sum(self.offers[i].upkeep for i in taken)
        return [
            i
            for i, offer in enumerate(self.offers)
            if i not in taken and offer.bytes <= room and (spare is None or offer.upkeep <= spare)
        ]

    def greedy(self) -> set[int]:
        taken: set[int] = set()
        least = LEAST_GAIN * self.cost(())
        while True:
            before = self.cost(taken)
            rated = [(before - self.cost({*taken, i}), i) for i in self.fitting(taken)]
            rated = [(gain, i) for gain, i in rated if gain > least]
            if not rated:
                return taken
            taken.add(max(rated, key=lambda one: (one[0] / max(1, self.offers[one[1]].bytes), one[0]))[1])

    def look_back(self, taken: set[int]) -> set[int]:
        """Drop what later choices made superfluous, and exchange one offer for another as long as that saves time."""
        improved = True
        while improved:
            improved = False
            for old in sorted(taken):
                rest = taken - {old}
                better = [rest, *({*rest, new} for new in self.fitting(rest) if new != old)]
                best = min(better, key=self.price)
                if self.price(best) < self.price(taken):
                    taken, improved = set(best), True
                    break
            if not improved:
                more = [{*taken, new} for new in self.fitting(taken)]
                best = min(more, key=self.cost, default=taken)
                if self.cost(best) < self.cost(taken) - LEAST_GAIN * self.cost(()):
                    taken, improved = set(best), True
        return taken

    def chosen(self, one: int, taken: set[int]) -> Chosen:
        offer = self.offers[one]
        serves = tuple(
            place
            for place, seconds in offer.seconds.items()
            if seconds < self.seconds[place]
            and all(seconds <= self.offers[i].seconds.get(place, seconds) for i in taken if i != one)
        )
        return Chosen(offer, self.cost(taken - {one}) - self.cost(taken) + offer.upkeep, serves)
