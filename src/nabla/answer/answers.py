"""The search: a query's plan with views in the place of whatever they can stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nabla._cached import cached_property
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import At, Node, Opaque, Project, Scan
from nabla.algebra.shape import shape
from nabla.algebra.traverse import with_inputs
from nabla.answer.blocks import Block, Leaf, NoBlock, build_plan, read_block
from nabla.answer.canonical import repeatable
from nabla.answer.facts import NOTHING_PROVED, Proofs, Sizes
from nabla.answer.match import Matcher
from nabla.answer.reasons import Reason
from nabla.answer.stored_view import Match, StoredView
from nabla.answer.unions import Added, add_missing
from nabla.calculus.obstacles import expressions
from nabla.rewrite.prune import prune

MOST_VIEWS = 6
"""Views that one block of a query is made of, at most."""

MOST_PASSES = 4
"""Times that a block is looked at again after its subqueries became views. A join back to a table could go on for ever."""


class ViewIndex:
    """Views by the tables that they read and by their shapes."""

    def __init__(self, views: Iterable[StoredView]) -> None:
        self.views = tuple(views)
        self._by_table: dict[str, list[StoredView]] = {}
        for view in self.views:
            for table in view.tables:
                self._by_table.setdefault(table, []).append(view)

    def near(self, tables: Iterable[str]) -> list[StoredView]:
        """The views that read one of the tables."""
        return list(dict.fromkeys(view for table in tables for view in self._by_table.get(table, ())))

    @cached_property
    def by_shape(self) -> dict[object, list[StoredView]]:
        found: dict[object, list[StoredView]] = {}
        for view in self.views:
            found.setdefault(view.shape, []).append(view)
        return found


@dataclass(frozen=True, eq=False)
class FoundAnswer:
    """A plan for the rows of a query. `views` are those that it scans, `reasons` tell why others were not used, `fired` are the
    rules of matching that made it, and `rows` estimates how many rows it reads, where the query reads `plain_rows`."""

    plan: Node
    views: tuple[str, ...]
    reasons: tuple[Reason, ...]
    fired: frozenset[str]
    rows: float
    plain_rows: float


def find_answer(
    plan: Node,
    index: ViewIndex,
    proofs: Proofs = NOTHING_PROVED,
    sizes: Sizes | None = None,
    ansi: bool = True,
    cheaper_only: bool = True,
) -> FoundAnswer:
    """The cheapest plan over views, or the plan itself if no view helps. Without `cheaper_only` a view is used wherever one
    matches, which tests do."""
    search = _Search(index, Matcher(proofs, ansi), sizes or Sizes(), cheaper_only)
    found = search.rewrite(plan)
    views = tuple(dict.fromkeys(s.table for s in found.scans if s.table in search.used))
    reasons = tuple(search.reason(view) for view in index.views if view.name not in views)
    result = prune(found) if views else plan
    return FoundAnswer(result, views, reasons, frozenset(search.fired), search.cost(result), search.cost(plan))


@dataclass
class _Search:
    index: ViewIndex
    matcher: Matcher
    sizes: Sizes
    cheaper_only: bool
    used: set[str] = field(default_factory=set)
    fired: set[str] = field(default_factory=set)
    reasons: dict[str, Reason] = field(default_factory=dict)
    passes: int = 0
    _done: Memo[Node, Node] = field(default_factory=Memo)

    def cost(self, plan: Node) -> float:
        """The number of rows that a plan reads."""
        return sum(self.sizes.of(scan.table) for scan in plan.scans) + sum(
            self.sizes.of(t) for node in plan.walk() if isinstance(node, Opaque) for t in node.tables
        )

    def rewrite(self, node: Node) -> Node:
        return self._done.once(node, self._rewrite)

    def _rewrite(self, node: Node) -> Node:
        equal = self._equal(node)
        if equal is not None:
            return equal
        try:
            block = read_block(node, "q")
        except NoBlock:
            return with_inputs(node, [self.rewrite(i) for i in node.inputs])
        if block.group is None and len(block.leaves) == 1 and block.leaves[0].table is None:
            atom = block.leaves[0].node.inputs[0]
            if atom is node:
                return with_inputs(node, [self.rewrite(i) for i in node.inputs])
        return self._answer_block(node, block)

    def _equal(self, node: Node) -> Node | None:
        """The scan of a view that is defined by the same plan."""
        if isinstance(node, Scan):
            return None
        same = [v for v in self.index.by_shape.get(shape(node), ()) if _steady(v.plan)]
        if not same:
            return None
        view = min(same, key=lambda v: (self.sizes.pending.get(v.name, 0.0), v.name))
        if self.cheaper_only and self.sizes.pending.get(view.name, 0.0) > self.cost(node):
            self._note(Reason(view.name, "BEHIND", "what it lacks takes longer to compute than the query"))
            return None
        self.used.add(view.name)
        self.fired.add("same plan")
        return self._scan(view, node.columns)

    def _scan(self, view: StoredView, columns: Sequence[Column]) -> Node:
        number = next(self.matcher.numbers)
        own = tuple(Column(unique_name(f, f"v{number}"), c.type) for f, c in zip(view.fields, columns, strict=True))
        scan = Scan(view.name, At.NEW, own, view.fields)
        return Project(scan, tuple(Named(c, o.ref) for c, o in zip(columns, own, strict=True)))

    def _answer_block(self, node: Node, block: Block) -> Node:
        best, matched = block, False
        for _ in range(MOST_VIEWS):
            step = self._best_match(best)
            if step is None:
                break
            best, matched = step.block, True
            self.used.add(step.view.name)
            self.fired |= step.fired | (
                {"view over view"} if step.view.tables & (self.used - {step.view.name}) else set()
            )
            if len({leaf.table for leaf in best.leaves if leaf.table in self.used}) > 1:
                self.fired.add("several views")
        if not matched:
            added = self._with_missing_part(block)
            if added is not None:
                return added.plan
        leaves = tuple(self._answer_leaf(leaf) for leaf in best.leaves)
        changed = any(a is not b for a, b in zip(leaves, best.leaves, strict=True))
        if not matched and not changed:
            return node
        built = build_plan(replace(best, leaves=leaves))
        if not changed or self.passes >= MOST_PASSES:
            return built
        self.passes += 1
        return self.rewrite(prune(built))  # a view may read the views that subqueries became

    def _answer_leaf(self, leaf: Leaf) -> Leaf:
        if not isinstance(leaf.node, Project):
            return leaf
        inner = self.rewrite(leaf.node.input)
        return leaf if inner is leaf.node.input else replace(leaf, node=replace(leaf.node, input=inner))

    def _best_match(self, block: Block) -> Match | None:
        """The match after which the block reads fewest rows, if these are fewer than now."""
        found: list[tuple[float, Match]] = []
        tables = {s.table for leaf in block.leaves for s in leaf.node.scans}
        for view in self.index.near(tables):
            made = self.matcher.match(block, view)
            if isinstance(made, Reason):
                self._note(made)
            else:
                found.append((self._block_cost(made.block), made))
        if not found:
            return None
        cost, best = min(found, key=lambda pair: (pair[0], pair[1].view.name))
        for other_cost, other in found:
            if other is not best:
                self._note(
                    Reason(
                        other.view.name, "COST", f"another answer reads fewer rows ({cost:.0f} and {other_cost:.0f})"
                    )
                )
        if self.cheaper_only and cost >= self._block_cost(block):
            rows = self._block_cost(block)
            self._note(
                Reason(best.view.name, "COST", f"it has {cost:.0f} rows to read, and the tables have {rows:.0f}")
            )
            return None
        return best

    def reason(self, view: StoredView) -> Reason:
        """Why a view was not used. One that was never compared came too late, or reads views that were not used."""
        if view.name in self.reasons:
            return self.reasons[view.name]
        if self.used:
            return Reason(view.name, "COST", f"{', '.join(sorted(self.used))} answers the query already")
        if view.block is None:
            return Reason(view.name, "SHAPE", "it is compared as a whole, and is no part of the query")
        return Reason(view.name, "TABLES", "it reads no relation in the way the query does")

    def _note(self, reason: Reason) -> None:
        known = self.reasons.get(reason.view)
        if known is None or reason.nearness >= known.nearness:
            self.reasons[reason.view] = reason

    def _block_cost(self, block: Block) -> float:
        return sum(self.cost(leaf.node) for leaf in block.leaves)

    def _with_missing_part(self, block: Block) -> Added | None:
        """A view that lacks a range of the query's rows, and these rows from the tables."""
        rest = self._block_cost(block)
        found = []
        for view in self.index.near(block.tables):
            added = add_missing(self.matcher, block, view)
            if added is not None:
                cost = self._block_cost(added.match.block) + rest / 3
                found.append((cost, added))
        if not found:
            return None
        cost, best = min(found, key=lambda pair: (pair[0], pair[1].match.view.name))
        if self.cheaper_only and cost >= rest:
            self._note(Reason(best.match.view.name, "COST", "what it lacks costs as much as the query"))
            return None
        self.used.add(best.match.view.name)
        self.fired |= best.match.fired | {"union" if block.group is None else "union of groups"}
        return best


def _steady(plan: Node) -> bool:
    """Whether a plan gives the same rows each time it is run."""
    return all(repeatable(e for e, _ in expressions(node)) for node in plan.walk())
