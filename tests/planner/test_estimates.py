"""Estimates of the time of a refresh, by the model and by the view's past."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Scan
from nabla.calculus.stages import cut
from nabla.planner.choose import UNTRIED_MARGIN, choose
from nabla.planner.estimates import (
    CHANGE_ROWS_PER_SECOND,
    COLD_SECONDS,
    COLD_TIMES,
    FASTEST,
    Measured,
    SourceFacts,
    ViewFacts,
    incremental_cost,
)

VIEW = cut(Scan("orders", At.NEW, (Column("id#1", "bigint"),), ("id",)))


def facts(changed: int, *past: Measured, table: str = "orders", cold: bool = False) -> ViewFacts:
    sources = tuple(
        SourceFacts(name, 1_000_000, changed if name == table else 0, 0, name == table) for name in ("orders", "parts")
    )
    return ViewFacts("v", 100, sources, past, cold=cold)


def measured(seconds: float, changed: int, table: str = "orders", cold: bool = False) -> Measured:
    return Measured("incremental", seconds, changed, 2_000_000, cold, (table,))


def expected(now: ViewFacts) -> tuple[float, bool]:
    estimate = incremental_cost(now, VIEW, ())
    return estimate.seconds, estimate.measured


def test_without_a_past_the_model_says_it() -> None:
    assert expected(facts(1000)) == (1000 / CHANGE_ROWS_PER_SECOND, False)


def test_of_changes_of_this_size_the_fastest_counts() -> None:
    assert expected(facts(1000, measured(3, 1000), measured(2, 1000), measured(9, 1000))) == (2, True)


def test_a_change_of_another_size_says_less_than_one_of_this_size() -> None:
    past = (measured(30, 500_000), measured(0.2, 1000))
    assert expected(facts(500_000, *past)) == (30, True)
    assert expected(facts(1000, *past)) == (0.2, True)


def test_between_two_sizes_a_line_is_drawn() -> None:
    assert expected(facts(30_700, measured(11, 100_000), measured(1, 1000))) == (pytest.approx(4), False)


def test_beyond_all_sizes_costs_grow_as_they_did_but_no_faster_than_the_change() -> None:
    assert expected(facts(1_000_000, measured(2, 100_000), measured(1, 10_000))) == (pytest.approx(4), False)
    assert expected(facts(1_000_000, measured(50, 100_000), measured(1, 10_000))) == (pytest.approx(500), False)
    assert expected(facts(1_000_000, measured(1, 100_000), measured(2, 10_000))) == (pytest.approx(1), False)


def test_beyond_the_only_size_the_models_slope_holds() -> None:
    assert expected(facts(201_000, measured(1, 1000))) == (pytest.approx(3), False)
    assert expected(facts(1000, measured(2.5, 201_000))) == (pytest.approx(0.5), False)
    assert expected(facts(1000, measured(1, 201_000))) == (FASTEST, False)


@pytest.mark.parametrize("other", [measured(9, 1000, table="parts"), measured(2, 1000, cold=True)])
def test_like_is_compared_with_like(other: Measured) -> None:
    """A change of another table, and the first refresh of a process, say nothing of this one."""
    assert expected(facts(1000, other)) == (1000 / CHANGE_ROWS_PER_SECOND, False)
    assert expected(facts(1000, other, table=other.changed[0], cold=other.cold)) == (other.seconds, True)


def test_the_first_refresh_of_a_process_takes_some_seconds_or_some_times_longer() -> None:
    assert expected(facts(1000, measured(20, 1000, cold=True))) == (pytest.approx(20 / COLD_TIMES), False)
    assert expected(facts(1000, measured(3.5, 1000, cold=True))) == (pytest.approx(3.5 - COLD_SECONDS), False)


def test_a_slow_first_refresh_is_tried_again_when_warm() -> None:
    """Recomputing takes a second, and the first refresh of the process took five."""
    slow = measured(5.0, 1000, cold=True)
    assert chosen(facts(1000, BUILT, slow))[0] == "incremental"
    assert chosen(facts(1000, replace(BUILT, seconds=0.4), slow))[0] == "incremental"
    assert chosen(facts(1000, BUILT, slow, measured(1.5, 1000)))[0] == "full"


BUILT = Measured("full", 1.0, 0, 2_000_000)
"""A build of the view, in one second."""


def chosen(now: ViewFacts) -> tuple[str, str]:
    plan = choose(now, VIEW, "auto")
    return plan.mode, plan.reason


def test_what_was_never_tried_is_tried_once() -> None:
    rows = int(2 * CHANGE_ROWS_PER_SECOND)
    mode, reason = chosen(facts(rows, BUILT))
    assert (mode, "not tried yet" in reason) == ("incremental", True)
    assert chosen(facts(rows, BUILT, measured(2, rows)))[0] == "full"


def test_what_is_far_too_slow_is_not_even_tried() -> None:
    mode, reason = chosen(facts(int(2 * UNTRIED_MARGIN * CHANGE_ROWS_PER_SECOND), BUILT))
    assert (mode, reason.startswith("recomputing is cheaper")) == ("full", True)


def test_a_change_of_another_table_is_tried_anew() -> None:
    rows = int(2 * CHANGE_ROWS_PER_SECOND)
    assert chosen(facts(rows, BUILT, measured(9, rows, table="parts")))[0] == "incremental"


def test_a_size_of_its_own_is_tried_too() -> None:
    small, large = measured(1, 10_000), measured(1.5, 100_000)
    assert chosen(facts(400_000, BUILT, small, large))[0] == "incremental"
    assert chosen(facts(400_000, BUILT, small, large, measured(2.8, 400_000)))[0] == "full"


def test_a_process_that_goes_on_compares_what_both_cost_when_warm() -> None:
    """Even if it has not recomputed the view yet: else it never would."""
    past = (replace(BUILT, seconds=9.0, cold=True), BUILT, measured(1.5, 1000, cold=True), measured(1.2, 1000))
    assert chosen(facts(1000, *past))[0] == "full"
    assert chosen(facts(1000, *past, cold=True))[0] == "incremental"


def test_the_first_build_of_a_process_is_the_most_that_recomputing_takes() -> None:
    past = (replace(BUILT, cold=True), measured(2.0, 1000))
    mode, reason = chosen(facts(1000, *past))
    assert mode == "full"
    assert "1.00 s (less than the first took" in reason
    assert chosen(facts(1000, replace(BUILT, seconds=9.0, cold=True), measured(1.2, 1000)))[0] == "incremental"


def test_what_was_only_modelled_is_compared_with_a_model() -> None:
    """Small views build faster than any model says; so are they maintained."""
    _, reason = chosen(facts(1000, replace(BUILT, seconds=0.01, cold=True)))
    assert "less than the first took" not in reason


def test_a_single_measurement_is_not_trusted_for_ever() -> None:
    """It may have been disturbed; after some full refreshes the view is maintained once more."""
    slow, full = measured(4.0, 1000), (BUILT,) * 9
    assert chosen(facts(1000, BUILT, slow, *full))[0] == "full"
    mode, reason = chosen(facts(1000, BUILT, slow, *full, BUILT))
    assert mode == "incremental"
    assert "tried once, and long ago" in reason
    assert chosen(facts(1000, BUILT, slow, *full, BUILT, measured(3.5, 1000)))[0] == "full"
    assert chosen(facts(1000, BUILT, measured(40.0, 1000), *full, BUILT))[0] == "full"


def test_a_model_is_as_wrong_for_maintaining_as_it_was_for_recomputing() -> None:
    """On a machine, or with a view, that is ten times faster than the model says, maintaining is so too."""
    slow, fast = (expected(facts(1000, replace(BUILT, seconds=s)))[0] for s in (10.0, 1.0))
    assert slow == pytest.approx(10 * fast)
    assert chosen(facts(100_000, replace(BUILT, seconds=0.1)))[0] == "incremental"
