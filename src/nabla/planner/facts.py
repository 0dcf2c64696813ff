"""The facts about a view and its sources from which the planner chooses."""

from __future__ import annotations

from dataclasses import dataclass

from nabla.algebra.clock import CLOCK
from nabla.algebra.notation.words import list_in_words
from nabla.calculus.obstacles import Obstacle


@dataclass(frozen=True)
class SourceFacts:
    """A source between the version that the view reflects and the current one."""

    name: str
    rows: int
    inserted: int
    deleted: int
    moved: bool
    bytes: int = 0
    past_is_gone: bool = False

    @property
    def changed_bytes(self) -> float:
        """An estimate of the bytes of the changed rows: each takes as many as an average row."""
        return self.bytes * self.changed_rows / max(1, self.rows)

    @property
    def changed_rows(self) -> int:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class Measured:
    """A past refresh of this view. It is `cold` if it was the first of its kind in its process, when Spark is slow."""

    mode: str
    seconds: float
    changed_rows: int
    source_rows: int
    cold: bool = False
    changed: tuple[str, ...] = ()
    """The sources that had changed, in order of their names: one may cost much more than another."""
    gave_up: bool = False
    """Whether it was given up: it would have taken longer than that, or more memory than there is."""


@dataclass(frozen=True)
class ViewFacts:
    """A view before a refresh: its size, its sources, its past refreshes, and reasons to recompute it."""

    name: str
    rows: int
    sources: tuple[SourceFacts, ...]
    past: tuple[Measured, ...] = ()
    """Past refreshes, oldest first."""
    obstacles: tuple[Obstacle, ...] = ()
    must_rebuild: str = ""
    cold: bool = False
    """Whether this process has not computed the view yet, in any mode."""
    clock_moved: bool = False

    def measured(self, mode: str) -> list[Measured]:
        """The past refreshes that estimates learn from: those of the same mode and sources, and cold ones only if the next
        refresh is cold. A process pays for a cold refresh once and for many warm ones, so warm ones must not be estimated
        from cold ones."""
        found = [p for p in self.past if p.mode == mode and p.cold == self.cold]
        return found if mode == "full" else [p for p in found if p.changed and p.changed == self.changed_sources]

    @property
    def changed_sources(self) -> tuple[str, ...]:
        return tuple(sorted(s.name for s in self.sources if s.changed_rows))

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(self.changed_sources) | ({CLOCK} if self.clock_moved else frozenset())

    @property
    def all_rows(self) -> int:
        """Rows of all sources together."""
        return sum(s.rows for s in self.sources)

    @property
    def source_rows(self) -> dict[str, int]:
        return {s.name: s.rows for s in self.sources}

    @property
    def changes(self) -> str:
        """The changes, in words."""
        rows = self.changed_sources
        said = [f"{self.changed_rows} changed rows in {', '.join(rows)}"] if rows else []
        gone = [s.name for s in self.sources if s.past_is_gone]
        said += (
            [f"the old state of {list_in_words(gone)} was vacuumed and is taken as the new one less its change"]
            if gone
            else []
        )
        return "; ".join([*said, *["the clock moved"] * self.clock_moved])

    @property
    def changed_rows(self) -> int:
        return sum(s.changed_rows for s in self.sources)
