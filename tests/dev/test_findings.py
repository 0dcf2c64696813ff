"""What a report says beside times: exactness, estimates, reasons, failures, peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from nabla.dev.bench.findings import estimated, exactness, failures, recomputed
from nabla.dev.bench.measure import BUILD, FAILED, ChangeRound, Measurement, failure, summarize
from nabla.dev.bench.peers import Peer
from nabla.dev.bench.report import followers, peer_means, tables
from nabla.errors import NablaError


def measured(view: str, asked: str = "auto", mode: str = "incremental", seconds: float = 1) -> Measurement:
    return Measurement(1, view, 0.1, "facts", asked, mode, seconds, 8, 1, 10, 100, 0, 0, 0, 1, 1)


def test_a_view_that_was_wrong_once_is_not_exact() -> None:
    rounds = [replace(measured("q01"), verdict=verdict) for verdict in ("exact", "wrong", "exact")]
    section = exactness([*rounds, replace(measured("q02"), verdict="exact")])
    assert list(section.rows) == [("scale 1, 0.1 % facts, mode auto", 2, 1, "q01 wrong")]


def test_the_last_estimate_of_a_view_is_compared_with_the_time_it_took() -> None:
    found = estimated(
        [
            replace(measured("q01", seconds=10), estimate=1.0),
            replace(measured("q01", seconds=4), estimate=3.0),
            replace(measured("q02", seconds=1), estimate=3.0),
            measured("q03"),
        ]
    )
    assert {e.view: (e.ratio, e.good) for e in found} == {"q01": (0.75, True), "q02": (3, False)}


def test_a_failure_is_counted_and_has_no_part_in_the_ratios() -> None:
    now = ChangeRound(1, 0.1, "facts")
    broken = failure(now, "q72", "auto", 3, NablaError("NABLA_MEMORY", "too little"))
    strange = failure(now, "q73", BUILD, 3, ValueError("a value\nof two lines"))
    everything = [measured("q01"), broken, broken, strange]
    assert broken.mode == FAILED
    assert list(failures(everything).rows) == [
        ("scale 1, 0.1 % facts, mode auto", "q72", "NABLA_MEMORY", 2),
        ("scale 1, build", "q73", "ValueError: a value of two lines", 1),
    ]
    assert [s.view for s in summarize(everything)] == ["q01"]
    assert "geometric mean of the ratios: 8.00" in tables(everything)


def test_a_reason_for_recomputing_is_listed_once() -> None:
    full = replace(measured("q01", mode="full"), reason="no rule")
    assert list(recomputed([full, full, measured("q02")]).rows) == [
        ("scale 1, 0.1 % facts, mode auto", "q01", "no rule")
    ]


def test_peers_are_compared_over_the_views_that_changed() -> None:
    found = followers(
        [
            *(measured("q01", "duckdb", "duckdb", 2), measured("q02", "duckdb", "duckdb", 1)),
            *(measured("q03", "duckdb", "duckdb", 9), measured("q03", mode="skip", seconds=0.001)),
            *(measured("q01"), measured("q02", seconds=2), measured("q02", "incremental", seconds=50)),
        ]
    )
    assert {f.view: f.ratio for f in found} == {"q01": 2, "q02": 0.5}
    (row,) = peer_means(found).rows
    assert row == ("duckdb", "scale 1, 0.1 % facts", 2, pytest.approx(1), 0.5, "q02")


def test_a_peers_record_says_nothing_about_the_view_of_nabla() -> None:
    class Slow(Peer):
        name = "slow"

        def __init__(self) -> None: ...

        def follow(self, found: Mapping[str, Measurement]) -> Iterator[Measurement]:
            return (self.timed(ours, 5) for ours in found.values())

    ours = replace(measured("q01", mode="full"), verdict="exact", reason="no rule", estimate=1.0)
    (theirs,) = Slow().follow({"q01": ours})
    assert theirs == replace(measured("q01", "slow", "slow", 5), jobs=0, rows_read=0)
