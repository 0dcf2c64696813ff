"""What a run is about, and what it has built."""

from __future__ import annotations

from dataclasses import dataclass

from nabla.cli.expectations import ExpectationReport
from nabla.frontends.pipelines.elements import Element


@dataclass(frozen=True)
class BuiltDataset:
    """A view that this run built from nothing or again because its definition changed; a dataset that it read again; or a
    streaming table or sink that it loaded."""

    name: str
    mode: str
    reason: str
    inserted: int
    deleted: int
    seconds: float
    expectations: tuple[ExpectationReport, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The datasets that a run is about: all, or those that are named. Those in `full` are built from nothing."""

    names: frozenset[str] | None = None
    full: frozenset[str] = frozenset()

    def has(self, element: Element) -> bool:
        return self.names is None or any(name.lower() in self.names for name in (*element.views, element.name))

    def is_full(self, element: Element) -> bool:
        return any(name.lower() in self.full for name in (*element.views, element.name))
