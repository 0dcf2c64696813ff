"""Displays for notebooks: cards, tables and badges with inline styles, for light and dark pages. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MODES = {
    "incremental": "22,163,74",
    "full": "217,119,6",
    "reload": "217,119,6",
    "skip": "107,114,128",
    "ahead": "37,99,235",
    "held": "220,38,38",
    "stale": "217,119,6",
    "fresh": "22,163,74",
    "failed": "220,38,38",
    "running": "37,99,235",
}
"""Colours of badges, as red, green and blue."""
_LINE = "1px solid rgba(127,127,127,.25)"


class Html(str):
    """A text that is HTML already: made here, from parts that were escaped."""


def cell(value: object) -> Html:
    """A value as the content of a cell. Whole numbers get separators, and nothing that is not `Html` stays unescaped."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("<span style='opacity:.5'>–</span>")
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    if isinstance(value, int):
        return Html(f"{value:,}")
    if isinstance(value, float):
        return Html(f"{value:,.2f}")
    return Html(escape(str(value)))


def badge(text: str) -> Html:
    """A word on a coloured ground."""
    colour = MODES.get(text, "107,114,128")
    style = f"background:rgba({colour},.16);color:rgb({colour});border-radius:9px;padding:1px 8px;white-space:nowrap"
    return Html(f"<span style='{style}'>{escape(text)}</span>")


def signed(count: int | None, sign: str) -> Html:
    """A number of rows that came (+) or went (−); none is pale."""
    if not count:
        return Html("<span style='opacity:.4'>0</span>" if count == 0 else "<span style='opacity:.5'>–</span>")
    colour = "22,163,74" if sign == "+" else "220,38,38"
    return Html(f"<span style='color:rgb({colour})'>{escape(sign)}{count:,}</span>")


def signed_mark(sign: str) -> Html:
    """The sign of a row that came (+) or went (−)."""
    colour = "22,163,74" if sign == "+" else "220,38,38"
    return Html(f"<b style='color:rgb({colour})'>{escape(sign)}</b>")


def bar(share: float) -> Html:
    """A share of a whole as a bar."""
    width = round(100 * min(max(share, 0.0), 1.0))
    inner = f"<span style='display:block;height:6px;width:{width}%;background:rgb(37,99,235);border-radius:3px'></span>"
    style = "display:inline-block;width:120px;height:6px;background:rgba(127,127,127,.2);border-radius:3px"
    return Html(f"<span style='{style};vertical-align:middle'>{inner}</span>")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = ()) -> Html:
    """A table whose columns in `numbers` are aligned right."""
    sides = ["right" if heading in numbers else "left" for heading in headings]

    def line(tag: str, cells: Sequence[object], more: str) -> str:
        styled = (
            f"<{tag} style='text-align:{side};padding:4px 14px 4px 0;border-bottom:{_LINE};vertical-align:top;{more}'>"
            f"{cell(one)}</{tag}>"
            for one, side in zip(cells, sides, strict=True)
        )
        return f"<tr style='background:none'>{''.join(styled)}</tr>"

    head = line("th", headings, "font-weight:600;opacity:.7;white-space:nowrap")
    body = "".join(line("td", row, "font-variant-numeric:tabular-nums") for row in rows)
    return Html(
        f"<table style='border-collapse:collapse;margin:6px 0'><thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def card(title: str, said: str | Html, *parts: Html) -> Html:
    """A heading, a sentence, and what is below it. Wide content scrolls by itself."""
    head = f"<div><b>{escape(title)}</b> <span style='opacity:.7'>{cell(said)}</span></div>"
    return Html(f"<div style='overflow-x:auto'>{head}{''.join(parts)}</div>")
