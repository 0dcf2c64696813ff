"""The workload that views are chosen for: queries with weights, given by a user or recorded by the lake."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp

from nabla.algebra.nodes import Node
from nabla.errors import NablaError, wrong_argument
from nabla.lake.context import LakeContext
from nabla.storage import query_log

RECORD = "NABLA_RECORD_QUERIES"
"""The environment variable that turns recording off."""
_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
)
_A_DAY = "2000-01-01"

Query = str | DataFrame
Workload = Iterable[Query | tuple[Query, float]]


@dataclass(frozen=True)
class Asked:
    """A query of a workload: its name for people, its plan, and how often it is asked."""

    name: str
    plan: Node
    weight: float


@dataclass(frozen=True)
class Unreadable:
    """A query that cannot be advised on, and why."""

    name: str
    reason: str


def record_query(context: LakeContext, text: str, rows: float = 0.0, views: Sequence[str] = ()) -> None:
    """Note a query without its constants, the rows that it reads and the views that answered it, unless that is turned off."""
    if os.environ.get(RECORD, "").lower() in ("off", "0", "false", "no"):
        return
    found = without_constants(text)
    if found is not None:
        query_log.append_query(context.path, found, rows, views)


@lru_cache(256)
def without_constants(text: str) -> str | None:
    """A query with a neutral value in the place of each constant that it compares with, and of each text; None if it is not
    understood, or no query."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except sqlglot.errors.SqlglotError:
        return None
    if not isinstance(tree, exp.Query):
        return None
    for literal in list(tree.find_all(exp.Literal)):
        compared = literal.find_ancestor(*_COMPARISONS) is not None
        if literal.is_string:
            is_time = isinstance(literal.parent, exp.Cast | exp.TsOrDsToDate | exp.Date)
            literal.replace(exp.Literal.string(_A_DAY if is_time else ""))
        elif compared and not isinstance(literal.parent, exp.Interval):
            literal.replace(exp.Literal.number(0))
    return tree.sql(dialect="spark")


def recorded(context: LakeContext) -> list[tuple[str, float]]:
    """The queries that the lake was asked, with the number of times."""
    return [(text, float(n)) for text, n in Counter(query_log.read_queries(context.path)).items()]


def listed(workload: Workload) -> list[tuple[Query, float]]:
    """The queries of a user with their weights."""
    if isinstance(workload, str | DataFrame) or not isinstance(workload, Iterable):
        raise wrong_argument("workload", workload, "a list of queries, or of pairs of a query and a weight")
    found: list[tuple[Query, float]] = []
    for item in workload:
        query, weight = item if isinstance(item, tuple) and len(item) == 2 else (item, 1.0)
        fits = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight < float("inf")
        if not isinstance(query, str | DataFrame) or not fits:
            raise NablaError(
                "NABLA_ARGUMENT",
                f"{str(item)[:80]!r} is no query with a weight",
                place="workload=",
                remedy='Pass queries, or pairs such as ("SELECT …", 10).',
            )
        found.append((query, float(weight)))
    return found


def name_of(query: Query, place: int) -> str:
    """A short name of a query for people: the beginning of its text."""
    if isinstance(query, DataFrame):
        return f"DataFrame {place + 1}"
    words = " ".join(query.split())
    return words if len(words) <= 60 else f"{words[:57]}…"
