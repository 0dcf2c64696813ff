"""Can a view be maintained without its sources, from their changes and what is stored beside it? What would make it so?

A view is self-maintainable if no step of its maintenance reads a source, before or after, but only what changed in it.
Most joins are not. What they read of each source is then stored as an auxiliary view (auxiliary_views.py).

The definition of the thesis (6.1) is about the view alone: do its old rows and the transaction determine its new rows? Where
the steps of the engine say nothing about that, determined.py tries to show or to refute it; else it is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nabla.algebra.nodes import At, Node
from nabla.algebra.notation.tree import tree
from nabla.algebra.notation.words import list_in_words
from nabla.algebra.traverse import relations
from nabla.calculus.stages import Staged, cut
from nabla.planner.auxiliary_views import Auxiliary, chain, chains, detach
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.determined import RecoveredTable, recovered, refute
from nabla.planner.steps import Step
from nabla.rewrite.drop_redundant import TableKeys, drop_redundant


@dataclass(frozen=True)
class SelfMaintenance:
    """The answer for one view within a set of views: `reads` are the sources outside of the set that maintenance reads,
    `states` what is kept beside the view, `auxiliaries` what would have to be. `shown` says why the view's own rows determine
    its new rows although the engine keeps or reads more, `refuted` has two databases for which they do not; both are empty
    where neither is known. `served` are the views of the set from which sources are read."""

    view: str
    reads: tuple[str, ...]
    states: tuple[str, ...]
    auxiliaries: tuple[Auxiliary, ...]
    obstacle: str = ""
    insertions: bool = False
    """Whether insertions alone need no source."""
    shown: str = ""
    refuted: str = ""
    served: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """By its own rows, as the papers mean it."""
        return bool(self.shown) or (self.maintainable and not self.states and not self.served)

    @property
    def maintainable(self) -> bool:
        return not self.reads and not self.obstacle

    def __str__(self) -> str:
        return "\n".join([f"{self.view}: {self._verdict}", *(f"  {line}" for line in self._details())])

    @property
    def _verdict(self) -> str:
        if self.alone:
            return f"self-maintainable: {self.shown or 'its own rows and the changes of its sources are enough'}"
        by_itself = "not self-maintainable by its own rows" if self.refuted else "not shown to be so by its own rows"
        if self.maintainable and self.served:
            return f"self-maintainable together with {list_in_words(self.served)}"
        if self.maintainable:
            return f"self-maintainable with the counts that are kept beside it; {by_itself}"
        return "not self-maintainable" if self.refuted else "not shown to be self-maintainable"

    def _details(self) -> Iterator[str]:
        if self.refuted:
            yield self.refuted
        yield from (f"kept beside it: {state}" for state in self.states)
        if self.obstacle:
            yield f"it is recomputed: {self.obstacle}"
        elif self.reads:
            yield f"a change makes {'a refresh' if self.shown else 'it'} read {', '.join(self.reads)}"
            if self.insertions:
                yield "insertions alone do not"
            if self.shown and not self.auxiliaries:
                yield "detached=True reads these rows from its own, and stores no more"
        if self.auxiliaries:
            yield f"auxiliary views that would make it {'do without' if self.shown else 'so'}:"
            yield from (f"  {auxiliary}" for auxiliary in self.auxiliaries)

    def to_dict(self) -> dict[str, object]:
        kinds = [{"name": a.name, "kind": a.kind, "table": a.table, "columns": a.outputs} for a in self.auxiliaries]
        return {
            "view": self.view,
            "alone": self.alone,
            "self_maintainable": self.maintainable,
            "reads": self.reads,
            "states": self.states,
            "insertions": self.insertions,
            "obstacle": self.obstacle,
            "shown": self.shown,
            "refuted": self.refuted,
            "served": self.served,
            "auxiliaries": kinds,
        }


NO_KEYS: TableKeys = {}
NO_VIEWS: Mapping[str, Node] = {}


def assess(
    view: str,
    plan: Node,
    staged: Staged,
    columns: Mapping[str, int],
    given: Mapping[str, Node] = NO_VIEWS,
    obstacle: str = "",
    keys: TableKeys = NO_KEYS,
    by_definition: bool = True,
) -> SelfMaintenance:
    """`columns` says how many columns each source has; `given` are the other views of the set that it belongs to, with
    their queries; `keys` the keys of sources that constraints enforce. Without `by_definition` the steps of the engine alone
    are asked."""
    if not obstacle and (simpler := drop_redundant(plan)) is not plan:
        plan, staged = simpler, cut(simpler)
    served, unserved = _serve(plan, frozenset(given), given)
    sources = columns.keys() - given.keys() - (served.keys() - unserved)
    steps = maintenance_steps(staged, frozenset(columns)) if not obstacle else ()
    reads = _read(steps) & sources
    gently = _read(steps, as_a_rule=True) & sources  # unless a minimum or maximum was deleted
    states = tuple(f"{tree(stage.node).splitlines()[0]}: {stage.how.state}" for stage in staged.stages)
    readers = frozenset(given) | (served.keys() - unserved)
    wanted = detach(view, plan, columns, readers)[1] if reads or obstacle else ()
    asked = by_definition and not obstacle and (reads or states)
    shown, refuted = _decide(plan, columns, keys) if asked else ("", "")
    if shown and readable_from_itself(plan, keys):
        wanted = ()
    used = dict.fromkeys(name for table, names in served.items() if table not in unserved for name in names)
    return SelfMaintenance(
        view,
        tuple(sorted(reads)),
        states,
        wanted,
        obstacle,
        insertions=bool(reads) and not gently,
        shown=shown,
        refuted=refuted,
        served=tuple(used) if not reads else (),
    )


def readable_from_itself(plan: Node, keys: TableKeys) -> tuple[RecoveredTable, ...]:
    """Where a view has all that its maintenance reads of its tables; nothing if it has not all of it."""
    tables = recovered(plan, keys)
    return tables if all(table.whole for table in tables) else ()


def _serve(plan: Node, given: frozenset[str], views: Mapping[str, Node]) -> tuple[dict[str, list[str]], set[str]]:
    """The views of the set from which each source can be read, and the sources of which a chain can be read from none."""
    stored = {name: found for name, query in views.items() if (found := chain(query)) is not None}
    served: dict[str, list[str]] = {}
    unserved: set[str] = set()
    for one in chains(plan, given):
        name = next((name for name, view in stored.items() if one.readable_from(view)), None)
        if name is None:
            unserved.add(one.scan.table)
        else:
            served.setdefault(one.scan.table, []).append(name)
    return served, unserved


def _decide(plan: Node, columns: Mapping[str, int], keys: TableKeys) -> tuple[str, str]:
    """Why the view's own rows determine its new rows, or two databases for which they do not."""
    simpler = drop_redundant(plan, keys)
    if not relations(simpler) & columns.keys():
        return "it has the same rows whatever its sources hold", ""
    staged = cut(simpler)
    if not staged.stages and not _read(maintenance_steps(staged, frozenset(columns))) & columns.keys():
        return "enforced keys tell its rows apart, so that none comes from two rows of its sources", ""
    if tables := recovered(simpler, keys):
        named = list_in_words([found.table for found in tables])
        return f"the rows of {named} can be read from its own, and enforced keys tell them apart", ""
    found = refute(plan, keys)
    return "", str(found) if found is not None else ""


def _read(steps: tuple[Step, ...], *, as_a_rule: bool = False) -> set[str]:
    """The relations of which steps read the old or new rows, and not just the change."""
    scans = (scan for step in steps for scan in step.scans(as_a_rule=as_a_rule))
    return {scan.table for scan in scans if scan.at is not At.DELTA}
