"""Parts of the console without a lake: words, highlighted texts, drawings, totals."""

from __future__ import annotations

from dataclasses import replace
from xml.dom.minidom import parseString

from nabla.console.commits import PastRefresh, total
from nabla.console.highlight import highlight
from nabla.console.plots import history_plot, timeline
from nabla.console.words import ago, seconds, short, times

PAST = PastRefresh("v", "incremental", "because", "refresh", 3, 1, 0.1, 2, 9, 1_000_000.0, 2.0)


def test_durations_and_ages_are_readable() -> None:
    assert [seconds(s) for s in (None, 0.0123, 1.25, 59.4, 61, 7300, -0.5)] == [
        *("–", "12 ms", "1.2 s", "59 s", "1 min 1 s", "2 h 1 min", "-500 ms"),
    ]
    assert [ago(at, 1e6) for at in (None, 1e6, 1e6 - 60, 1e6 - 7200, 1e6 - 86_400 * 8, 0)] == [
        *("never", "just now", "1 minute ago", "2 hours ago", "1 week ago", "1 week ago"),
    ]
    assert [short(n) for n in (None, 999, 12_345, 2_000_000)] == ["–", "999", "12 k", "2.0 M"]
    assert (times(2.0, 0.1), times(None, 1.0), times(3.0, 2.0)) == ("20×", "", "1.5×")


def test_highlighted_texts_are_escaped_whole() -> None:
    text = "SELECT '<b>' AS x, sum(y) -- <i>\nFROM `a<c>` WHERE z % 2 < 3"
    shown = highlight(text)
    assert "<b>" not in shown
    assert '<span class="t-string">&#39;&lt;b&gt;&#39;</span>' in shown
    assert shown.striptags() == text.replace("\n", " ")
    assert "t-comment" in highlight("p(X) :- q(X). % all of q", "rules")
    assert "t-keyword" not in highlight("rows + d rows", "algebra")


def test_drawings_are_well_formed_whatever_the_names_are() -> None:
    odd = replace(PAST, view='<a & "b">', reason="<&>", mode='x" onload="y', seconds=0.0, recompute=None)
    for refreshes in ([PAST], [PAST, odd], [odd] * 70, [replace(PAST, at=PAST.at + 1e5 * i) for i in range(30)]):
        for drawing in (history_plot(refreshes), timeline(refreshes)):
            root = parseString(str(drawing)).documentElement
            assert root is not None
            assert not root.getElementsByTagName("script")
    assert history_plot([]) == timeline([]) == ""


def test_savings_count_what_is_known() -> None:
    built = replace(PAST, mode="full", reason="built", seconds=9.0)
    full = replace(PAST, mode="full", seconds=3.0, recompute=None)
    found = total([PAST, full, built, replace(PAST, recompute=None)])
    assert (found.refreshes, found.maintained, found.known) == (3, 2, 1)
    assert round(found.seconds, 3) == 3.2
    assert round(found.saved, 3) == 1.9
