"""A view that may answer queries, and a query with a view in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import count

from nabla._cached import cached_property
from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Node
from nabla.algebra.shape import shape
from nabla.answer.blocks import Block, NoBlock, read_block
from nabla.answer.facts import NOTHING_PROVED, Proofs
from nabla.answer.predicates import Known


@dataclass(frozen=True, eq=False)
class StoredView:
    """A view that may answer queries: its plan, and the fields under which its columns are scanned."""

    name: str
    plan: Node
    fields: tuple[str, ...]

    @cached_property
    def block(self) -> Block | None:
        try:
            return read_block(self.plan, "w")
        except NoBlock:
            return None

    @cached_property
    def shape(self) -> Hashable:
        """The shape of its plan, kept with the view: every query is compared with it."""
        return shape(self.plan)

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(scan.table for scan in self.plan.scans)


@dataclass(frozen=True, eq=False)
class Match:
    """A query with a view in the place of some of its relations, and the rules that were used."""

    view: StoredView
    block: Block
    fired: frozenset[str]


@dataclass
class Means:
    """What all attempts to match share: proofs, whether overflows are errors, and numbers for the names of columns."""

    proofs: Proofs = NOTHING_PROVED
    ansi: bool = True
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _known: dict[object, tuple[object, Known]] = field(default_factory=dict)

    def known(self, conjuncts: tuple[Expr, ...], not_null: frozenset[str]) -> Known:
        """What follows from a query's conjuncts, found out once for all views."""
        key = id(conjuncts), not_null
        if key not in self._known:
            self._known[key] = conjuncts, Known(conjuncts, not_null)  # with the tuple, so that no other gets its id
        return self._known[key][1]
