"""A bank: a lake in which money only moves. Whoever looks at it, at whatever version, must find the books balanced.

Every transfer is two postings under one number, so that what was lost, doubled or half done can be told. Its constraints
and views are small enough to be maintained without Spark: processes that write, refresh and read it start in a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

import nabla
from nabla.constraints import key
from nabla.engine.feed import FEED_COLUMNS
from nabla.lake.facade import Lake
from nabla.storage import reading
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog

Bag = Counter[tuple[Any, ...]]
ACCOUNTS = 5
FIRST_OWNERS = [(i, f"owner {i}") for i in range(ACCOUNTS)]
FIRST = ("first", 0, 1, 100)
OWNERS = "SELECT owner, SUM(amount) AS balance FROM postings JOIN accounts ON account = id GROUP BY owner"
BALANCES = "SELECT account, SUM(amount) AS balance, COUNT(*) AS n FROM postings GROUP BY account"


def found_bank(path: Path, spark: SparkSession) -> None:
    """A bank with a few accounts and one transfer. Views are made by Spark."""
    lake = nabla.open(path, spark=spark)
    lake.create_table("accounts", schema="id INT, owner STRING", data=FIRST_OWNERS, key="id")
    lake.create_table("postings", schema="number STRING, account INT, amount INT", data=_legs(*FIRST))
    lake.create_constraint("balanced", "SELECT SUM(amount) AS off FROM postings HAVING SUM(amount) <> 0")
    lake.create_constraint("own_accounts", key("accounts", "id"))
    lake.create_view("balances", BALANCES, maintain="immediate")
    lake.create_view("rich", "SELECT account, balance FROM balances WHERE balance > 0")
    lake.create_view("totals", "SELECT COUNT(*) AS n, SUM(amount) AS off FROM postings", propagate="ahead")
    lake.create_view("owners", OWNERS, maintain={"postings": "immediate", "accounts": "1 hour"})


def _legs(number: str, giver: int, taker: int, amount: int) -> list[tuple[str, int, int]]:
    return [(number, giver, -amount), (number, taker, amount)]


def transfer(lake: Lake, number: str, rng: Random) -> None:
    """Two postings in one transaction."""
    giver, taker = rng.sample(range(ACCOUNTS), 2)
    with lake.transaction() as tx:
        tx.insert("postings", _legs(number, giver, taker, rng.randint(1, 50)))


def sell_account(lake: Lake, owner: str, rng: Random) -> None:
    """An account gets another owner, unless somebody else has just sold it."""
    log = lake.context.log
    sold = rng.choice(sorted(_rows(log, log.state(), "accounts")))
    with suppress(nabla.NablaError), lake.transaction() as tx:
        tx.delete("accounts", rows=[sold])
        tx.insert("accounts", [(sold[0], owner)])


def embezzle(lake: Lake, number: str, rng: Random) -> None:
    """One posting without the other: the bank must refuse it."""
    try:
        with lake.transaction() as tx:
            tx.insert("postings", [(number, rng.randrange(ACCOUNTS), rng.randint(1, 50))])
    except nabla.Violated:
        return
    raise AssertionError(f"{number} was not refused")


def audit(path: Path | str, acknowledged: Iterable[str] = ()) -> int:
    """Raises AssertionError where the books of the newest version are wrong; gives the version.

    Every transfer that was acknowledged is there, once; none is there by half; every view is what its sources say, at the
    version that it reflects; every feed, replayed from the beginning, gives its view.
    """
    log = LakeLog.open(path)
    state = log.state()
    postings = _rows(log, state, "postings")
    legs: Counter[str] = Counter()
    for (number, _, _), n in postings.items():
        legs[number] += n
    _same("legs of transfers", set(legs.values()), {2})
    _same("transfers that were lost", set(acknowledged) - legs.keys(), set())
    _same("money", _sum(postings), 0)
    _same("violations", [_rows(log, state, name) for name in ("balanced", "own_accounts")], [Counter(), Counter()])
    reflected = {name: entry.facts.get("sources", {}) for name, entry in state.entries.items()}
    _same("postings of owners", reflected["owners"]["postings"], state.entries["postings"].parts["data"].version)
    balances = _rows(log, state, "balances", reflected["rich"]["balances"])
    then = _rows(log, state, "postings", reflected["totals"]["postings"])
    accounts = _rows(log, state, "accounts", reflected["owners"]["accounts"])
    expected = _views(_balances(postings), balances, then, postings, accounts)
    founded = Counter(_legs(*FIRST))
    first = _views(_balances(founded), _balances(founded), founded, founded, Counter(FIRST_OWNERS))
    for view, rows in expected.items():
        _same(view, _rows(log, state, view), rows)
        _same(f"the feed of {view}", _fed(log, state, view, first[view]), rows)
    return state.version


def _rows(log: LakeLog, state: LakeState, name: str, version: int | None = None) -> Bag:
    part = state.entries[name].parts["data"]
    table = reading.read(log.table(part).snapshot(part.version if version is None else version))
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _sum(postings: Bag) -> int:
    return sum(amount * n for (_, _, amount), n in postings.items())


def _balances(postings: Bag) -> Bag:
    balance: Counter[int] = Counter()
    number: Counter[int] = Counter()
    for (_, account, amount), n in postings.items():
        balance[account] += amount * n
        number[account] += n
    return Counter({(account, balance[account], n): 1 for account, n in number.items()})


def _rich(balances: Bag) -> Bag:
    return Counter({(account, balance): n for (account, balance, _), n in balances.items() if balance > 0})


def _views(balances: Bag, of_rich: Bag, of_totals: Bag, postings: Bag, accounts: Bag) -> dict[str, Bag]:
    """The content of every view, from the rows that it reflects."""
    owner: dict[int, str] = dict(accounts.keys())
    sums: Counter[str] = Counter()
    for (_, account, amount), n in postings.items():
        sums[owner[account]] += amount * n
    owned = {owner[account] for _, account, _ in postings}
    owners = Counter({(name, sums[name]): 1 for name in owned})
    return {"balances": balances, "rich": _rich(of_rich), "totals": _totals(of_totals), "owners": owners}


def _totals(postings: Bag) -> Bag:
    return Counter({(postings.total(), _sum(postings)): 1})


def _fed(log: LakeLog, state: LakeState, view: str, first: Bag) -> Bag:
    """The content that a view had when the bank was founded, and all that its feed says since."""
    feed = reading.read(log.snapshot(state.entries[view].parts["feed"]))
    found = Counter(first)
    for row in zip(*(column.to_pylist() for column in feed.columns), strict=True):
        content, kind = row[: -len(FEED_COLUMNS)], row[-len(FEED_COLUMNS)]
        found[content] += 1 if kind == "insert" else -1
    return Counter({row: n for row, n in found.items() if n})


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")
