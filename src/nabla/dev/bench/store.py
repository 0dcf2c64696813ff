"""A lake on an S3 server of this machine: the requests and the seconds of a small transaction and of a small refresh."""

from __future__ import annotations

import shutil
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import nabla
from nabla.dev.testing.object_store import Server
from nabla.engine.spark.session import build_session

ROUNDS = 21
MOST = 25
"""Requests that a refresh may make after a small change, checkpoints included."""


@dataclass(frozen=True)
class Round:
    """Requests and seconds of a transaction of ten rows, and of the refresh after it."""

    written: Counter[str]
    write_seconds: float
    refreshed: Counter[str]
    refresh_seconds: float


def found_shop(path: Path) -> None:
    """A small shop on this machine; its view is made by Spark, and maintained without it."""
    spark = build_session("nabla-store", {"spark.master": "local[1]"})
    lake = nabla.open(path, spark=spark)
    orders = [(i, i % 50, Decimal(i % 90)) for i in range(2000)]
    lake.create_table("orders", schema="id INT, customer INT, amount DECIMAL(12,2)", data=orders, key="id")
    lake.create_table("customers", schema="id INT, region STRING", data=[(i, f"r{i % 7}") for i in range(50)], key="id")
    joined = "orders o JOIN customers c ON o.customer = c.id"
    lake.create_view("revenue", f"SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM {joined} GROUP BY region")
    spark.stop()


def measure(server: Server, founded: Path, rounds: int = ROUNDS) -> list[Round]:
    """Rounds on a copy of the shop in a bucket; the first one, which reads what later ones know, is left out."""
    shutil.copytree(founded, server.make_bucket("shop") / "lake")
    lake = nabla.open("s3://shop/lake")
    return [_round(server, lake, number) for number in range(rounds + 1)][1:]


def _round(server: Server, lake: nabla.Lake, number: int) -> Round:
    begun, before = time.perf_counter(), len(server.requests())
    with lake.transaction() as tx:
        tx.insert("orders", [(100_000 + 10 * number + k, k, Decimal(k)) for k in range(5)])
        tx.delete("orders", rows=[(i, i % 50, Decimal(i % 90)) for i in range(5 * number, 5 * number + 5)])
    written, between = time.perf_counter(), len(server.requests())
    lake.refresh(mode="strict")
    refreshed = time.perf_counter()
    requests = server.requests()
    return Round(_kinds(requests[before:between]), written - begun, _kinds(requests[between:]), refreshed - written)


def _kinds(requests: list[str]) -> Counter[str]:
    return Counter(request.split()[0] for request in requests)


def table(rounds: list[Round]) -> str:
    """The rounds for people: medians and the most."""
    lines = ["| | requests, median | most | seconds, median |", "|---|---|---|---|"]
    for what, counted, seconds in (
        ("transaction of ten rows", [r.written for r in rounds], [r.write_seconds for r in rounds]),
        ("refresh after it", [r.refreshed for r in rounds], [r.refresh_seconds for r in rounds]),
    ):
        totals = [one.total() for one in counted]
        lines.append(f"| {what} | {statistics.median(totals):g} | {max(totals)} | {statistics.median(seconds):.3f} |")
    kinds = sum((r.refreshed for r in rounds), Counter[str]())
    shares = ", ".join(f"{n / len(rounds):.1f} {kind}" for kind, n in kinds.most_common())
    return "\n".join([*lines, "", f"a refresh on average: {shares}"])
