"""Deferral policies against each other: the same transactions with a view that is immediate, deferred, or computed ahead.

What is compared is how long a transaction takes, how long a reader who wants the newest rows waits for the refresh, and how
much work all of it is (thesis, section 8.1; Colby et al. 1996).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa

import nabla
from nabla.dev.bench.section import Section
from nabla.lake.facade import Lake

Policy = Literal["immediate", "deferred", "ahead"]
POLICIES: tuple[Policy, ...] = ("immediate", "deferred", "ahead")

VIEW = """
    SELECT c.region, o.product, SUM(o.amount) AS revenue, COUNT(*) AS n, MAX(o.amount) AS largest
    FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region, o.product"""
PRODUCTS, REGIONS = 500, 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """Rounds of so many transactions, each with so many new orders and a fifth as many that go. A round ends with a refresh."""

    orders: int = 500_000
    transactions: int = 10
    rows: int = 1_000
    rounds: int = 5


@dataclass(frozen=True)
class Round:
    """The seconds of one round: those of a transaction, of all that was computed ahead, and of the refresh."""

    transaction: float
    ahead: float
    refresh: float
    total: float


@dataclass(frozen=True)
class Outcome:
    """The medians of all rounds."""

    policy: Policy
    transaction: float
    ahead: float
    refresh: float
    total: float

    @classmethod
    def of(cls, policy: Policy, rounds: list[Round]) -> Outcome:
        medians = {name: statistics.median(getattr(one, name) for one in rounds) for name in Round.__annotations__}
        return cls(policy, **medians)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(load: Load, folder: Path, say: Say, policies: Sequence[Policy] = POLICIES) -> list[Outcome]:
    """Every policy on a lake of its own, with the same data and the same transactions. Views are verified at the end."""
    return [_measure(policy, load, nabla.open(folder / policy), say) for policy in policies]


def _measure(policy: Policy, load: Load, lake: Lake, say: Say) -> Outcome:
    rng = Random(1)
    customers = max(load.orders // 10, 1)
    lake.create_table("customers", "id INT, region INT", [(i, i % REGIONS) for i in range(customers)], key="id")
    schema = "id INT, customer INT, product INT, amount INT"
    lake.create_table("orders", schema, _orders(rng, range(load.orders), customers), key="id")
    if policy == "immediate":
        lake.create_view("revenue", VIEW, maintain="immediate")
    else:
        lake.create_view("revenue", VIEW, propagate="ahead" if policy == "ahead" else None)
    rounds = [_round(policy, load, lake, rng, number, customers, say) for number in range(load.rounds + 1)]
    lake.verify()
    return Outcome.of(policy, rounds[1:])  # code is compiled and columns are read during the first one


def _round(policy: Policy, load: Load, lake: Lake, rng: Random, number: int, customers: int, say: Say) -> Round:
    begun = time.perf_counter()
    transactions: list[float] = []
    ahead = 0.0
    for turn in range(load.transactions):
        place = number * load.transactions + turn
        first = load.orders + place * load.rows
        new = _orders(rng, range(first, first + load.rows), customers)
        gone = load.rows // 5
        started = time.perf_counter()
        with lake.transaction() as tx:
            tx.insert("orders", new)
            tx.delete("orders", where=f"id BETWEEN {place * gone} AND {(place + 1) * gone - 1}")
        transactions.append(time.perf_counter() - started)
        if policy == "ahead":
            started = time.perf_counter()
            lake.propagate()
            ahead += time.perf_counter() - started
    started = time.perf_counter()
    lake.refresh(mode="incremental")
    done = time.perf_counter()
    say(f"{policy}, round {number}: refreshed in {done - started:.3f} s after {done - begun:.2f} s")
    return Round(statistics.median(transactions), ahead, done - started, sum(transactions) + ahead + done - started)


def _orders(rng: Random, ids: range, customers: int) -> pa.Table:
    columns = {
        "id": list(ids),
        "customer": [rng.randrange(customers) for _ in ids],
        "product": [rng.randrange(PRODUCTS) for _ in ids],
        "amount": [rng.randrange(1, 10_000) for _ in ids],
    }
    return pa.table(columns, schema=pa.schema([(name, pa.int32()) for name in columns]))


def section(outcomes: list[Outcome]) -> Section:
    rows = [
        (o.policy, *(f"{seconds:.3f}" for seconds in (o.transaction, o.ahead, o.refresh, o.total))) for o in outcomes
    ]
    return Section("", ("policy", "a transaction s", "ahead s", "refresh s", "all work s"), rows)
