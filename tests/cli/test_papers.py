"""`nabla papers`: the tour through the papers."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from nabla.cli.main import app
from nabla.dev.demo.papers import EXAMPLES, PaperChange, Shown

pytestmark = pytest.mark.spark


def test_the_tour_shows_each_paper_beside_its_own_table(spark: SparkSession) -> None:
    result = CliRunner().invoke(app, ["papers"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for example in EXAMPLES:
        assert f"{example.authors}: {example.title}" in result.stdout
    assert result.stdout.count("  the same") == len(EXAMPLES)
    assert "∇  Psych, Jill, Sam, Psych  yes        yes" in result.stdout


def test_a_result_that_is_not_the_papers_is_one_that_does_not_agree() -> None:
    shown = Shown(EXAMPLES[0], {"q": PaperChange()}, {"q": "full"})
    assert not shown.agrees
    assert shown.to_dict()["views"]["q"]["agrees"] is False
