"""The fuzzer without Spark: a slice of it finds nothing, and a wrong rule does not escape it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nabla.algebra.nodes import Node, UnionAll
from nabla.calculus import laws
from nabla.calculus.delta import Derivation
from nabla.testing.fuzz import plans
from nabla.testing.fuzz.budget import Budget
from nabla.testing.fuzz.command import main
from nabla.testing.fuzz.plan_script import plan_script


def test_two_thousand_plans_are_maintained_as_recomputed() -> None:
    findings = plans.run(seed=2024, budget=Budget(count=2000), jobs=2)
    assert findings.cases == 2000
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
    findings = plans.run(seed=1, budget=Budget(count=200), jobs=1)
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
            ["--engine", "interpreter", "--plans", "50", "--seed", "1", "--jobs", "1", "--json", "--out", str(tmp_path)]
        )
    assert exit_.value.code == 1
    (fault, *_) = json.loads(capsys.readouterr().out)["interpreter"]["faults"]
    assert Path(fault["file"]).read_text(encoding="utf-8") == fault["script"]
