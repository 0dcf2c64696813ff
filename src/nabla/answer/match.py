"""Views in the place of some relations of a query: all ways to map the relations of one to those of the other are tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, permutations, product

from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Scan
from nabla.answer.attempt import Attempt
from nabla.answer.blocks import Block, Leaf
from nabla.answer.reasons import NoMatch, Reason
from nabla.answer.renamed_view import Places
from nabla.answer.stored_view import Match, Means, StoredView

MOST_MAPPINGS = 24
"""Ways to map the relations of a view that are tried; a view that joins a table with itself has several."""


class Matcher(Means):
    """Matches views with the blocks of one query."""

    def match(self, query: Block, view: StoredView) -> Match | Reason:
        """The query over the view, or the reason of the mapping that came nearest."""
        if view.block is None:
            return Reason(view.name, "SHAPE", "it is compared as a whole, and is no part of the query")
        nearest: Reason | None = None
        query = self.extend(query, view.block)
        for mapping in islice(_mappings(query, view.block), MOST_MAPPINGS):
            try:
                return Attempt(self, query, view, view.block, mapping).run()
            except NoMatch as refusal:
                reason = Reason(view.name, refusal.short, refusal.message)
                if nearest is None or reason.nearness > nearest.nearness:
                    nearest = reason
        return nearest or Reason(view.name, "TABLES", "it reads no relation in the way the query does")

    def extend(self, query: Block, view: Block) -> Block:
        """The query with the fields of its tables that the view reads and it does not: they can be compared, and read if a
        part of the query is computed from tables after all. Pruning takes away what is not used."""
        wanted: dict[object, dict[str, Column]] = {}
        for leaf in view.leaves:
            if isinstance(leaf.node, Scan):
                columns = wanted.setdefault(leaf.key, {})
                columns.update(zip(leaf.node.fields, leaf.columns, strict=True))
        leaves = tuple(self._extended(leaf, wanted.get(leaf.key, {})) for leaf in query.leaves)
        return replace(query, leaves=leaves)

    def _extended(self, leaf: Leaf, wanted: Mapping[str, Column]) -> Leaf:
        scan = leaf.node
        missing = [f for f in wanted if f not in leaf.fields]
        if not missing or not isinstance(scan, Scan):
            return leaf
        more = tuple(wanted[f].rename(unique_name(f, f"e{next(self.numbers)}")) for f in missing)
        return replace(leaf, node=replace(scan, output=(*scan.output, *more), fields=(*scan.fields, *missing)))


def _mappings(query: Block, view: Block) -> Iterator[Places]:
    """Ways to map leaves of the view to leaves of the query, by their places; those that map most come first."""
    mine: dict[object, list[int]] = {}
    theirs: dict[object, list[int]] = {}
    for leaves, found in ((view.leaves, mine), (query.leaves, theirs)):
        for place, leaf in enumerate(leaves):
            found.setdefault(leaf.key, []).append(place)
    choices = []
    for key in mine.keys() & theirs.keys():
        own, other = mine[key], theirs[key]
        if len(own) <= len(other):
            choices.append(
                [dict(zip(own, chosen, strict=True)) for chosen in islice(permutations(other, len(own)), 24)]
            )
        else:
            chosen_own = islice(permutations(own, len(other)), 24)
            choices.append([dict(zip(chosen, other, strict=True)) for chosen in chosen_own])
    if choices:
        for parts in product(*choices):
            yield {mine_: its for part in parts for mine_, its in part.items()}


def failing_conjuncts(matcher: Matcher, query: Block, view: StoredView) -> list[Expr] | None:
    """The view's conjuncts that the query does not imply, in the mapping that fails by them alone; None if none does."""
    assert view.block is not None
    for mapping in islice(_mappings(query, view.block), MOST_MAPPINGS):
        try:
            attempt = Attempt(matcher, query, view, view.block, mapping)
            return attempt.failing()
        except NoMatch:
            continue
    return None
