"""The claims of the papers as properties of random views and states: each is a function of a seed that raises AssertionError.

`python -m nabla.dev.testing.fuzz_papers` tries each of them on ten thousand seeds; the tests on a few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from nabla.algebra.build import equal
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Join, Node, Scan
from nabla.algebra.reference.interpreter import Database, added, evaluate, negated
from nabla.calculus.delta import Derivation
from nabla.dev.testing import nested_laws, random_nested
from nabla.dev.testing.detached_views import follow_detached_view
from nabla.dev.testing.paper_states import (
    as_sets,
    assert_minimal_pair,
    before_and_after,
    changed_tables,
    column,
    random_state,
    rows,
)
from nabla.dev.testing.random_plans import CORE, random_scenario
from nabla.papers import count_algorithm, qian_wiederhold
from nabla.papers.change_routes import refresh, route
from nabla.papers.count_algorithm import NotCountable
from nabla.papers.pair_laws import ViewOperator
from nabla.papers.pairs import Pairs, minimal
from nabla.papers.set_form import NotSetAlgebra, set_form
from nabla.papers.sets import RowSet
from nabla.papers.single_updates import FIGURE_3, SingleUpdate, leaf_by_leaf

SETS = CORE | {"outer", "semi", "except", "intersect", "constant"}
BASIC = frozenset(("filter", "project", "join", "union", "distinct", "except", "intersect"))
COUNTED = frozenset(("filter", "project", "join", "union", "distinct"))
OLD, NEW = Pairs(frozenset()), Pairs(frozenset(), At.NEW)


class Skipped(Exception):
    """The random view is none that the property is about."""


def _view(seed: int, features: frozenset[str]) -> tuple[Node, Database, frozenset[str]]:
    scenario = random_scenario(seed, features)
    try:
        view = set_form(scenario.plan, {t.name: t.columns for t in scenario.schema})
    except NotSetAlgebra as reason:
        raise Skipped(str(reason)) from None
    database = as_sets(scenario)
    return view, database, changed_tables(database)


def pairs_are_minimal(seed: int) -> None:
    """Griffin, Libkin, Trickey, theorem 1; Griffin, Kumar, figure 4; thesis, theorems 4.2 and 4.8."""
    view, database, changed = _view(seed, SETS)
    for at in (At.OLD, At.NEW):
        assert_minimal_pair(Pairs(changed, at).of(view), view, database, (seed, at))


def signed_bags_agree(seed: int) -> None:
    """ΔQ − ∇Q = dQ: two derivations of one change."""
    view, database, changed = _view(seed, SETS)
    pair, change = Pairs(changed).of(view), Derivation(changed).d(view)
    inserted, deleted = (Counter(rows(plan, database)) for plan in (pair.insert, pair.delete))
    found = evaluate(change, database) if change is not None else Counter()
    assert found == added(inserted, negated(deleted)), seed


def rewriting_is_a_solution(seed: int) -> None:
    """Qian and Wiederhold's pair is a solution, and proposition 2 makes it minimal."""
    view, database, changed = _view(seed, BASIC)
    try:
        pair = qian_wiederhold.solution(view, changed)
    except LookupError as reason:
        raise Skipped(str(reason)) from None
    old, new = before_and_after(view, database)
    assert (old - rows(pair.delete, database)) | rows(pair.insert, database) == new, seed
    before = OLD.operand(view).old.plan
    assert before is not None
    assert_minimal_pair(minimal(pair, before), view, database, seed)


S = Scan("s", At.NEW, (Column("k", "int", False), Column("a", "int")), ("k", "a"))
T = Scan("t", At.NEW, (Column("l", "int"), Column("b", "int", False)), ("l", "b"))
SAME_KEY = (equal(column(S, "k"), column(T, "l")),)


def single_updates_hold(seed: int) -> None:
    """Griffin, Kumar, figure 3. Each seed is for one of the equations; of two, one has an update that is not minimal."""
    equation = FIGURE_3[seed % len(FIGURE_3)]
    scans = [Scan(s.table, At.OLD, s.output, s.fields) for s in (S, T)]
    changing = scans[equation.place]
    signs = ("∇", "Δ") if equation.sign == "−" else ("Δ", "∇")
    change = RowSet(Scan(signs[0] + changing.table, At.OLD, changing.output, changing.fields))
    if seed // len(FIGURE_3) % 2:
        change = change | RowSet(Scan(signs[1] + changing.table, At.OLD, changing.output, changing.fields))
    q = ViewOperator(Join(S, T, SAME_KEY, equation.kind))
    old = [RowSet(scan) for scan in scans]
    new = list(old)
    new[equation.place] = old[equation.place] - change if equation.sign == "−" else old[equation.place] | change
    update = SingleUpdate(q, old[0], old[1], change, equation.place)
    found = (q(*old) - equation.lost(update)) | equation.gained(update)
    database = random_state(Random(seed), S, T)
    assert rows(found.plan, database) == rows(q(*new).plan, database), (equation.text, seed)


