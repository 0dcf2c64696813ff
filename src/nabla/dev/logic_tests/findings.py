"""The outcome of the logic tests, in numbers that can be added up over several runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass
class Findings:
    """`changed` are the views that read a table which changed, `full` those that were recomputed, with the reason, and `wrong`
    those that were not exact. Spark answers some queries at first and fails for later rows: `failing` are not among the views.
    """

    queries: int = 0
    views: int = 0
    changed: int = 0
    failing: int = 0
    answered: int = 0
    differing: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    full: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    milliseconds: Counter[str] = field(default_factory=Counter)

    @property
    def incremental(self) -> float:
        """The share that no refresh had to recompute, among the views that had to be refreshed."""
        return 1 - len(self.full) / self.changed if self.changed else 1.0

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reason.split(":")[0] for reason in self.full.values())

    def __str__(self) -> str:
        return (
            f"{self.queries:,} queries, {self.views:,} views, {len(self.wrong)} wrong, "
            f"{self.incremental:.2%} never recomputed"
        )

    def lines(self) -> Iterator[str]:
        """A report for people."""
        exact = self.views - len(self.wrong)
        yield f"{self.queries:,} queries, {self.views:,} views, {exact:,} of them exact after every refresh"
        yield f"{self.changed:,} views read tables that changed; {self.incremental:.2%} of them were never recomputed"
        yield f"answers: {self.answered:,} as in the tests, {self.differing:,} as in Spark only"
        yield f"{self.failing:,} queries that Spark answers at first, and not when the tables have changed"
        for title, counts in (
            ("refreshes", self.modes),
            ("recomputed because of", self.reasons),
            ("no views because of", self.refused),
            ("milliseconds", self.milliseconds),
        ):
            yield f"{title}: " + (", ".join(f"{name} {n:,}" for name, n in counts.most_common()) or "none")

    def add(self, other: Findings) -> None:
        """Add what another run has found."""
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            setattr(self, part.name, mine | theirs if type(mine) is dict else mine + theirs)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Findings:
        read = json.loads(path.read_text(encoding="utf-8"))
        found = cls()
        for part in fields(cls):
            kind = type(getattr(found, part.name))
            setattr(found, part.name, kind(read[part.name]))
        return found
