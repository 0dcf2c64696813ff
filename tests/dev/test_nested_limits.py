"""Maintenance limits from measurements: where the curves of maintaining and recomputing cross."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nabla.dev.bench.by_student import BY_STUDENT
from nabla.dev.bench.nested_costs import Costs, table
from nabla.dev.bench.nested_limits import Limit, curves, limits, limits_json, tables
from nabla.dev.bench.nested_run import Kind, Timed, clear_measurements, next_round
from nabla.dev.bench.records import Records
from nabla.dev.bench.table24 import TABLE_24
from nabla.dev.bench.university import Design
from nabla.frontends.nested.meaning import NestedSource, schema_of
from nabla.frontends.nested.schema import Schema


def measured(view: str, ratios: dict[float, float], rounds: int = 3, rec: float = 10.0) -> list[Timed]:
    """Recomputing takes `rec` seconds in the first round, twice as long in the second, and so on."""
    found = [Timed(view, "left", 0, 0, "cre", rec)]
    for number in range(rounds):
        for size, ratio in ratios.items():
            seconds: dict[Kind, float] = {"rec": rec, "mtn": rec * ratio, "inc": rec * ratio / 2}
            found += [Timed(view, "left", size, number, kind, s * (1 + number)) for kind, s in seconds.items()]
    return found


@pytest.mark.parametrize(
    ("ratios", "limit"),
    [
        ({10: 0.4, 20: 0.8, 30: 1.2, 40: 1.6}, Limit(25)),
        ({10: 0.5, 20: 1.0}, Limit(20)),
        ({10: 0.4, 50: 0.9}, Limit(50, above=True)),
        ({10: 1.2, 20: 1.6}, Limit(5)),
        ({10: 3.0, 20: 3.5}, Limit(0)),
        ({40: 2.0}, Limit(20)),
        ({20: 1.25, 40: 1.1}, Limit(16)),
    ],
)
def test_the_limit_is_where_the_curves_cross(ratios: dict[float, float], limit: Limit) -> None:
    found = curves(measured("q_jn1", ratios), "left")["q_jn1"].limit
    assert (found.percent, found.above) == (pytest.approx(limit.percent), limit.above)


def test_curves_are_medians_relative_to_view_creation() -> None:
    curve = curves(measured("q_jn1", {10: 0.5}), "left")["q_jn1"]
    assert curve.curve("rec") == [(10, 2.0)]
    assert curve.curve("inc") == [(10, 0.5)]
    assert curve.ratio(10) == pytest.approx(0.5)


def test_tables_stand_beside_the_papers() -> None:
    timed = measured("q_s2", {20: 0.5, 40: 1.5}) + measured("q_jn23", {20: 0.5, 40: 0.6})
    text = tables(timed)
    assert "level  1   2     3\n" in text
    assert "paper  18  40.5  32\nhere       30.0\n" in text
    assert "paper  21  44  36\nhere           > 40" in text
    assert json.loads(limits_json(timed)) == {"limits": {"selection": [None, 30.0, None], "join": [None, None, 40]}}


def test_the_figures_stand_beside_what_the_paper_says_of_them() -> None:
    timed = measured("q_s3", {20: 0.5, 50: 0.8}, rounds=1)
    timed += [Timed("q_s3", "left", size, 0, "less", seconds) for size, seconds in ((20, 8.0), (50, 5.0))]
    timed += [Timed("q_jn2", "left", 0, 0, "cre", 4.0)]
    timed += [Timed("q_jn2", "right", 20, 0, kind, 3.0) for kind in ("rec", "inc", "mtn")]
    text = tables(timed)
    assert "Figure 2: selection on level 3, times over that of view creation" in text
    assert "paper, 50 %  0.50                 0.50  above 0.5\n" in text
    assert "here, 50 %   0.50                 0.40  0.80\n" in text
    assert "paper, level 3  inc   about 1\n" in text
    assert "q_jn2           mtn   0.75\n" in text
    falling = curves(timed, "left")["q_s3"].limit_of_deletion
    assert falling is not None
    assert falling.percent == pytest.approx(20 + 30 * (1 - 5 / 8) / (8 / 5 - 5 / 8))


def test_the_costs_of_an_equation_have_the_names_of_the_paper() -> None:
    items = {"coul": 1.0, "cmb": 2.0, "inc": 3.0, "del": 4.0, "ins": 5.0}
    text = table([Costs("q_jn23", 10, items, 2.5, 6.5, 9.0)]).text()
    assert "c_coul  c_cmb  c_inc  c_del  c_ins  together  transaction  refresh  c_rec" in text
    assert "1.00    2.00   3.00   4.00   5.00   15.00     2.50         6.50     9.00" in text


def test_a_run_in_pieces_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for _ in range(2):
        results = Records(Timed, path)
        results.add(Timed("q_jn1", "left", 10, next_round(results.all), "rec", 1.5))
    assert [timed.round for timed in Records(Timed, path).all] == [0, 1]


def schemas_of_views(design: Design) -> dict[str, str]:
    sources = {name: NestedSource(Schema.of(own.schema)) for name, own in design.relations.items()}
    return {e.name: schema_of(e.view, sources).text for e in design.experiments}


def test_the_views_fit_the_relations_that_the_paper_prints() -> None:
    found = schemas_of_views(TABLE_24)
    assert found["q_s3"] == "{Name, Subjs*: {sjName, Year, Marks*: {TestName, Mark}}, Addr*: {Addr}}"
    subjects = "sjName, Year, Marks*: {TestName, Mark}, TestNames*: {TestName, Description}"
    assert found["q_jn23"] == f"{{Name, Subjs*: {{{subjects}}}, Addr*: {{Addr}}}}"


def test_the_views_of_the_older_design_fit_its_relations() -> None:
    found = schemas_of_views(BY_STUDENT)
    assert found["join_23"].startswith("{Name, Subjs*: {sjName, Year, Marks*: {testName, Mark, Descs*: {Description}}}")


def test_what_a_broken_run_left_unfinished_is_left_out() -> None:
    timed = [*measured("q_jn1", {20: 0.5, 40: 0.8}), Timed("q_jn1", "left", 60, 9, "mtn", 1.0)]
    assert str(curves(timed, "left")["q_jn1"].limit) == "> 40"
    assert not curves([Timed("q_jn2", "right", 60, 0, "mtn", 1.0)], "right")


def test_measurements_of_a_design_are_cleared_and_others_kept(tmp_path: Path) -> None:
    timed, costs = clear_measurements(tmp_path, TABLE_24)
    for view in ("q_s1", "join_1"):
        Records(Timed, timed).add(Timed(view, "left", 10, 0, "rec", 1.5, 2000))
    assert clear_measurements(tmp_path, TABLE_24) == (timed, costs)
    assert [one.view for one in Records(Timed, timed).all] == ["join_1"]
    assert costs.read_text() == ""


def test_the_page_says_how_many_students_and_rounds_were_measured() -> None:
    timed = [replace(t, students=2000) for t in measured("q_jn1", {20: 0.5, 40: 0.8})]
    assert "2,000 students, medians of" in limits(timed).markdown()
    assert "students" not in limits(measured("q_jn1", {20: 0.5})).markdown()