def leaves_one_by_one_agree(seed: int) -> None:
    """Griffin, Kumar, section 3, and thesis 2.3: one table after the other gives the same view as all at once."""
    view, database, changed = _view(seed, SETS - {"aggregate"})
    if any(isinstance(part, Aggregate) for part in view.walk()):
        raise Skipped("figures 2 and 3 have no equation for an aggregate")
    found, new = before_and_after(view, database)
    for pair in leaf_by_leaf(view, changed):
        found = (found - rows(pair.delete, database)) | rows(pair.insert, database)
    assert found == new, seed


def counts_are_right(seed: int) -> None:
    """Theorem 3.7 with the extensions 3.3.1 and 3.3.2: unions anywhere and, for every other seed, an aggregation on top."""
    view, database, changed = _view(seed, COUNTED)
    if seed % 2 and len(view.columns) > 1:
        view = _aggregated(view)
    if not changed & {scan.table for scan in view.scans}:
        raise Skipped("nothing changes")
    try:
        table = count_algorithm.count_table(view, Pairs(changed))
    except NotCountable as reason:
        raise Skipped(str(reason)) from None
    before, after = count_algorithm.extent(view, OLD), count_algorithm.extent(view, NEW)
    found = evaluate(count_algorithm.refresh(before, table, count_algorithm.group_of(view)), database)
    expected = evaluate(after, database)
    assert found == expected, seed
    assert {row[:-1] for row in expected} == before_and_after(view, database)[1], seed


def _aggregated(view: Node) -> Aggregate:
    """Counts, and sums of integers that are never NULL, for each value of the first column."""
    whole = [c for c in view.columns[1:] if c.type in ("int", "bigint") and not c.nullable]
    sums = [Call(Column(f"sum of {c.name}", "bigint", False), "sum", (c.ref,)) for c in whole]
    return Aggregate(view, (view.columns[0].name,), (*sums, Call(Column("rows#n", "bigint", False), "count")))


def change_tables_agree(seed: int) -> None:
    """Theorem 5.8, which the thesis does not prove."""
    view, database, changed = _view(seed, CORE)
    if seed % 2 and len(view.columns) > 1:
        view = _aggregated(view)
    way = route(view, changed)
    before, after = way.extent(OLD), way.extent(NEW)
    found = evaluate(refresh(way, changed, before), database)
    assert found == evaluate(after, database), seed
    assert {row[: len(view.columns)] for row in found} == before_and_after(view, database)[1], seed


def detached_views_need_no_sources(seed: int) -> None:
    """Theorem 6.5, with auxiliary views that hold no more than is read."""
    follow_detached_view(seed)


def nested_equations_hold(seed: int) -> None:
    """Liu, Vincent, section 4: every equation, in each of its forms."""
    rng = Random(seed)
    random_nested.check_equations(rng, random_nested.random_schema(rng))


def nested_levels_hold(seed: int) -> None:
    """Liu, Vincent, section 6.3.2: operators below the top level, with changes of either operand."""
    rng = Random(seed)
    nested_laws.check_level_equations(rng, random_nested.random_schema(rng))


def nested_counts_hold(seed: int) -> None:
    """Liu, Vincent, section 4.6: with counts beside it, a projection is maintained without its relation."""
    rng = Random(seed)
    nested_laws.check_counts(rng, random_nested.random_schema(rng))


def nested_views_are_maintained(seed: int) -> None:
    """Liu, Vincent, section 5: views of several operators, at any level, are maintained from the changes of their tables."""
    rng = Random(seed)
    expression, sources = random_nested.random_view(rng)
    random_nested.check_expression(random_nested.random_states(rng, expression, sources))


PROPERTIES: dict[str, Callable[[int], None]] = {
    "pairs": pairs_are_minimal,
    "signed": signed_bags_agree,
    "qian-wiederhold": rewriting_is_a_solution,
    "single-updates": single_updates_hold,
    "leaf-by-leaf": leaves_one_by_one_agree,
    "count": counts_are_right,
    "change-tables": change_tables_agree,
    "detached": detached_views_need_no_sources,
    "nested": nested_equations_hold,
    "nested-levels": nested_levels_hold,
    "nested-counts": nested_counts_hold,
    "nested-views": nested_views_are_maintained,
}
