"""Reports of measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nabla.dev.bench.measure import BUILD, Measurement, summarize
from nabla.dev.bench.records import Records
from nabla.dev.bench.report import choices, growth, tables, to_json


def measured(
    view: str, asked: str, mode: str, seconds: float, recompute: float = 8, scale: float = 1, change: float = 0.1
) -> Measurement:
    return Measurement(scale, view, change, "mixed", asked, mode, seconds, recompute, 1, 10, 100, 0, 0, 0, 1, 1)


def test_a_choice_is_compared_with_the_better_of_both() -> None:
    found = choices(
        [
            measured("q01", "auto", "incremental", 1.5),
            measured("q01", "incremental", "incremental", 1),
            measured("q01", "full", "full", 10),
            measured("q02", "auto", "full", 4),
            measured("q02", "incremental", "incremental", 3),
            measured("q02", "full", "full", 5),
            measured("q03", "auto", "skip", 0.01),
            measured("q03", "incremental", "skip", 0.01),
            measured("q03", "full", "full", 5),
            measured("q04", "auto", "incremental", 1),
        ]
    )
    # The planner's own refreshes count as what they were: q01's is as much a measurement as the one that was asked for.
    assert {c.view: (c.mode, c.ratio) for c in found} == {"q01": ("incremental", 1.0), "q02": ("full", 1.5)}


def test_the_same_change_is_found_at_both_scales() -> None:
    summaries = summarize(
        [
            measured("q01", "auto", "incremental", 1, scale=1, change=0.1),
            measured("q01", "auto", "incremental", 1.2, scale=10, change=0.01),
            measured("q01", "auto", "incremental", 9, scale=10, change=0.1),
            measured("q02", "auto", "incremental", 1, scale=1, change=0.1),
            measured("q02", "auto", "incremental", 1.2, scale=10, change=0.01),
        ]
    )
    assert growth(summaries) == {(1, 10, 0.1): pytest.approx(1.2)}


def test_growth_after_changes_of_two_sizes_is_told_apart() -> None:
    seconds = {(1, 0.1): 1.0, (10, 0.01): 2.0, (1, 1): 4.0, (10, 0.1): 4.0}
    found = [measured("q01", "auto", "incremental", s, scale=scale, change=c) for (scale, c), s in seconds.items()]
    assert growth(summarize(found)) == {(1, 10, 0.1): pytest.approx(2), (1, 10, 1): pytest.approx(1)}


def test_tables_show_refreshes_builds_and_peers() -> None:
    text = tables(
        [
            measured("q01", "auto", "incremental", 2),
            measured("q01", "merge", "merge", 4),
            measured("q01", BUILD, "full", 9, change=0),
        ]
    )
    assert "scale 1, 0.1 % mixed, mode auto" in text
    assert "1      0.1       q01   merge  4       2        2.00" in text
    assert "geometric mean of the ratios: 4.00, worst 4.00 (q01)" in text
    assert "geometric mean of the ratios: 1.12" in text  # 9 seconds against 8


def test_a_run_in_pieces_adds_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tpch.jsonl"
    for seconds in (1.0, 3.0):
        Records(Measurement, path).add(measured("q01", "auto", "incremental", seconds))
    found = json.loads(to_json(Records(Measurement, path).all))
    assert found["mean"] == pytest.approx(4)  # 8 seconds against a median of 2
