"""The fuzzer: a slice of it finds nothing, and a wrong rule does not escape it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Generate, Node, UnionAll
from nabla.calculus import laws
from nabla.calculus.delta import Derivation
from nabla.dev.testing.fuzz import plans
from nabla.dev.testing.fuzz.budget import Budget
from nabla.dev.testing.fuzz.command import main
from nabla.dev.testing.fuzz.plan_script import plan_script
from nabla.dev.testing.fuzz.sql_edits import smaller_queries
from nabla.dev.testing.random_data import Table
from nabla.dev.testing.random_programs import Shape
from nabla.errors import Mismatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_hundred_plans_are_maintained_as_recomputed() -> None:
    findings = plans.run(seed=2024, budget=Budget(count=100), jobs=2)
    assert findings.cases == 100
    assert findings.failing == {}


@pytest.fixture
def forgetful_union(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong rule: the change of a union's last member is lost."""

    def wrong(q: UnionAll, c: Derivation) -> Node | None:
        return right.derive(replace(q, members=q.members[:-1]), c) if len(q.members) > 1 else right.derive(q, c)

    right, when = laws._BY_OPERATOR[UnionAll][0]
    monkeypatch.setitem(laws._BY_OPERATOR, UnionAll, [(replace(right, derive=wrong), when)])


@pytest.mark.usefixtures("forgetful_union")
def test_a_wrong_rule_is_found_and_the_case_made_small() -> None:
    findings = plans.run(seed=1, budget=Budget(count=20), jobs=1)
    assert findings.found
    small = findings.found[0].small
    assert len(list(small.plan.walk())) <= 5, plan_script(small, "")
    assert sum(bag.total() for bag in (*small.database.before.values(), *small.database.after.values())) == 1
    script = plan_script(small, findings.found[0].what)
    with pytest.raises(AssertionError, match="the change of the view"):
        exec(compile(script, "script", "exec"), {})


@pytest.mark.usefixtures("forgetful_union")
def test_the_command_reports_a_fault_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(
            ["--engine", "interpreter", "--plans", "20", "--seed", "1", "--jobs", "1", "--json", "--out", str(tmp_path)]
        )
    assert exit_.value.code == 1
    (fault, *_) = json.loads(capsys.readouterr().out)["interpreter"]["faults"]
    assert Path(fault["file"]).read_text(encoding="utf-8") == fault["script"]


def test_smaller_queries_leave_out_clauses_items_and_parts() -> None:
    smaller = set(smaller_queries("SELECT a, b + 1 AS c FROM t WHERE a > 1 AND b < 2"))
    assert {
        "SELECT a, b + 1 AS c FROM t",
        "SELECT a FROM t WHERE a > 1 AND b < 2",
        "SELECT a, b AS c FROM t WHERE a > 1 AND b < 2",
        "SELECT a, b + 1 AS c FROM t WHERE a > 1",
    } <= smaller


@pytest.mark.spark
def test_a_lake_of_random_views_stays_what_its_queries_give(spark: SparkSession) -> None:
    from nabla.dev.testing.fuzz import lakes

    findings = lakes.run(spark, seed=2024, budget=Budget(count=10), views=6, batches=4)
    assert findings.found == []
    assert findings.refreshes >= 10
    assert findings.modes["incremental"] > 0


@pytest.mark.spark
def test_the_reference_takes_the_first_rows_where_spark_by_itself_takes_others(spark: SparkSession) -> None:
    from nabla.dev.testing.fuzz.lake_trial import Reference

    reference = Reference(spark)
    reference.create(Table("r", (Column("a", "int"),)), ((1,), (3,), (2,)))
    count = "(SELECT COUNT(*) FROM r AS other WHERE other.a = first.a)"
    answer = reference.answer(f"SELECT a, {count} AS n FROM (SELECT a FROM r ORDER BY a DESC LIMIT 1) AS first")
    assert answer.to_pylist() == [{"a": 3, "n": 1}]


@pytest.mark.spark
@pytest.mark.usefixtures("forgetful_union")
def test_a_wrong_rule_is_found_on_spark_and_the_lake_made_small(spark: SparkSession, tmp_path: Path) -> None:
    from nabla.dev.testing.fuzz.lake_case import LakeCase, TableRows, fault_of, shrink_case
    from nabla.dev.testing.fuzz.lake_script import lake_script
    from nabla.dev.testing.fuzz.lake_trial import Change

    table = TableRows(Table("r", (Column("a", "int"), Column("b", "string"))), ((1, "x"), (2, None)))
    sql = "SELECT a, b FROM r WHERE a > 0 UNION ALL SELECT a + 1, b FROM r"
    batches = ((Change("r", (), ((3, "y"), (4, "y"))),), (Change("r", ((3, "y"),), ((5, "z"),)),))
    case = LakeCase((table,), (("v", sql),), batches)
    fault = fault_of(spark, case, tmp_path / "lake")
    assert fault is not None
    small = shrink_case(spark, case, fault, tmp_path, seconds=25)
    assert len(small.batches) == 1
    assert len(small.views[0][1]) < len(sql)
    script = lake_script(small, fault.what, fault.view)
    with pytest.raises(Mismatch):
        exec(compile(script, "script", "exec"), {})


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_random_programs_in_lakes_are_exact_and_their_feeds_minimal() -> None:
    from nabla.dev.testing.lake_programs import LakeTally, run

    tally = LakeTally()
    assert run(range(900, 904), Shape(changes=2), tally, together=2) == []
    assert tally.changed_predicates > 0
    assert tally.on_driver > 0


@pytest.mark.spark
@pytest.mark.usefixtures("forgetful_union")
def test_a_view_that_cannot_be_refreshed_does_not_hide_that_another_one_is_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nabla.dev.testing.fuzz.lake_trial import Change, Trial

    def failing(q: Generate, c: Derivation) -> Node | None:
        raise ValueError("no such rule")

    trial = Trial(spark, tmp_path / "lake")
    trial.create_table(Table("r", (Column("a", "int"),)), ((1,), (2,)))
    texts = {
        "failing": "SELECT a, explode(array(a, 9)) AS e FROM r",
        "of_failing": "SELECT a + 1 AS b FROM failing",
        "wrong": "SELECT a FROM r WHERE a > 0 UNION ALL SELECT a + 1 FROM r",
        "right": "SELECT a FROM r WHERE a > 1",
    }
    for name, sql in texts.items():
        assert trial.create_view(name, sql) is None
    law, when = laws._BY_OPERATOR[Generate][0]
    monkeypatch.setitem(laws._BY_OPERATOR, Generate, [(replace(law, derive=failing), when)])
    trial.change((Change("r", (), ((3,),)),))
    reports, faults = trial.refresh()
    assert set(reports) == {"wrong", "right"}
    assert {fault.view: fault.kind for fault in faults} == {
        "failing": "refresh raises ValueError",
        "wrong": "the view is not its query",
    }
    assert set(trial.views) == {"right"}
