"""Projects that are run, get one percent of new input, and are run again: how each view came along."""

from __future__ import annotations

import random
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import nabla
from nabla.cli.plan import plan_project
from nabla.cli.projects import load_tables, read_project, run_project
from nabla.frontends.pipelines.specification import load_spec

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

Say = Callable[[str], None]
Rows = Callable[[random.Random, int, int], dict[str, pa.Table]]
"""Makes the rows of all tables with numbers from one to another."""


@dataclass(frozen=True)
class Example:
    """A project: its definitions by file, and the rows of its tables."""

    name: str
    files: dict[str, str]
    rows: Rows


@dataclass(frozen=True)
class Rerun:
    """A view in the first run and in the second."""

    project: str
    view: str
    rows: int
    built_seconds: float
    mode: str
    inserted: int
    deleted: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def rerun(folder: Path, size: int, say: Say) -> list[Rerun]:
    """Run each example twice, in a folder of its own."""
    return [line for example in EXAMPLES for line in _rerun(example, folder / example.name, size, say)]


def _rerun(example: Example, folder: Path, size: int, say: Say) -> list[Rerun]:
    chance = random.Random(2026)
    for name, text in {**example.files, "spark-pipeline.yml": SPECIFICATION.format(name=example.name)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    lake = nabla.open(folder / "lake")
    for table, rows in example.rows(chance, 0, size).items():
        lake.create_table(table, data=rows, key="id")
    say(f"{example.name}: first run over {size:,} rows")
    first = _run(folder, lake)
    built = {one.name: one.seconds for one in first.built}
    with lake.transaction() as tx:
        for table, rows in example.rows(chance, size, size + max(1, size // 100)).items():
            tx.insert(table, rows)
    say(f"{example.name}: second run after one percent of new rows")
    begun = time.perf_counter()
    second = _run(folder, lake)
    say(f"{example.name}: {time.perf_counter() - begun:.2f} s, instead of {sum(built.values()):.2f} s")
    lake.verify()
    reports, status = second.refreshed, lake.status()
    return [
        Rerun(
            example.name, n, status[n].rows or 0, round(built[n], 2), r.mode, r.inserted, r.deleted, round(r.seconds, 2)
        )
        for n, r in reports.items()
    ]


def _run(folder: Path, lake: Lake) -> Any:
    def silent(_: str) -> None:
        """Nothing is told while a run is timed."""

    spec = load_spec(folder / "spark-pipeline.yml")
    load_tables(lake, spec, silent)
    project, reading = read_project(spec, lake)
    kept = plan_project(project, lake, reading, silent).kept
    return run_project(project, lake, reading, mode=None, rebuild=True, tell=silent, kept=kept)


SPECIFICATION = """
name: {name}
storage: storage
libraries: [{{glob: {{include: transformations/**}}}}]
configuration: {{nabla.lake: lake}}
"""


def _shop(chance: random.Random, start: int, end: int) -> dict[str, pa.Table]:
    ids = range(start, end)
    customers = range(start // 20, end // 20)
    return {
        "orders": pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "customer": pa.array([chance.randrange(max(1, end // 20)) for _ in ids], pa.int64()),
                "amount": pa.array([chance.randrange(100_000) for _ in ids], pa.int64()),
                "day": pa.array([chance.randrange(365) for _ in ids], pa.int32()),
            }
        ),
        "customers": pa.table(
            {
                "id": pa.array(customers, pa.int64()),
                "region": pa.array([f"region {chance.randrange(50)}" for _ in customers], pa.string()),
            }
        ),
    }


def _events(chance: random.Random, start: int, end: int) -> dict[str, pa.Table]:
    ids = range(start, end)
    kinds = ("view", "click", "buy", "leave")
    return {
        "events": pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "visitor": pa.array([chance.randrange(start // 10, end // 10 + 1) for _ in ids], pa.int64()),
                "kind": pa.array([chance.choice(kinds) for _ in ids], pa.string()),
                "at": pa.array(ids, pa.int64()),
            }
        )
    }


EXAMPLES = (
    Example(
        "shop",
        {
            "transformations/views.sql": """
                CREATE TEMPORARY VIEW sold AS SELECT o.*, c.region FROM orders o JOIN customers c ON o.customer = c.id;
                CREATE MATERIALIZED VIEW revenue AS
                SELECT region, SUM(amount) AS total, COUNT(*) AS orders, MAX(amount) AS largest FROM sold GROUP BY region;
                CREATE MATERIALIZED VIEW days AS SELECT day, AVG(amount) AS mean FROM orders GROUP BY day;
                CREATE MATERIALIZED VIEW quiet AS
                SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id);
                CREATE MATERIALIZED VIEW best_regions AS SELECT * FROM revenue ORDER BY total DESC LIMIT 5;
            """,
            "transformations/large.py": """
                from pyspark import pipelines as dp

                @dp.materialized_view
                def large_orders():
                    return spark.table("orders").where("amount > 99000").join(
                        spark.table("customers").withColumnRenamed("id", "customer"), "customer")
            """,
        },
        _shop,
    ),
    Example(
        "visits",
        {
            "transformations/views.sql": """
                CREATE MATERIALIZED VIEW steps AS
                SELECT visitor, id, kind, LAG(kind) OVER (PARTITION BY visitor ORDER BY at) AS before FROM events;
                CREATE MATERIALIZED VIEW moves AS SELECT before, kind, COUNT(*) AS n FROM steps GROUP BY before, kind;
                CREATE MATERIALIZED VIEW visitors AS
                SELECT visitor, MIN(at) AS first, MAX(at) AS last, COUNT(DISTINCT kind) AS kinds FROM events GROUP BY visitor;
            """,
            "transformations/buyers.rules": """
                buyer(V) :- events(visitor: V, kind: 'buy').
                looker(V) :- events(visitor: V), not buyer(V).
            """,
        },
        _events,
    ),
)
