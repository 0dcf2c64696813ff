"""What a lake remembers of a view's refreshes."""

from __future__ import annotations

from typing import Any

from nabla.lake.refresh.facts import REMEMBERED, view_record
from nabla.lake.reports import ViewReport


def test_the_last_refreshes_of_both_kinds_stay_in_their_order() -> None:
    """However many full ones follow, what maintaining took is not forgotten."""
    facts: dict[str, Any] = {}
    modes = ["full", "incremental", *["full"] * (2 * REMEMBERED), "incremental", "full"]
    for number, mode in enumerate(modes):
        report = ViewReport("v", mode, "", 0, 0, float(number), {}, number)
        facts = view_record(facts, report, 0, report.seconds, {}, cold=False)
    past = [(one["mode"], one["seconds"]) for one in facts["past"]]
    assert past[0] == ("incremental", 1.0)
    assert [s for _, s in past] == sorted(s for _, s in past)
    assert [mode for mode, _ in past].count("full") == REMEMBERED
    assert past[-2][0] == "incremental"
