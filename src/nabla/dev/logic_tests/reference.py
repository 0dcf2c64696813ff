"""Spark's own answers to the queries of a test: the reference, which owes nothing to Nabla.

A query over three rows takes Spark some milliseconds to understand and a hundred to run as jobs. So many queries are asked as
one: each is a member of a UNION ALL, with its number beside its values, over tables in memory that one task reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nabla.dev.logic_tests.records import Query
from nabla.dev.testing.fuzz.lake_trial import REFERENCE_SETTINGS
from nabla.dev.testing.random_data import Row, Table
from nabla.engine import intake, types

TOGETHER = 25
"""Queries that are asked as one: a larger plan makes Spark no faster."""
MOST_ROWS = 2000
"""A view with more rows says nothing that a smaller one does not."""

_VALUES: Mapping[str, Callable[[str], Any]] = {
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "float": lambda text: struct.unpack("f", struct.pack("f", float(text)))[0],
    "double": float,
    "decimal": Decimal,
    "string": str,
    "boolean": lambda text: text == "true",
}
"""The value of a text, by its type. Spark writes numbers so that reading gives the same number."""


class Refusal(str):
    """The reason of Spark to give no answer."""


Answer = list[Row] | Refusal


class Reference:
    """Tables with the rows of one moment, in a session of their own."""

    def __init__(self, spark: SparkSession, tables: Iterable[Table], rows: Mapping[str, Sequence[Row]]) -> None:
        self._session = spark.newSession()
        for key, value in {**REFERENCE_SETTINGS, "spark.sql.autoBroadcastJoinThreshold": "-1"}.items():
            self._session.conf.set(key, value)
        for table in tables:
            schema = types.parse(table.ddl)
            arrow = intake.arrow_rows(list(rows[table.name]), schema, table.name)
            # One partition: Spark needs no exchange to join and group such tables.
            self._session.createDataFrame(arrow, schema).coalesce(1).createOrReplaceTempView(table.name)

    def answers(self, queries: Sequence[Query]) -> dict[int, Answer]:
        """The rows of each query by its number, or why there are none."""
        found: dict[int, Answer] = {}
        for start in range(0, len(queries), TOGETHER):
            found |= self._ask(queries[start : start + TOGETHER])
        return found

    def _ask(self, queries: Sequence[Query]) -> dict[int, Answer]:
        """One query of Spark for all. Where it fails, half of them each, so that the one at fault is found."""
        try:
            frame = self._session.sql(" UNION ALL ".join(map(_member, queries))).coalesce(1)
            rows = [tuple(row) for row in frame.collect()]
        except (PySparkException, Py4JJavaError) as error:
            if len(queries) == 1:
                return {queries[0].number: Refusal(_reason(error))}
            half = len(queries) // 2
            return self._ask(queries[:half]) | self._ask(queries[half:])
        found: dict[int, list[Row]] = {query.number: [] for query in queries}
        for number, kinds, texts in rows:
            found[number].append(_values(kinds, texts))
        return {n: Refusal("too many rows") if len(own) > MOST_ROWS else own for n, own in found.items()}


def _member(query: Query) -> str:
    names = [f"c{i}" for i in range(len(query.types))]
    kinds = ", ".join(f"typeof({name})" for name in names)
    texts = ", ".join(f"CAST({name} AS STRING)" for name in names)
    return f"SELECT {query.number}, concat_ws(';', {kinds}), array({texts}) FROM (\n{query.view}\n)"


def _values(kinds: str, texts: Sequence[str | None]) -> Row:
    return tuple(
        None if text is None else _VALUES[kind.partition("(")[0]](text)
        for kind, text in zip(kinds.split(";"), texts, strict=True)
    )


def _reason(error: PySparkException | Py4JJavaError) -> str:
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition or str(error).splitlines()[0]
