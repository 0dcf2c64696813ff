"""The first rows from the stored ones and the change: right whenever they are told, and told whenever enough are left."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa

from nabla.algebra.calls import Order
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Scan, TopK
from nabla.algebra.reference.interpreter import Database, added, evaluate, negated
from nabla.calculus.delta import Derivation
from nabla.calculus.stages import TopRows, cut
from nabla.dev.testing.maintained import _log, _stored
from nabla.dev.testing.random_plans import reading
from nabla.engine.driver.first_rows import first_rows

COLUMNS = (Column("a#1", "int"), Column("b#2", "int"))
LIMIT = 4


def _settled(view: TopK, database: Database) -> tuple[Counter[tuple[int, ...]] | None, Counter[tuple[int, ...]]]:
    """What the driver tells, if it does, and the change that recomputing gives."""
    staged = cut(view)
    (stage,) = staged.stages
    assert isinstance(stage, TopRows)
    old, new = (evaluate(reading(stage.node, at), database) for at in (At.OLD, At.NEW))
    stored = _stored(database, staged)
    stored.hidden[stage.state_table, At.OLD] = _log(old)
    query = stage.find_touched(Derivation(frozenset({"r"})))
    assert query is not None
    rows = list(evaluate(query, stored).elements())
    table = pa.table([pa.array([r[i] for r in rows], pa.int64()) for i in range(5)], names=[f"c{i}" for i in range(5)])
    change = first_rows(stage, table)
    told = (
        None if change is None else Counter({(a, b): n for a, b, n in zip(*change.to_pydict().values(), strict=True)})
    )
    return told, added(new, negated(old))


def test_what_the_driver_tells_is_right() -> None:
    view = TopK(Scan("r", At.NEW, COLUMNS, ("a", "b")), (Order(COLUMNS[0].ref, ascending=False),), LIMIT)
    told = 0
    for seed in range(400):
        rng = Random(seed)
        before = Counter(
            {(rng.randint(0, 5), rng.choice((None, 0, 1))): rng.choice((1, 1, 2)) for _ in range(rng.randint(0, 9))}
        )
        after = Counter(before)
        for row in [r for r in before if rng.random() < 0.3]:
            after[row] -= 1
        for _ in range(rng.randint(0, 3)):
            after[rng.randint(0, 5), rng.choice((None, 0, 1))] += 1
        database = Database({"r": ("a", "b")}, {"r": before}, {"r": +after})
        found, expected = _settled(view, database)
        if found is not None:
            assert found == expected, f"seed {seed}"
            told += 1
    assert 250 < told < 400, "it should tell mostly, and must sometimes not know"


def test_a_row_that_goes_is_replaced_only_from_the_rest() -> None:
    view = TopK(Scan("r", At.NEW, COLUMNS, ("a", "b")), (Order(COLUMNS[0].ref),), 2)
    rows = Counter({(1, 0): 1, (2, 0): 1, (3, 0): 1})
    gone = Database({"r": ("a", "b")}, {"r": rows}, {"r": Counter({(2, 0): 1, (3, 0): 1})})
    assert _settled(view, gone)[0] is None
    replaced = Database({"r": ("a", "b")}, {"r": rows}, {"r": Counter({(0, 0): 1, (2, 0): 1, (3, 0): 1})})
    assert _settled(view, replaced)[0] == Counter({(1, 0): -1, (0, 0): 1})


def test_no_rows_at_all_may_be_asked_for() -> None:
    view = TopK(Scan("r", At.NEW, COLUMNS, ("a", "b")), (Order(COLUMNS[0].ref),), 0)
    come = Database({"r": ("a", "b")}, {"r": Counter()}, {"r": Counter({(1, 0): 1})})
    assert _settled(view, come)[0] == Counter()
