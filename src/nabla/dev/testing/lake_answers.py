"""Random answers in lakes, on Spark: views with pending changes, and declared keys that hold in half of the lakes."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from random import Random

from pyspark.sql import DataFrame, SparkSession

import nabla
from nabla.algebra.expressions import quote
from nabla.algebra.nodes import Node
from nabla.algebra.reference.interpreter import Bag, Database
from nabla.algebra.sql import to_sql
from nabla.dev.testing.fuzz_answers import Findings
from nabla.dev.testing.random_answers import Answers
from nabla.dev.testing.random_data import Row, Schema
from nabla.dev.testing.random_star import KEYS, REFERENCES, proofs_of, random_star, random_star_database
from nabla.dev.testing.session import quick_session
from nabla.errors import NablaError
from nabla.lake.facade import Lake

VIEWS = 5
QUERIES = 30
"""Views and queries of a lake: making a lake takes as long as many queries."""
EVERY = 4
"""Every so many answered queries are also given to Spark itself, which the lake accelerates."""


def fuzz_in_lakes(matches: int, first: int = 0, most_wrong: int = 10) -> Findings:
    """Lakes from a seed on, until so many queries were answered from views."""
    spark = quick_session("nabla-answers", {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"})
    findings, seed = Findings(), first
    while findings.matches < matches and len(findings.wrong) < most_wrong:
        findings.add(try_lake(spark, seed, matches - findings.matches))
        seed += 1
    return findings


def try_lake(spark: SparkSession, seed: int, most: int = QUERIES) -> Findings:
    """One lake with its views, of which some are behind, and queries that views answer or not."""
    rng = Random(seed)
    schema = random_star(rng)
    database = random_star_database(rng, schema)
    answers = Answers(rng, schema)
    specs = [answers.view() for _ in range(VIEWS)]
    findings = Findings()
    folder = tempfile.mkdtemp(prefix="nabla-answers-")
    lake = nabla.open(folder, spark=spark)
    try:
        _fill(lake, schema, database)
        lake.create_views({f"v{i}": _text(spec.plan(schema)) for i, spec in enumerate(specs)})
        lake.accelerate()
        if rng.random() < 0.6:
            _change(lake, schema, database)
            if rng.random() < 0.5:
                lake.refresh(*(f"v{i}" for i in range(VIEWS) if rng.random() < 0.5))
        for number in range(QUERIES):
            place, weak = rng.randrange(VIEWS), rng.random() < 0.5
            spec = answers.weaker(specs[place]) if weak else answers.changed(specs[place])
            _try_query(lake, _text(spec.plan(schema)), weak, f"seed {seed}, query {number}", findings)
            if findings.matches >= most:
                break
    finally:
        lake.accelerate(on=False)
        with suppress(OSError):
            shutil.rmtree(folder)
    return findings


def _try_query(lake: Lake, text: str, weak: bool, where: str, findings: Findings) -> None:
    findings.queries += 1
    findings.weaker += weak
    try:
        answer = lake.answer(text, views="only")
    except NablaError as error:
        if error.code == "NABLA_NOT_ANSWERED":
            findings.missed += [f"{where}: {error}"] * weak
        else:
            findings.wrong.append(f"{where}: {error}: {text}"[:900])
        return
    findings.weaker_answered += weak
    findings.matches += 1
    findings.fired.update({*answer.rules, *(("with pending change",) if answer.pending else ())})
    findings.reasons.update(reason.code for reason in answer.reasons)
    plain = lake.sql(text, views="never")
    right, got = _rows(plain), _rows(answer.frame)
    if right != got:
        findings.wrong.append(f"{where}: {answer}: {got} instead of {right}: {text}"[:1500])
    if findings.matches % EVERY == 0 and (fast := _rows(lake.spark.sql(text))) != right:
        findings.wrong.append(f"{where}: accelerated: {fast} instead of {right}: {text}"[:1500])
    if [(f.name, f.dataType, f.nullable) for f in plain.schema] != [
        (f.name, f.dataType, f.nullable) for f in answer.frame.schema
    ]:
        findings.wrong.append(f"{where}: {answer.frame.schema} instead of {plain.schema}: {text}"[:1500])


def _rows(frame: DataFrame) -> Counter[Row]:
    return Counter(tuple(row) for row in frame.collect())


def _text(plan: Node) -> str:
    """A plan as SQL, with names for its columns that a view may have."""
    columns = ", ".join(f"{quote(c.name)} AS c{i}" for i, c in enumerate(plan.columns))
    return f"SELECT {columns} FROM ({to_sql(plan, lambda scan: quote(scan.table))})"


def _fill(lake: Lake, schema: Schema, database: Database) -> None:
    """The tables, those that others refer to first. Declarations are enforced where they hold before and after the change."""
    before, after = (
        proofs_of(Database(database.fields, content, content)) for content in (database.before, database.after)
    )
    for table in reversed(schema):
        key = KEYS.get(table.name)
        foreign = {field: ".".join(other) for (own, field), other in REFERENCES.items() if own == table.name}
        holds = all(
            (key is None or (p.unique(table.name, (key,)) and p.has_values(table.name, key)))
            and all(p.refers(table.name, field, *REFERENCES[table.name, field]) for field in foreign)
            for p in (before, after)
        )
        rows = _copies(database.before[table.name])
        lake.create_table(table.name, table.ddl, rows, key=key, foreign_keys=foreign, enforce=holds)


def _change(lake: Lake, schema: Schema, database: Database) -> None:
    with lake.transaction() as tx:
        for table in schema:
            delta = database.delta(table.name)
            if gone := _copies(Counter({row: -n for row, n in delta.items() if n < 0})):
                tx.delete(table.name, rows=gone)
            if come := _copies(Counter({row: n for row, n in delta.items() if n > 0})):
                tx.insert(table.name, come)


def _copies(bag: Bag) -> list[Row]:
    return [row for row, n in bag.items() for _ in range(n)]
