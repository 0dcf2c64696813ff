"""Tables for people: in a terminal, as plain text, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO

from rich.box import Box
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

_LINE_BELOW_HEADINGS = Box("    \n    \n ─  \n    \n    \n    \n    \n    \n")
_WIDE = 10_000
"""The columns of a text that no terminal breaks."""


def terminal_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    numbers: Sequence[str] = (),
    tail: str = "",
    box: Box | None = None,
) -> Table:
    """A table that rich prints: the columns named in `numbers` are aligned right, the one named `tail` is cut at the edge."""
    gap = 1 if box else 2  # a box takes one column between two others
    grid = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for heading in headings:
        side: JustifyMethod = "right" if heading in numbers else "left"
        # With a tail, which is cut first, no other column is folded.
        grid.add_column(
            heading, justify=side, overflow="fold", no_wrap=tail not in ("", heading), min_width=len(heading)
        )
    for row in rows:
        grid.add_row(*(_cut(cell) if heading == tail else cell for heading, cell in zip(headings, row, strict=True)))
    return grid


def _cut(cell: RenderableType) -> RenderableType:
    """A cell that is cut with … if the column is too narrow for it."""
    if not isinstance(cell, str):
        return cell
    text = Text.from_markup(cell, overflow="ellipsis")
    text.no_wrap = True
    return text


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as plain text, with a line below its headings."""
    return "\n".join(_print(terminal_table(headings, map(_texts, rows), box=_LINE_BELOW_HEADINGS)))


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows without headings as plain text, in aligned columns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in map(_texts, rows):
        grid.add_row(*row)
    return _print(grid) if grid.row_count else []


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table for a page or a notebook. Its alignment is inline, because a notebook has styles of its own."""
    sides = ["right" if heading in numbers else "left" for heading in headings]

    def line(tag: str, cells: Sequence[str]) -> str:
        kept = zip(cells, sides, strict=True)
        return "<tr>" + "".join(f"<{tag} style='text-align:{side}'>{escape(c)}</{tag}>" for c, side in kept) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', headings)}</thead><tbody>{body}</tbody></table>"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_markdown_row(headings), "|" + "---|" * len(headings), *map(_markdown_row, rows)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _texts(row: Sequence[str]) -> list[Text]:
    """Cells as rich's Text, because rich reads square brackets in a plain string as styles."""
    return [Text(cell) for cell in row]


def _print(table: Table) -> list[str]:
    console = Console(file=StringIO(), width=_WIDE, color_system=None)
    with console.capture() as printed:
        console.print(table)
    return [line.rstrip() for line in printed.get().splitlines()]
