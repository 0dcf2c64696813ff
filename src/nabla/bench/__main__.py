"""`make bench`: TPC-H views refreshed against recomputed, and the cost of the smallest refresh. Prints what it measures."""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import tempfile
import time
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

import nabla
from nabla.bench import tpch
from nabla.bench.measure import Summary, geometric_mean, measure_round, summarize, table

DEFAULT_VIEWS = (1, 3, 5, 6, 10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nabla.bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--change", type=float, default=0.1, help="changed orders, in percent")
    parser.add_argument("--views", default=",".join(map(str, DEFAULT_VIEWS)), help="query numbers, or all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of changes; medians are shown")
    parser.add_argument("--mode", default="auto", help="auto, incremental or strict")
    parser.add_argument("--data", type=Path, default=Path("bench/data"), help="where generated data is kept")
    parser.add_argument("--verify", action="store_true", help="verify every view at the end")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    arguments = parser.parse_args()
    numbers = tpch.QUERIES if arguments.views == "all" else tuple(int(n) for n in arguments.views.split(","))
    folder = Path(tempfile.mkdtemp(prefix="nabla-bench-"))
    try:
        small = smallest_refresh(folder)
        summaries = tpch_views(arguments, numbers, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        mean = geometric_mean([s.ratio for s in summaries])
        print(json.dumps({"views": [asdict(s) for s in summaries], "mean": mean, "smallest": small}))


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def smallest_refresh(folder: Path) -> float:
    """Ten changed rows in a small lake, a view with a join and an aggregate, over one Spark write of ten rows."""
    lake = nabla.open(folder / "small")
    lake.create_table(
        "customers", schema="id INT, region STRING", data=[(i, f"r{i % 20}") for i in range(500)], key="id"
    )
    day = datetime.date(2026, 1, 1)
    data = [(i, i % 500, Decimal(i % 90), day) for i in range(20_000)]
    lake.create_table("orders", schema="id INT, customer INT, amount DECIMAL(12,2), day DATE", data=data, key="id")
    joined = "orders o JOIN customers c ON o.customer = c.id"
    lake.create_view(
        "revenue", f"SELECT c.region, SUM(o.amount) AS total, COUNT(*) AS n FROM {joined} GROUP BY c.region"
    )
    refreshes, writes = [], []
    for i in range(12):
        with lake.transaction() as tx:
            tx.insert("orders", [(100_000 + 10 * i + k, k, Decimal(k), day) for k in range(5)])
            tx.delete("orders", rows=data[5 * i : 5 * i + 5])
        refreshes.append(lake.refresh(mode="incremental")["revenue"].seconds)
        begun = time.perf_counter()
        frame = lake._spark.range(10).selectExpr(
            "id", "CAST(id AS STRING) AS name", "CAST(id AS DECIMAL(12,2)) AS amount"
        )
        frame.coalesce(1).write.mode("overwrite").parquet(str(folder / "ten"))
        writes.append(time.perf_counter() - begun)
    lake.verify()
    refresh, write = sorted(refreshes)[len(refreshes) // 2], sorted(writes)[len(writes) // 2]
    say(f"smallest refresh {refresh:.3f} s, a Spark write of ten rows {write:.3f} s: {refresh / write:.2f} times")
    return refresh / write


def tpch_views(arguments: argparse.Namespace, numbers: tuple[int, ...], folder: Path) -> list[Summary]:
    data = tpch.generate(arguments.data, arguments.scale)
    lake = nabla.open(folder / "tpch")
    say(f"loading TPC-H scale {arguments.scale:g}")
    tpch.load(lake, data)
    views = {tpch.view_name(n): tpch.query(n) for n in numbers}
    for name, sql in views.items():
        report = lake.create_view(name, sql)
        say(f"built {name} in {report.seconds:.1f} s, {report.inserted} rows")
    measurements = []
    for number in range(arguments.rounds):
        orders, lines = tpch.change_orders(lake, arguments.change / 100, number)
        say(f"round {number + 1}: {orders} orders and {lines} lines changed")
        measurements += measure_round(lake, views, number, folder / "scratch", arguments.mode)
    if arguments.verify:
        lake.verify()
        say("verified: every view equals its query")
    summaries = summarize(measurements)
    print(table(summaries), flush=True)
    return summaries


if __name__ == "__main__":
    main()
