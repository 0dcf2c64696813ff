"""Column lineage of a lake: through views, rules, constraints and denials; without a JVM."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nabla
from nabla.algebra.lineage import Origin
from nabla.cli.main import app
from nabla.lake.facade import Lake

KEPT = Path(__file__).parent.parent / "data" / "lake-format-4.tar.xz"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lineage")
    with tarfile.open(KEPT) as tar:
        tar.extractall(folder)  # our own archive
    return nabla.open(folder / "lake", trust=True)


def named(origins: object) -> set[str]:
    return set(map(str, origins))  # type: ignore[call-overload]


def test_a_view_names_what_it_is_computed_from_and_what_decides(lake: Lake) -> None:
    sums = lake.lineage("sums")
    assert sums.tables == ("pay",)
    assert sums["total"].direct == {Origin("pay", "amount"): ("aggregation",)}
    assert sums["total"].conditions == {Origin("pay", "who"): ("group",)}
    assert sums["TOTAL"] is sums["total"]
    assert sums["n"].direct == {}
    assert named(sums["who"].origins) == {"pay.who"}
    assert "pay.amount (aggregation)" in str(sums)
    assert "pay.amount (aggregation)" in sums._repr_html_()
    assert json.loads(json.dumps(sums.to_dict()))["columns"]["total"]["direct"] == [
        {"table": "pay", "column": "amount", "how": ["aggregation"]}
    ]


def test_one_column_is_asked_for_by_its_name_in_any_case(lake: Lake) -> None:
    one = lake.lineage("SUMS.Total")
    assert list(one.columns) == ["total"]
    for wrong in ("sums.nothing", "sums.", "nothing", "sums.total.x"):
        with pytest.raises(nabla.NablaError, match="NABLA_UNKNOWN"):
            lake.lineage(wrong)
    with pytest.raises(nabla.NablaError, match="NABLA_UNKNOWN_COLUMN"):
        one["who"]


def test_recursive_rules_constraints_and_denials_are_traced(lake: Lake) -> None:
    up = lake.lineage("up")
    assert {str(o): h for o, h in up["x"].direct.items()} == {"boss.a": ("identity",)}
    for constraint in ("acyclic", "no_loop"):
        found = lake.lineage(constraint)
        assert found.kind == "constraint"
        assert named(found["x"].origins) == {"boss.a", "boss.b"}


def test_a_view_over_a_view_is_seen_through_or_not(lake: Lake) -> None:
    both = lake.lineage("slow")
    assert set(both.tables) == {"boss", "pay"}
    direct = lake.lineage("slow", through=False)
    assert direct.tables, "what it reads itself"


def test_impact_is_the_other_way_round(lake: Lake) -> None:
    found = lake.impact("pay.amount")
    assert {(one.view, one.column) for one in found.affected if one.direct} == {
        ("early", "amount"),
        ("sums", "total"),
        ("of", "amount"),
        ("slow", "s"),
    }
    assert set(found.views) == {"early", "sums", "of", "slow"}
    assert lake.impact("one.one_x").views == ("both",)
    assert "has an effect on" in str(found)
    assert lake.impact("sums").affected == ()
    assert "nothing depends on" in str(lake.impact("sums"))
    for name, status in lake.status().items():
        for column in lake.lineage(name).columns:
            for origin in lake.lineage(f"{name}.{column}")[column].origins:
                there = {(one.view, one.column) for one in lake.impact(str(origin)).affected}
                assert (name, column) in there, (status, origin)


def test_the_command_prints_both_ways_for_people_and_programs(lake: Lake) -> None:
    run = CliRunner().invoke
    shown = run(app, ["lineage", "sums.total", "--lake", lake.path])
    assert shown.exit_code == 0, shown.output
    assert "pay.amount (aggregation)" in shown.output
    found = json.loads(run(app, ["lineage", "pay.amount", "--impact", "--json", "--lake", lake.path]).output)
    assert {"view": "sums", "column": "total", "kind": "view", "how": ["aggregation"]} in found["affected"]
    assert run(app, ["lineage", "sums", "--impact", "--direct", "--lake", lake.path]).exit_code == 2
    assert run(app, ["lineage", "nothing", "--lake", lake.path]).exit_code == 1
