"""Rewrites of plans, in the order in which they are made: one tuple a phase, each pass with the reason for its place.

    DEFINITION         the plan that a front end makes       →  the plan that is stored
    BEFORE_DERIVATION  a plan whose change is to be derived  →  the plan that the rules are applied to
    AFTER_DERIVATION   a derived change                      →  the query that is run

The engine has phases of its own when it runs a query, because these read tables: `EXECUTION` in `engine/queries.py`, and
`EXECUTION_BY_KEY` in `engine/replacement.py` for views that are computed key by key. `restrict` and `drop_empty` are parts of
other rewrites and not passes: rules restrict states while they derive, and a look-up drops the parts that it found empty.

After each pass the columns of the plan are compared with those before, and a pass that broke them is named in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nabla.algebra.nodes import MalformedPlan, Node
from nabla.rewrite.drop_limits import drop_limits
from nabla.rewrite.join_order import NOTHING_KNOWN, TableSizes, join_changed_first, join_outwards
from nabla.rewrite.narrow_groups import NO_KEYS, IsKey, narrow_groups
from nabla.rewrite.prune import prune

K = TypeVar("K")


@dataclass(frozen=True)
class Pass(Generic[K]):
    """A rewrite of a plan into another plan for the same rows. `known` is what it may use beside the plan."""

    name: str
    rewrite: Callable[[Node, K], Node]
    reason: str


def rewrite(plan: Node, passes: Sequence[Pass[K]], known: K) -> Node:
    """The plan after all passes of a phase."""
    for step in passes:
        before = plan
        plan = step.rewrite(plan, known)
        _check(step.name, before, plan)
    return plan


def _check(name: str, before: Node, after: Node) -> None:
    """Columns keep their names, their types and their order; whether rows have weights stays as it was."""
    was, now = ([(c.name, c.type) for c in node.columns] for node in (before, after))
    if was != now:
        raise MalformedPlan(f"the pass {name} made {now} of the columns {was}")
    if before.signed != after.signed:
        raise MalformedPlan(
            f"the pass {name} made a plan {'with' if after.signed else 'without'} weights of another one"
        )


@dataclass(frozen=True)
class Keys:
    """The fields of tables that are keys, and notes that tell the user how the passes used them. The front ends of rules
    and of nested relations know no such fields."""

    is_key: IsKey = NO_KEYS
    notes: list[str] = field(default_factory=list)


def _narrow_groups(plan: Node, keys: Keys) -> Node:
    plan, notes = narrow_groups(plan, keys.is_key)
    keys.notes.extend(notes)
    return plan


DEFINITION: tuple[Pass[Keys], ...] = (
    Pass(
        "prune",
        lambda plan, keys: prune(plan),
        "front ends read columns that nothing needs; most plans end here",
    ),
    Pass(
        "drop_limits",
        lambda plan, keys: drop_limits(plan),
        "after prune, which leaves out projections: nothing that follows has to know of such limits",
    ),
    Pass("narrow_groups", _narrow_groups, "before plans are cut into stages, whose states then have fewer groups"),
    Pass("prune", lambda plan, keys: prune(plan), "keys that narrow_groups reads again need one column of their table"),
)


@dataclass(frozen=True)
class Sizes:
    """The relations that changed, and the numbers of rows of tables."""

    changed: frozenset[str] = frozenset()
    rows: TableSizes = field(default_factory=lambda: NOTHING_KNOWN)


BEFORE_DERIVATION: tuple[Pass[Sizes], ...] = (
    Pass(
        "join_changed_first",
        lambda plan, sizes: join_changed_first(plan, sizes.changed, sizes.rows),
        "the rules give a term for each operand that changed, and terms share the look-ups that come after their join",
    ),
)

AFTER_DERIVATION: tuple[Pass[Sizes], ...] = (
    Pass(
        "join_outwards",
        lambda plan, sizes: join_outwards(plan, sizes.rows),
        "only a derived change shows which operands are small",
    ),
)
