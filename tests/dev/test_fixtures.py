"""The golden fixtures: how each operator's views are maintained, as algebra and as SQL. `make fixtures` writes them anew."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.algebra.nodes import Negate
from nabla.calculus.laws import LAWS, law_of
from nabla.calculus.methods import METHODS, Method
from nabla.dev.fixtures import Fixture, View, define, fixtures, stored_definitions
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.steps import Build, Recompute, Step

FOLDER = Path(__file__).parents[1] / "fixtures" / "delta"
FIXTURES = fixtures(FOLDER)


@cache
def views() -> list[View]:
    stored = stored_definitions(FOLDER)
    return [fixture.view(stored[fixture.name]) for fixture in FIXTURES]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_maintenance_is_what_the_fixture_says(fixture: Fixture) -> None:
    text = fixture.text(stored_definitions(FOLDER)[fixture.name])
    assert text == (FOLDER / f"{fixture.name}.sql").read_text(encoding="utf-8"), "see what `make fixtures` changes"


@pytest.mark.spark
def test_spark_resolves_the_views_as_they_are_stored(tmp_path: Path, spark: SparkSession) -> None:
    assert define(nabla.open(tmp_path / "lake", spark=spark), FIXTURES) == stored_definitions(FOLDER)


def test_every_law_has_a_fixture() -> None:
    shown = {law.name for view in views() for node in view.plan.walk() if (law := law_of(node))}
    assert {law.name for law in LAWS.values() if law.operator is not Negate} == shown  # no view negates


def test_every_kind_of_join_has_a_fixture() -> None:
    shown = {getattr(node, "kind", "inner") for view in views() for node in view.plan.walk()}
    assert shown == {"inner", "left", "right", "full", "semi", "anti"}


def test_every_method_of_keeping_state_has_a_fixture() -> None:
    shown: set[Method] = {stage.how for view in views() for stage in view.staged.stages}
    assert set(METHODS) == shown


def test_every_step_of_maintenance_has_a_fixture() -> None:
    shown = {type(step) for view in views() for step in maintenance_steps(view.staged, frozenset(view.sources))}
    assert set(Step.__args__) - {Build, Recompute} == shown  # these two compute views whole
