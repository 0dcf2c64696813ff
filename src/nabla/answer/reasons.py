"""Why a view does not answer a query: a code and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

CODES = {
    "NABLA_ANSWER_QUERY": -2,
    "NABLA_ANSWER_VIEW": -1,
    "NABLA_ANSWER_TABLES": 0,
    "NABLA_ANSWER_SHAPE": 1,
    "NABLA_ANSWER_KEY": 2,
    "NABLA_ANSWER_OUTER": 3,
    "NABLA_ANSWER_PREDICATE": 4,
    "NABLA_ANSWER_GROUPS": 5,
    "NABLA_ANSWER_COLUMN": 6,
    "NABLA_ANSWER_AGGREGATE": 7,
    "NABLA_ANSWER_HAVING": 8,
    "NABLA_ANSWER_SETTINGS": 9,
    "NABLA_ANSWER_BEHIND": 10,
    "NABLA_ANSWER_SCHEMA": 11,
    "NABLA_ANSWER_COST": 12,
}
"""The codes, in the order in which matching meets them: a later one is nearer to a match."""


@dataclass(frozen=True)
class Reason:
    """`view` was not used, because of what `message` says. Codes are listed in docs/errors.md."""

    view: str
    short: str
    message: str

    @property
    def code(self) -> str:
        return f"NABLA_ANSWER_{self.short}"

    @property
    def nearness(self) -> int:
        return CODES[self.code]

    def __str__(self) -> str:
        return f"{self.view}: {self.code}: {self.message}"


class NoMatch(Exception):
    """A view cannot stand for a part of a query."""

    def __init__(self, short: str, message: str) -> None:
        super().__init__(message)
        self.short = short
        self.message = message
