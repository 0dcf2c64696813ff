"""Queries that have one result: those that views may answer."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nabla.algebra.expressions import Clock, Expr, Literal
from nabla.algebra.nodes import Node, Opaque, TopK
from nabla.calculus.obstacles import expressions
from nabla.frontends.spark_sql.read_query import NotReadable

_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{2}){0,2}")
"""Time zones that are an offset, whose clocks are never set back."""


def check_one_result(plan: Node, zone: str) -> None:
    """Raise NotReadable for a query whose rows depend on chance or on the time, or cannot be said in SQL again."""
    for node in plan.walk():
        if isinstance(node, Opaque):
            raise NotReadable("it has a part for which there is no algebra")
        if isinstance(node, TopK) and not node.order:
            raise NotReadable("LIMIT without ORDER BY may give any rows")
        for e, _ in expressions(node):
            if not e.deterministic or any(isinstance(part, Clock) for part in e.walk()):
                raise NotReadable("it uses the clock or a function that gives another value each time")
            if any(_occurs_twice(part, zone) for part in e.walk()):
                raise NotReadable(f"it names a moment that occurs twice in {zone}")


def _occurs_twice(part: Expr, zone: str) -> bool:
    """Whether the text of a moment means two of them, since clocks were set back."""
    if not isinstance(part, Literal) or part.type != "timestamp" or part.value is None:
        return False
    try:
        local = datetime.fromisoformat(part.value).replace(tzinfo=ZoneInfo(zone))
    except (ValueError, ZoneInfoNotFoundError):
        return not _OFFSET.fullmatch(zone)
    first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
    return first is not None and second is not None and first > second
