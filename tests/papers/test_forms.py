"""The papers' forms of one view: what `explain(view, form=…)` prints."""

from __future__ import annotations

from typing import get_args

import pytest
from test_barbier import AGGREGATES, PRODUCT, SPJ, UNIONS
from test_deep_views import DEEP, counted, joins, shared_joins
from test_griffin_kumar import FACULTY_COURSE_REG

from nabla.algebra.calls import Call, WindowCall
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Node, Window
from nabla.cli.options import Form
from nabla.errors import NablaError
from nabla.papers.forms import FORM_NAMES, FormName, derive_form

CHANGED = frozenset(("r", "s", "reg"))


def test_the_command_line_has_the_same_forms() -> None:
    assert get_args(Form) == FORM_NAMES


def test_a_form_that_there_is_not_is_refused() -> None:
    with pytest.raises(NablaError, match=r"NABLA_FORM: there is no form 'deltas' \(form=\)\. Use one of"):
        derive_form("deltas", SPJ, CHANGED)  # type: ignore[arg-type]


def test_one_view_in_five_forms() -> None:
    found = {name: derive_form(name, SPJ, CHANGED) for name in FORM_NAMES}
    assert not any(form.reason for form in found.values())
    assert found["pairs"].lines[-2:] == ("∇V  = π[h](∇V2) − π[h](V2ᵐ)", "ΔV  = π[h](ΔV2) − π[h](V2)")
    assert found["count"].lines[:4] == (
        "J = r × s",
        "V = π[h](σ[(g = k) and (x > 0)](J))",
        "ΔJ = (Δr × sᵐ) ∪ (rᵐ × Δs)",
        "∇J = (∇r × s) ∪ (r × ∇s)",
    )
    assert found["qian-wiederhold"].lines[-1].startswith("ΔV = π[h](σ[(x > 0)](((Δr ⋈")
    assert found["change table"].lines[0].endswith("□ conversion point, a projection that was added for it")
    assert found["change table"].lines[-1] == "□2 V = γ[h; sum(weight) → causes](X9)"
    assert found["signed"].lines[-1].startswith("d V = δ(σ[x > 0]((r ⋉")
    for name in ("pairs", "count", "change table", "qian-wiederhold"):
        assert found[name].reads == {"r": ("before", "deleted", "inserted"), "s": ("before", "deleted", "inserted")}
    assert found["signed"].reads == {"r": ("after", "before", "change"), "s": ("after", "before", "change")}
    assert found["pairs"].size == "37 operators for the 6 of the view; without names for shared results 77"


@pytest.mark.parametrize(
    ("name", "view", "reason"),
    [
        ("count", FACULTY_COURSE_REG, "not for Join (anti)"),
        ("count", PRODUCT, "not for Aggregate"),
        ("qian-wiederhold", FACULTY_COURSE_REG, "figure 1 has no equation for Join"),
        ("qian-wiederhold", PRODUCT, "figure 1 has no equation for Aggregate"),
    ],
)
def test_a_form_that_a_view_does_not_have_says_why(name: FormName, view: Node, reason: str) -> None:
    found = derive_form(name, view, CHANGED)
    assert reason in found.reason
    assert not found.lines


def test_windows_have_the_signed_form_alone() -> None:
    (scan,) = (node for node in SPJ.scans if node.table == "s")
    view = Window(scan, ("k",), (WindowCall(Call(Column("n", "bigint"), "count")),))
    without = [name for name in FORM_NAMES if derive_form(name, view, CHANGED).reason]
    assert without == ["pairs", "count", "change table", "qian-wiederhold"]


@pytest.mark.parametrize("view", [*UNIONS.values(), *AGGREGATES.values()])
def test_all_that_the_count_algorithm_is_for_is_written(view: Node) -> None:
    found = derive_form("count", view, CHANGED)
    assert any(line.startswith("c = σ[causes ≠ 0]") for line in found.lines)
    assert found.to_dict()["operators"] == found.operators > 5


@pytest.mark.parametrize("name", FORM_NAMES)
def test_deep_and_shared_views_have_forms_in_linear_size_or_say_why_not(name: FormName) -> None:
    changed = frozenset(("r", "s"))
    for view in (shared_joins(20), joins("inner")(12), DEEP["shared unions"](20), counted(shared_joins(20))):
        found = derive_form(name, view, changed)
        assert found.reason or found.operators < 3000
        if found.written_out > 10**6:
            assert found.size.endswith("more than a million")


def test_nothing_changes_without_a_change() -> None:
    for name in FORM_NAMES:
        assert derive_form(name, SPJ, frozenset(("other",))).lines[-1].endswith("= ∅")
