"""The choice of views under a limit of space."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

from nabla.advise.candidates import Candidate
from nabla.advise.choose import Offer, choose_offers, without_needless_constants
from nabla.algebra.build import equal
from nabla.algebra.expressions import Expr, Literal, Ref

NOTHING: frozenset[object] = frozenset()


def offer(name: str, size: int, upkeep: float = 0.0, **seconds: float) -> Offer:
    candidate = Candidate(frozenset({name}), NOTHING, NOTHING, NOTHING, NOTHING)  # type: ignore[arg-type]
    return Offer(candidate, size, upkeep, {int(place[1:]): s for place, s in seconds.items()})


def names(chosen: object) -> set[str]:
    return {next(iter(one.offer.candidate.tables)) for one in chosen}  # type: ignore[attr-defined]


def test_a_view_that_serves_all_queries_is_taken_alone() -> None:
    offers = [offer("fine", 50, q0=1, q1=1), offer("one", 10, q0=1), offer("two", 60, q1=1)]
    assert names(choose_offers(offers, [10, 10], [1, 1], space=60)) == {"fine"}


def test_space_is_respected() -> None:
    offers = [offer("large", 100, q0=0), offer("small", 10, q1=5)]
    chosen = choose_offers(offers, [10, 10], [1, 1], space=99)
    assert names(chosen) == {"small"}
    assert chosen[0].benefit == 5
    assert chosen[0].serves == (1,)


def test_a_large_view_that_saves_more_than_all_small_ones_is_taken() -> None:
    offers = [offer("large", 100, q0=0), offer("small", 10, q1=8)]
    assert names(choose_offers(offers, [10, 10], [1, 1], space=100)) == {"large"}


def test_a_view_whose_upkeep_exceeds_its_benefit_is_not_proposed() -> None:
    assert not choose_offers([offer("dear", 1, upkeep=20, q0=0)], [10], [1], space=100)
    assert names(choose_offers([offer("dear", 1, upkeep=20, q0=0)], [10], [10], space=100)) == {"dear"}


def test_upkeep_has_a_limit_of_its_own() -> None:
    offers = [offer("a", 1, upkeep=2, q0=0), offer("b", 1, upkeep=2, q1=0)]
    assert len(choose_offers(offers, [10, 10], [1, 1], space=100, upkeep=3)) == 1


def test_the_choice_saves_at_least_half_of_what_the_best_choice_saves() -> None:
    for seed in range(60):
        rng = Random(seed)
        offers = [
            offer(f"v{i}", rng.randint(1, 40), 0.0, **{f"q{p}": rng.uniform(0, 10) for p in rng.sample(range(4), 2)})
            for i in range(6)
        ]

        def saved(taken: tuple[Offer, ...]) -> float:
            return sum(10 - min([10.0, *(o.seconds[p] for o in taken if p in o.seconds)]) for p in range(4))

        fits = (
            t for t in chain.from_iterable(combinations(offers, n) for n in range(7)) if sum(o.bytes for o in t) <= 60
        )
        best = max(map(saved, fits))
        chosen = tuple(one.offer for one in choose_offers(offers, [10] * 4, [1] * 4, space=60))
        assert sum(o.bytes for o in chosen) <= 60
        assert saved(chosen) >= best / 2


def test_a_view_for_one_constant_gives_way_to_one_for_all_constants() -> None:
    day: Expr = Ref("t.day", "int", True)
    own = Candidate(
        frozenset({"t"}), frozenset(), frozenset({equal(day, Literal("7", "int"))}), frozenset(), frozenset()
    )
    one, every = Offer(own, 1, 0.0, {0: 0.1}), Offer(own.general, 50, 0.0, {0: 1.0})
    assert without_needless_constants([one, every], [10.0], space=100) == [every]
    assert without_needless_constants([one, every], [10.0], space=20) == [one, every]
    assert without_needless_constants([one, every], [1.5], space=100) == [one, every]
