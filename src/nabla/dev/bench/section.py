"""A section of a report: a table of measurements, for the terminal or for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nabla.explain.tables import markdown_table, text_table
from nabla.lake.reports import cell


@dataclass(frozen=True)
class Section:
    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    note: str = ""

    @property
    def _cells(self) -> list[list[str]]:
        return [[cell(value) for value in row] for row in self.rows]

    def text(self) -> str:
        table = text_table(self.headings, self._cells)
        return "\n".join(piece for piece in (self.title, table, self.note) if piece)

    def markdown(self) -> str:
        table = markdown_table(self.headings, self._cells)
        pieces = (f"**{self.title}**", table, self.note)
        return "\n\n".join(piece for piece in pieces if piece)
