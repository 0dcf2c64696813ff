"""A table of what was measured, for the terminal or for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nabla.explain.markdown import markdown_table
from nabla.lake.reports import cell, text_table


@dataclass(frozen=True)
class Section:
    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def text(self) -> str:
        return "\n".join(piece for piece in (self.title, text_table(self.headings, self.rows), self.note) if piece)

    def markdown(self) -> str:
        table = markdown_table(self.headings, [[cell(value) for value in row] for row in self.rows])
        pieces = (f"**{self.title}**", table, self.note)
        return "\n\n".join(piece for piece in pieces if piece)
