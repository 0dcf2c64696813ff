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
    gap = 1 if box else 2  # a box has a column of its own between two others
    grid = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for heading in headings:
        side: JustifyMethod = "right" if heading in numbers else "left"
        # Beside a tail, which gives way first, no column is folded.
        grid.add_column(
            heading, justify=side, overflow="fold", no_wrap=tail not in ("", heading), min_width=len(heading)
        )
    for row in rows:
        grid.add_row(*(_cut(cell) if heading == tail else cell for heading, cell in zip(headings, row, strict=True)))
    return grid


def _cut(cell: RenderableType) -> RenderableType:
    """A cell that ends with … where there is no more room for it."""
    if not isinstance(cell, str):
        return cell
    text = Text.from_markup(cell, overflow="ellipsis")
    text.no_wrap = True
    return text


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as plain text, with a line below its headings."""
    return "\n".join(_printed(terminal_table(headings, map(_texts, rows), box=_LINE_BELOW_HEADINGS)))


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows without headings as plain text, one column below the other."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in map(_texts, rows):
        grid.add_row(*row)
    return _printed(grid) if grid.row_count else []


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table for a page or a notebook; its alignment is inline, since a notebook has styles of its own."""
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
    """Cells as they are: rich would take square brackets in a string for colours."""
    return [Text(cell) for cell in row]


def _printed(table: Table) -> list[str]:
    console = Console(file=StringIO(), width=_WIDE, color_system=None)
    with console.capture() as printed:
        console.print(table)
    return [line.rstrip() for line in printed.get().splitlines()]
