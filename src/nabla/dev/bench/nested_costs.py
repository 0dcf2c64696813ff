"""The costs of section 6.2 of Liu and Vincent: what each item of an incremental equation costs by itself.

    (r ⊖ δ) op s = [r op s]∉K ⊕ (([r]∈K ⊖ δ) op s)
                   c_del      c_ins   c_coul  c_cmb  c_inc

Each item is computed by Spark from items that are there, and written: `coul` selects the rows of r with keys in K, `cmb`
takes δ from them, `inc` computes the operators over the outcome, `del` writes the view without the rows with keys in K, `ins`
writes the new ones. A refresh does the last three in one go, and the transaction that updates the table the first two; their
times stand beside the items, as `mtn` and `tx`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame

import nabla
from nabla.algebra.nodes import Node
from nabla.algebra.sql import to_sql
from nabla.dev.bench.nested_run import Say, Workload, build_university, maintain, recompute
from nabla.dev.bench.section import Section
from nabla.dev.bench.university import Experiment, University
from nabla.frontends.nested.meaning import NestedSource
from nabla.frontends.nested.plans import to_plan
from nabla.frontends.nested.schema import Schema
from nabla.frontends.nested.updates import CHANGE, TABLE, updated_plan
from nabla.lake.write.nested_tables import canonical_frame

ITEMS = ("coul", "cmb", "inc", "del", "ins")


@dataclass(frozen=True)
class Costs:
    """Seconds after a deletion of parts of `size` percent of the students: of the equation's items, of the transaction, of a
    refresh, and of recomputing the view."""

    view: str
    size: float
    items: dict[str, float]
    tx: float
    mtn: float
    rec: float
    students: int = 0


def run(workload: Workload, folder: Path, say: Say) -> Iterator[Costs]:
    """Yield the costs of every view, for each size of the update."""
    university = University(nabla.open(folder), workload.students, workload.design)
    build_university(university, workload, say)
    names = [e.name for e in workload.experiments]
    for size in workload.sizes:
        parts = university.parts("stud", size / 100)
        university.update("stud", parts, "⊕")
        university.lake.refresh(*names)
        items = {e.name: _items(university, e, parts) for e in workload.experiments}
        began = perf_counter()
        university.update("stud", parts, "⊖")
        tx = perf_counter() - began
        for e in workload.experiments:
            seconds = tx, maintain(university.lake, e), recompute(university.lake, e)
            found = Costs(e.name, size, items[e.name], *seconds, university.students)
            say(f"{found.view}, {size:g} %: " + ", ".join(f"{item} {s:.2f} s" for item, s in found.items.items()))
            yield found


def _items(university: University, experiment: Experiment, parts: DataFrame) -> dict[str, float]:
    """The seconds of each item, computed one after the other."""
    lake, seconds = university.lake, dict[str, float]()
    schemas = {name: Schema.of(design.schema) for name, design in university.design.relations.items()}
    stud, key = schemas["stud"], list(schemas["stud"].key)
    with tempfile.TemporaryDirectory() as folder:
        table, view = lake.read("stud"), lake.read(experiment.name)
        spark = table.sparkSession

        def write(item: str, frame: DataFrame) -> DataFrame:
            began = perf_counter()
            frame.write.parquet(f"{folder}/{item}")
            seconds[item] = perf_counter() - began
            return spark.read.schema(frame.schema).parquet(f"{folder}/{item}")

        def query(plan: Node, relations: dict[str, DataFrame], names: Sequence[str]) -> DataFrame:
            for name, frame in relations.items():
                frame.createOrReplaceTempView(_temporary(name))
            return spark.sql(to_sql(plan, lambda scan: _temporary(scan.table))).toDF(*names)

        d = write("d", canonical_frame(parts))
        keys = d.select(*key)
        near = write("coul", table.join(keys, key, "left_semi"))
        update = Schema.of(d.schema)
        new = write("cmb", query(updated_plan(stud, update, "⊖"), {TABLE: near, CHANGE: d}, stud.names))
        sources = {name: NestedSource(schema) for name, schema in schemas.items()}
        plan = to_plan(experiment.view, sources)
        read = {"stud": new, **({experiment.right: lake.read(experiment.right)} if experiment.right else {})}
        change = write("inc", query(plan, read, [c.label for c in plan.columns]))
        write("del", view.join(keys, key, "left_anti"))
        write("ins", change)
    return {item: seconds[item] for item in ITEMS}


def _temporary(name: str) -> str:
    return "item_" + "".join(c if c.isalnum() else "_" for c in name)


def table(costs: Sequence[Costs]) -> Section:
    """The costs under the names of the paper. It has none of its own to put beside them: it prints their sum as curves."""
    rows = [
        (c.view, f"{c.size:g}", *(c.items[item] for item in ITEMS), sum(c.items.values()), c.tx, c.mtn, c.rec)
        for c in costs
    ]
    headings = ("view", "update %", *(f"c_{item}" for item in ITEMS), "together", "transaction", "refresh", "c_rec")
    return Section("Section 6.2: seconds of each item of the equation, and of a refresh in one go", headings, rows)
